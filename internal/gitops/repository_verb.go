package gitops

import (
	"context"
	"regexp"
	"strings"
	"unicode"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
)

// RepositoryOrder is a credential that Drover's API is asked to keep.
type RepositoryOrder struct {
	Name, Workspace, URL string
	Username, Password   string
	SSHKey, KnownHosts   string
}

var orderName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

func checkOrderName(name string) error {
	if !orderName.MatchString(name) {
		return fault.New(fault.Invalid, "%.64q is no name: use up to 63 small letters, digits and dashes", name).Because("name")
	}
	return nil
}

func (o RepositoryOrder) check() error {
	if err := checkOrderName(o.Name); err != nil {
		return err
	}
	if why := checkRepository(o.URL); why != "" {
		return fault.New(fault.Invalid, "%s", why).Because("url")
	}
	at := source.Location{Repository: o.URL}
	if err := at.Check(); err != nil {
		return err
	}
	a, err := at.Address()
	bad := func(why string) error { return fault.New(fault.Invalid, "%s", why).Because("credential") }
	switch {
	case err != nil:
		return err
	case a.Scheme == "file":
		return fault.New(fault.Invalid, "the repository URL must begin with https:// or ssh://").Because("url")
	case o.Password == "" && o.SSHKey == "":
		return bad("no credential is given: name a user with a password or a token, or an SSH key")
	case a.Scheme != "ssh" && o.SSHKey != "":
		return bad("an SSH key opens no https address: write ssh://git@host/org/repo")
	case max(len(o.Password), len(o.SSHKey)) > maxSecretValue || len(o.KnownHosts) > maxKnownHosts || len(o.Username) > maxUser:
		return bad("the credential is too large")
	case hidden(o.Username) || hidden(strings.TrimRightFunc(o.Password, unicode.IsSpace)) && o.SSHKey == "":
		return bad("the user or the password holds characters that cannot be seen")
	}
	return nil
}

func repositoryName(workspace, name string) ledger.Name {
	return ledger.Name{Space: "repository/" + workspace, Name: name}
}

// PutRepository makes a credential or replaces its secrets. Faults: Invalid, Denied,
// NotFound (workspace).
func (s *Service) PutRepository(ctx context.Context, o RepositoryOrder) (Repository, error) {
	if err := o.check(); err != nil {
		return Repository{}, err
	}
	for attempt := 0; ; attempt++ {
		r, err := s.putRepository(ctx, o)
		if !again(err, attempt) {
			return r, err
		}
	}
}

func (s *Service) putRepository(ctx context.Context, o RepositoryOrder) (Repository, error) {
	ws, puts, claims, err := s.ownWorkspace(ctx, o.Workspace)
	if err != nil {
		return Repository{}, err
	}
	var r Repository
	name := repositoryName(ws.ID, o.Name)
	switch held, err := s.Store.Lookup(ctx, name); {
	case err == nil:
		found, err := s.Store.Get(ctx, held)
		if err != nil {
			return r, err
		}
		if r, err = sound(ctx, s, found, DecodeRepository); err != nil {
			return r, err
		}
		if err := mayChange(ctx, r.Object, r.Spec.Origin); err != nil {
			return r, err
		}
		if r.Spec.Deleted {
			return r, fault.New(fault.Conflict, "the credential %q is being deleted: try again in a moment", o.Name).Because("deleting")
		}
	case fault.Is(err, fault.NotFound):
		r.Object = ledger.Object{
			Ref: ledger.Ref{Kind: KindRepository.Name, ID: ledger.NewID()}, Org: ws.Org, Owner: access.From(ctx).User,
			Name: o.Name, Phase: Pending, Parent: ws.ID,
		}
		claims = append(claims, ledger.Claim{Name: name, Holder: r.Ref})
	default:
		return r, err
	}
	want := wantedRepository{
		spec:     RepositorySpec{URL: o.URL, Username: o.Username, KnownHosts: o.KnownHosts},
		password: []byte(o.Password), sshKey: []byte(o.SSHKey),
	}
	if err := s.writeRepository(ctx, r, want, ledger.Set{Actor: writer(ctx), Puts: puts, Claims: claims}); err != nil {
		return Repository{}, err
	}
	now, err := s.Store.Get(ctx, r.Ref)
	if err != nil {
		return Repository{}, err
	}
	return DecodeRepository(now)
}

// mayChange refuses a change of what is somebody else's, or a custom resource's.
func mayChange(ctx context.Context, o ledger.Object, of *Origin) error {
	switch {
	case of != nil:
		return fault.New(fault.Conflict, "%s %q is a custom resource in namespace %s: change it there", o.Kind, o.Name, of.Namespace).Because("custom-resource")
	case !access.From(ctx).MayChange(o.Org, o.Owner):
		return fault.New(fault.Denied, "only its owner and the administrators of the organisation may change %s %q", o.Kind, o.Name).Because("denied")
	}
	return nil
}

// findOwn returns what the caller sees under an id or a name.
func (s *Service) findOwn(ctx context.Context, kind, ref string) (ledger.Object, error) {
	absent := fault.New(fault.NotFound, "there is no %s %.128q", kind, ref).Because(kind)
	if ref == "" || hidden(ref) || len(ref) > 253 {
		return ledger.Object{}, absent
	}
	p := access.From(ctx)
	if p.User == "" && !p.Admin {
		return ledger.Object{}, absent
	}
	o, err := s.Store.Get(ctx, ledger.Ref{Kind: kind, ID: ref})
	switch {
	case err == nil && o.Deleted.IsZero() && p.Sees(o.Org, o.Owner):
		return o, nil
	case err != nil && !fault.Is(err, fault.NotFound):
		return o, err
	}
	scope := map[string]any{"name": ref}
	for column, v := range p.Scope() {
		scope[column] = v
	}
	list, err := s.Store.List(ctx, ledger.Query{Kind: kind, Scope: scope, Limit: 2})
	switch {
	case err != nil:
		return ledger.Object{}, err
	case len(list) == 0:
		return ledger.Object{}, absent
	case len(list) > 1:
		return ledger.Object{}, fault.New(fault.Conflict, "there are several called %q: name one by its id", ref).Because("ambiguous")
	}
	return list[0], nil
}

// DeleteRepository takes a credential away; by id or name.
func (s *Service) DeleteRepository(ctx context.Context, ref string) error {
	for attempt := 0; ; attempt++ {
		err := s.deleteRepository(ctx, ref)
		if !again(err, attempt) {
			return err
		}
	}
}

func (s *Service) deleteRepository(ctx context.Context, ref string) error {
	o, err := s.findOwn(ctx, KindRepository.Name, ref)
	if err != nil {
		return err
	}
	r, err := sound(ctx, s, o, DecodeRepository)
	if err != nil {
		return err
	}
	if err := mayChange(ctx, o, r.Spec.Origin); err != nil || r.Spec.Deleted {
		return err
	}
	return s.dropRepository(ctx, r, writer(ctx))
}
