// Package builtin is Drover's own identity provider: an OpenID Connect issuer
// that keeps its clients, logins and keys in the ledger, so that every replica
// can answer any request, and that lives at the paths where clients written for
// Keycloak look for it.
//
// The protocol is that of a certified library; this package owns what is kept,
// the login page, and the claims. It must not know what accounts are for, where
// users are kept, nor how tokens are verified elsewhere in the server.
package builtin

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
)

// Store is the part of the ledger that is needed.
type Store interface {
	ledger.Committer
	Get(ctx context.Context, ref ledger.Ref) (ledger.Object, error)
	List(ctx context.Context, query ledger.Query) ([]ledger.Object, error)
}

// Keeper is the part of the ledger that holds secrets.
type Keeper interface {
	Seal(ctx context.Context, plaintext []byte) (ref string, err error)
	Unseal(ctx context.Context, ref string) ([]byte, error)
	Shred(ctx context.Context, ref string) error
}

// Keys are the realm's signing keys.
type Keys interface {
	Name() string // the iss claim
	SigningKey(ctx context.Context) (jose.JSONWebKey, error)
	PublicKeys(ctx context.Context) ([]jose.JSONWebKey, error)
}

// Users is the directory of people who may log in.
type Users interface {
	// Check answers Denied for a wrong name as for a wrong password, after the
	// same time.
	Check(ctx context.Context, name, password string) (sso.Identity, error)
	// Find answers NotFound when a user is gone.
	Find(ctx context.Context, id string) (sso.Identity, error)
}

// Config of the provider. Store, Keeper, Keys, Users and BaseURL are needed.
type Config struct {
	Store   Store
	Keeper  Keeper
	Keys    Keys   // its Name must be Issuer(BaseURL, Realm)
	Users   Users  // who may log in
	BaseURL string // where the server is reached from outside, without /auth
	Realm   string // default "drover"

	// PublicClient is the id of the client that command lines log in with: no
	// secret, PKCE, and redirects to any port of the loopback interface.
	// Default "drover-cli".
	PublicClient string
	// PublicRedirects are the paths of its redirects. Default: "/", "/callback",
	// "/sso-redhat-callback" and "/mas-sso-callback".
	PublicRedirects []string
	Audience        string        // aud of every token besides its client; default none
	AccessTTL       time.Duration // of access and id tokens; default 5m, at most 24h
	RefreshTTL      time.Duration // how long a login may be idle; default 10h
	CodeTTL         time.Duration // of an authorization code; default 1m
	// Address tells who asks, for the back-off after failed logins. Default: the
	// peer of the connection. Behind a proxy, what the proxy says.
	Address func(*http.Request) string
	Clock   func() time.Time // default time.Now
}

// Issuer is the iss claim and the URL of a realm.
func Issuer(base, realm string) string {
	if realm == "" {
		realm = "drover"
	}
	return strings.TrimSuffix(base, "/") + "/auth/realms/" + realm
}

// Provider is the identity provider. Run keeps it tidy; it starts no goroutine
// of its own.
type Provider struct {
	Config
	issuer  string
	base    *url.URL
	box     *box
	backoff *backoff
	server  *server
	handler http.Handler
}

var _ sso.Provider = (*Provider)(nil)

// New checks the configuration; it does not ask the ledger.
func New(c Config) (*Provider, error) {
	if c.Store == nil || c.Keeper == nil || c.Keys == nil || c.Users == nil {
		return nil, fault.New(fault.Internal, "the identity provider needs a store, a keeper, keys and users")
	}
	c.defaults()
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.RawQuery != "" || base.Fragment != "" {
		return nil, fault.New(fault.Invalid, "the base URL of the identity provider must be like https://drover.example.org")
	}
	if url.PathEscape(c.Realm) != c.Realm || strings.Trim(c.Realm, ".") == "" {
		return nil, fault.New(fault.Invalid, "%q cannot be the name of a realm: use letters, digits and dashes", c.Realm)
	}
	p := &Provider{Config: c, issuer: Issuer(c.BaseURL, c.Realm), base: base}
	if c.Keys.Name() != p.issuer {
		return nil, fault.New(fault.Internal, "the keys are those of %q, not of %q", c.Keys.Name(), p.issuer)
	}
	if c.AccessTTL < time.Second || c.AccessTTL > 24*time.Hour {
		return nil, fault.New(fault.Invalid, "an access token lives for between 1s and 24h")
	}
	p.box = &box{store: c.Store, keeper: c.Keeper}
	p.backoff = newBackoff(c.Clock)
	if p.server, err = newServer(p); err != nil {
		return nil, fault.New(fault.Internal, "cannot set up the identity provider: %w", err)
	}
	p.handler = p.routes()
	return p, nil
}

func (c *Config) defaults() {
	if c.Realm == "" {
		c.Realm = "drover"
	}
	if c.PublicClient == "" {
		c.PublicClient = "drover-cli"
	}
	if c.PublicRedirects == nil {
		c.PublicRedirects = []string{"/", "/callback", "/sso-redhat-callback", "/mas-sso-callback"}
	}
	if c.AccessTTL == 0 {
		c.AccessTTL = 5 * time.Minute
	}
	if c.RefreshTTL == 0 {
		c.RefreshTTL = 10 * time.Hour
	}
	if c.CodeTTL == 0 {
		c.CodeTTL = time.Minute
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Address == nil {
		c.Address = func(r *http.Request) string {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			if err != nil {
				return r.RemoteAddr
			}
			return host
		}
	}
}

// Endpoints for users of the accounts.
func (p *Provider) Endpoints() sso.Endpoints {
	return sso.Endpoints{
		Name: "builtin", BaseURL: strings.TrimSuffix(p.BaseURL, "/"), Realm: p.Realm, Issuer: p.issuer,
		TokenURL: p.server.TokenEndpoint().Absolute(p.issuer), JWKSURL: p.server.KeysEndpoint().Absolute(p.issuer),
	}
}

// Handler serves the issuer; see Paths.
func (p *Provider) Handler() http.Handler { return p.handler }

// Paths are where the handler must be found, as patterns of http.ServeMux.
func (p *Provider) Paths() []string {
	realm := p.path("")
	return []string{realm, realm + "/protocol/", realm + "/.well-known/", strings.TrimSuffix(p.base.Path, "/") + discoveryPath}
}

// path of something in the realm, as requests have it.
func (p *Provider) path(of string) string {
	return strings.TrimSuffix(p.base.Path, "/") + "/auth/realms/" + p.Realm + of
}

// Run removes what is over, a bounded piece at a time, until ctx ends.
func (p *Provider) Run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			for range 20 { // pages; what stays is over all the same, and is tried again
				if n, err := p.Sweep(ctx); err != nil || n < sweepSize {
					break
				}
			}
		}
	}
}

// sweepSize is how many logins one Sweep removes at most.
const sweepSize = 200

// Sweep removes logins that ended an hour ago, at most a page of them, and
// tells how many. Nothing depends on it: what is over is refused.
func (p *Provider) Sweep(ctx context.Context) (int, error) {
	over, err := p.Store.List(ctx, ledger.Query{
		Kind: KindSession.Name, Limit: sweepSize,
		Where: ledger.Compare{Column: "expires", Op: ledger.Lt, Values: []any{p.Clock().Add(-time.Hour)}},
	})
	if err != nil {
		return 0, fmt.Errorf("cannot list logins that are over: %w", err)
	}
	n := 0
	for _, o := range over {
		o.Deleted, o.Phase, o.Spec, o.Fields = p.Clock(), ended, nil, nil
		_, err := p.Store.Commit(ctx, ledger.Set{
			Actor: "system", Cause: ledger.BySchedule("expiry"),
			Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: "delete"}},
		})
		if fault.Is(err, fault.Conflict) {
			continue // another replica was first
		}
		if err != nil {
			return n, fmt.Errorf("cannot remove a login that is over: %w", err)
		}
		n++
	}
	return n, nil
}

// Kinds declares what is kept to the ledger.
func Kinds() []ledger.Kind { return []ledger.Kind{KindClient, KindSession, kindBox} }

var _ op.Storage = (*storage)(nil)
