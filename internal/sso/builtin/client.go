package builtin

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
)

// KindClient is the kind of clients; the object's id is the client's.
var KindClient = ledger.Kind{Name: "ssoclient", Totals: [][]string{{}}}

const (
	patience = 10 * time.Second // with the ledger, in one call
	maxID    = 200
	maxTexts = 64 << 10 // of a client, in all
)

// clientSpec is the spec of a client. The secret is a sealed hash.
type clientSpec struct {
	Name        string            `json:"name,omitempty"`
	Description string            `json:"description,omitempty"`
	Claims      map[string]string `json:"claims,omitempty"`
	Roles       []string          `json:"roles,omitempty"`
	Redirects   []string          `json:"redirects,omitempty"`
	Secret      string            `json:"secret"`
}

// Apply makes the client as it is described.
func (p *Provider) Apply(ctx context.Context, c sso.Client) error {
	if err := p.check(c); err != nil {
		return err
	}
	return p.persist(ctx, func(ctx context.Context) error { return p.apply(ctx, c) })
}

// persist tries again when another replica wrote the same client meanwhile.
func (p *Provider) persist(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try(ctx)
		if !fault.Is(err, fault.Conflict) {
			return err
		}
		if ctx.Err() != nil {
			return fault.New(fault.Unavailable, "others write the same client all the time: %w", err)
		}
	}
}

func (p *Provider) apply(ctx context.Context, c sso.Client) error {
	o, old, err := p.client(ctx, c.ID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	spec := clientSpec{Name: c.Name, Description: c.Description, Claims: maps.Clone(c.Claims), Roles: slices.Clone(c.Roles), Redirects: slices.Clone(c.Redirects)}
	there := err == nil
	if there && p.holds(ctx, old, c.Secret) == nil {
		spec.Secret = old.Secret
	}
	sealed := ""
	if spec.Secret == "" {
		if sealed, err = p.Keeper.Seal(ctx, salted(c.Secret)); err != nil {
			return fmt.Errorf("cannot seal the hash of a client's secret: %w", err)
		}
		spec.Secret = sealed
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return fault.New(fault.Internal, "cannot write a client: %w", err)
	}
	op := "update"
	if !there {
		op = "create"
	}
	o.Ref, o.Name, o.Phase, o.Spec, o.Deleted = ledger.Ref{Kind: KindClient.Name, ID: c.ID}, c.ID, "ready", data, time.Time{}
	if err := p.write(ctx, o, op); err != nil {
		ledger.Discard(ctx, p.Keeper, err, sealed)
		return err
	}
	if there && sealed != "" && old.Secret != "" {
		_ = p.Keeper.Shred(ctx, old.Secret) // nothing points to it any more; harmless if it stays
	}
	return nil
}

// Get tells what is there, but for the secret, which nobody here knows.
func (p *Provider) Get(ctx context.Context, id string) (sso.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	_, spec, err := p.client(ctx, id)
	if err != nil {
		return sso.Client{}, err
	}
	return sso.Client{
		ID: id, Name: spec.Name, Description: spec.Description,
		Claims: spec.Claims, Roles: spec.Roles, Redirects: spec.Redirects,
	}, nil
}

// Delete removes a client; its logins end.
func (p *Provider) Delete(ctx context.Context, id string) error {
	return p.persist(ctx, func(ctx context.Context) error {
		o, spec, err := p.client(ctx, id)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		o.Deleted, o.Phase, o.Spec = p.Clock(), "deleted", json.RawMessage(`{}`)
		if err := p.write(ctx, o, "delete"); err != nil {
			return err
		}
		_ = p.Keeper.Shred(ctx, spec.Secret)
		return nil
	})
}

// client reads one. A deleted one comes with its object, to be written over.
func (p *Provider) client(ctx context.Context, id string) (ledger.Object, clientSpec, error) {
	missing := fault.New(fault.NotFound, "there is no client %.128q", id)
	if !proper(id) {
		return ledger.Object{}, clientSpec{}, missing
	}
	o, err := p.Store.Get(ctx, ledger.Ref{Kind: KindClient.Name, ID: id})
	if fault.Is(err, fault.NotFound) || err == nil && !o.Deleted.IsZero() {
		return o, clientSpec{}, missing
	}
	if err != nil {
		return o, clientSpec{}, fmt.Errorf("cannot read a client: %w", err)
	}
	var spec clientSpec
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return o, clientSpec{}, fault.New(fault.Internal, "client %s is damaged: %w", id, err)
	}
	return o, spec, nil
}

func (p *Provider) write(ctx context.Context, o ledger.Object, op string) error {
	_, err := p.Store.Commit(ctx, ledger.Set{
		Actor: "system", Cause: ledger.CauseOf(ctx),
		Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: op}},
	})
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", o.Kind, err)
	}
	return nil
}

// holds reports whether this is the client's secret: nil, Denied, or what kept
// it from being compared.
func (p *Provider) holds(ctx context.Context, spec clientSpec, secret string) error {
	kept, err := p.Keeper.Unseal(ctx, spec.Secret)
	if err != nil {
		return fmt.Errorf("cannot open the hash of a client's secret: %w", err)
	}
	if secret == "" || len(kept) != saltSize+sha256.Size || subtle.ConstantTimeCompare(kept, hashed(kept[:saltSize], secret)) != 1 {
		return fault.New(fault.Denied, "the secret is wrong")
	}
	return nil
}

const saltSize = 16

// salted hashes a secret. Programs have long random ones, so that a fast hash
// does; it is sealed besides.
func salted(secret string) []byte {
	salt := make([]byte, saltSize)
	rand.Read(salt) //nolint:errcheck // never fails
	return hashed(salt, secret)
}

func hashed(salt []byte, secret string) []byte {
	sum := sha256.Sum256(append(bytes.Clone(salt), secret...))
	return append(bytes.Clone(salt), sum[:]...)
}

func (p *Provider) check(c sso.Client) error {
	size := len(c.Name) + len(c.Description) + len(c.Secret)
	for k, v := range c.Claims {
		size += len(k) + len(v)
	}
	for _, s := range slices.Concat(c.Roles, c.Redirects) {
		size += len(s)
	}
	switch {
	case !proper(c.ID):
		return fault.New(fault.Invalid, "a client needs an id of at most %d printable bytes without blanks", maxID)
	case c.ID == p.PublicClient:
		return fault.New(fault.Invalid, "the client %q is there already, for command lines", c.ID)
	case c.Secret == "":
		return fault.New(fault.Invalid, "a client needs a secret: one without could be used by anybody")
	case size > maxTexts:
		return fault.New(fault.Invalid, "a client has at most %d bytes of texts", maxTexts)
	}
	for _, r := range c.Redirects {
		u, err := url.Parse(r)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "" || u.User != nil {
			return fault.New(fault.Invalid, "a redirect is a whole URL: %.128q is none", r)
		}
	}
	return nil
}

// proper keeps texts that are no ids away from the ledger.
func proper(id string) bool {
	if id == "" || len(id) > maxID || !utf8.ValidString(id) {
		return false
	}
	for _, r := range id {
		if !unicode.IsPrint(r) || r == ' ' {
			return false
		}
	}
	return true
}
