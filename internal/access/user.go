package access

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
)

// KindUser is the kind of people who log in at the server's own identity
// provider. The object's owner is the user's name.
var KindUser = ledger.Kind{Name: "user", Totals: [][]string{{}, {"org"}}}

// User is a person in the directory. It holds nothing of the password.
type User struct {
	ID       string
	Name     string // what they log in with; lower case
	Org      string
	Account  string
	OrgAdmin bool
	Roles    []string // RoleAdmin makes an operator
	Created  time.Time
}

// userSpec is the spec of such an object.
type userSpec struct {
	Account  string   `json:"account,omitempty"`
	OrgAdmin bool     `json:"orgAdmin,omitempty"`
	Roles    []string `json:"roles,omitempty"`
	Password string   `json:"password"` // a sealed hash
	Epoch    int64    `json:"epoch"`
}

// Users is the directory. Its verbs are for operators, who come with the
// context; Check and Find are for the identity provider.
type Users struct {
	store Store
	decoy func() string // a hash that no password has, for users that are not there
}

// NewUsers makes a directory in the ledger.
func NewUsers(store Store) *Users {
	return &Users{store: store, decoy: sync.OnceValue(func() string {
		hash, _ := hashPassword(context.Background(), ledger.NewID())
		return hash
	})}
}

// Create adds a user. Faults: Denied, Invalid, Conflict (reason "exists").
func (u *Users) Create(ctx context.Context, user User, password string) (User, error) {
	if err := operator(ctx); err != nil {
		return User{}, err
	}
	user.Name = strings.ToLower(user.Name)
	if err := user.check(); err != nil {
		return User{}, err
	}
	if err := checkPassword(password); err != nil {
		return User{}, err
	}
	ref, err := u.seal(ctx, password)
	if err != nil {
		return User{}, err
	}
	o := ledger.Object{
		Ref: ledger.Ref{Kind: KindUser.Name, ID: ledger.NewID()}, Org: user.Org, Owner: user.Name, Name: user.Name, Phase: "ready",
	}
	spec := userSpec{Account: user.Account, OrgAdmin: user.OrgAdmin, Roles: user.Roles, Password: ref, Epoch: 1}
	stored, err := u.put(ctx, o, spec, ledger.Set{Claims: []ledger.Claim{{Name: nameOf(user.Name), Holder: o.Ref}}}, "create")
	if err != nil {
		ledger.Discard(ctx, u.store, err, ref)
		if fault.Reason(err) == "name-taken" {
			err = fault.New(fault.Conflict, "there is a user %q already", user.Name).Because("exists")
		}
		return User{}, err
	}
	return decodeUser(stored), nil
}

// SetPassword gives a user another password and ends their logins.
func (u *Users) SetPassword(ctx context.Context, name, password string) error {
	if err := operator(ctx); err != nil {
		return err
	}
	if err := checkPassword(password); err != nil {
		return err
	}
	o, spec, err := u.byName(ctx, name)
	if err != nil {
		return err
	}
	old := spec.Password
	if spec.Password, err = u.seal(ctx, password); err != nil {
		return err
	}
	spec.Epoch++
	if _, err := u.put(ctx, o, spec, ledger.Set{}, "password"); err != nil {
		ledger.Discard(ctx, u.store, err, spec.Password)
		return err
	}
	_ = u.store.Shred(ctx, old) // a hash that nothing points to any more; harmless if it stays
	return nil
}

// Get returns a user by name.
func (u *Users) Get(ctx context.Context, name string) (User, error) {
	if err := operator(ctx); err != nil {
		return User{}, err
	}
	o, _, err := u.byName(ctx, name)
	return decodeUser(o), err
}

// List returns a page of users by their ids, of one organisation if it is named,
// and the number of all.
func (u *Users) List(ctx context.Context, org string, offset, limit int) ([]User, int64, error) {
	if err := operator(ctx); err != nil {
		return nil, 0, err
	}
	q := ledger.Query{Kind: KindUser.Name, Offset: offset, Limit: limit}
	if org != "" {
		q.Scope = map[string]any{"org": org}
	}
	objects, err := u.store.List(ctx, q)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot list users: %w", err)
	}
	total, err := u.store.Total(ctx, q)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot count users: %w", err)
	}
	out := make([]User, 0, len(objects))
	for _, o := range objects {
		out = append(out, decodeUser(o))
	}
	return out, total, nil
}

// Delete removes a user; their logins end and their name is free again.
func (u *Users) Delete(ctx context.Context, name string) error {
	if err := operator(ctx); err != nil {
		return err
	}
	o, spec, err := u.byName(ctx, name)
	if err != nil {
		return err
	}
	old := spec.Password
	o.Deleted, o.Phase, spec.Password = time.Now(), "deleted", ""
	if _, err := u.put(ctx, o, spec, ledger.Set{Frees: []ledger.Claim{{Name: nameOf(o.Name), Holder: o.Ref}}}, "delete"); err != nil {
		return err
	}
	_ = u.store.Shred(ctx, old)
	return nil
}

// Check returns who logs in with this name and password. Faults: Denied (reason
// "login") whatever is wrong with them, after the same time; Unavailable.
func (u *Users) Check(ctx context.Context, name, password string) (sso.Identity, error) {
	denied := fault.New(fault.Denied, "the name or the password is wrong").Because("login")
	if len(password) > maxPassword || !presentable(name) {
		return sso.Identity{}, denied
	}
	hash := u.decoy()
	o, spec, err := u.byName(ctx, name)
	switch {
	case fault.Is(err, fault.NotFound):
		// The same questions, so that the time does not tell who is there.
		_, _ = u.store.Get(ctx, ledger.Ref{Kind: KindUser.Name, ID: "nobody"})
		_, _ = u.store.Unseal(ctx, "secret:nobody")
	case err != nil:
		return sso.Identity{}, err
	default:
		sealed, err := u.store.Unseal(ctx, spec.Password)
		if err != nil {
			return sso.Identity{}, fmt.Errorf("cannot open the hash of a password: %w", err)
		}
		hash = string(sealed)
	}
	same, err := samePassword(ctx, hash, password)
	if err != nil {
		return sso.Identity{}, err
	}
	if !same || o.ID == "" {
		return sso.Identity{}, denied
	}
	return identity(o, spec), nil
}

// Find returns a user by id, for logins that go on. NotFound if they are gone.
func (u *Users) Find(ctx context.Context, id string) (sso.Identity, error) {
	o, err := u.store.Get(ctx, ledger.Ref{Kind: KindUser.Name, ID: id})
	if err != nil {
		return sso.Identity{}, fmt.Errorf("cannot read a user: %w", err)
	}
	if !o.Deleted.IsZero() {
		return sso.Identity{}, fault.New(fault.NotFound, "the user is gone")
	}
	var spec userSpec
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return sso.Identity{}, fault.New(fault.Internal, "user %s is damaged: %w", o.ID, err)
	}
	return identity(o, spec), nil
}

func (u *Users) seal(ctx context.Context, password string) (string, error) {
	hash, err := hashPassword(ctx, password)
	if err != nil {
		return "", err
	}
	ref, err := u.store.Seal(ctx, []byte(hash))
	if err != nil {
		return "", fmt.Errorf("cannot seal the hash of a password: %w", err)
	}
	return ref, nil
}

func (u *Users) put(ctx context.Context, o ledger.Object, spec userSpec, set ledger.Set, op string) (ledger.Object, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return o, fault.New(fault.Internal, "cannot write a user: %w", err)
	}
	o.Spec = data
	set.Actor, set.Cause = From(ctx).Actor(), ledger.CauseOf(ctx)
	set.Puts = []ledger.Put{{Object: o, Expect: o.Version, Op: op}}
	result, err := u.store.Commit(ctx, set)
	if err != nil {
		return o, fmt.Errorf("cannot write a user: %w", err)
	}
	if len(result.Objects) == 1 {
		o = result.Objects[0]
	}
	return o, nil
}

func (u *Users) byName(ctx context.Context, name string) (ledger.Object, userSpec, error) {
	name = strings.ToLower(name)
	missing := fault.New(fault.NotFound, "there is no user %.128q", name)
	if name == "" || !presentable(name) {
		return ledger.Object{}, userSpec{}, missing
	}
	ref, err := u.store.Lookup(ctx, nameOf(name))
	if fault.Is(err, fault.NotFound) {
		return ledger.Object{}, userSpec{}, missing
	}
	if err != nil {
		return ledger.Object{}, userSpec{}, fmt.Errorf("cannot look up a user: %w", err)
	}
	o, err := u.store.Get(ctx, ref)
	if err != nil {
		return ledger.Object{}, userSpec{}, fmt.Errorf("cannot read a user: %w", err)
	}
	var spec userSpec
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return ledger.Object{}, userSpec{}, fault.New(fault.Internal, "user %s is damaged: %w", o.ID, err)
	}
	return o, spec, nil
}

func nameOf(user string) ledger.Name { return ledger.Name{Space: "user", Name: user} }

func operator(ctx context.Context) error {
	if !From(ctx).Admin {
		return fault.New(fault.Denied, "only an operator of this control plane may see and change its users")
	}
	return nil
}

func (u User) check() error {
	for _, s := range append([]string{u.Name, u.Org, u.Account}, u.Roles...) {
		if !presentable(s) {
			return fault.New(fault.Invalid, "name, organisation, account and roles are printable text of at most %d bytes", maxName)
		}
	}
	switch {
	case u.Name == "" || strings.ContainsAny(u.Name, " /:"):
		return fault.New(fault.Invalid, "a user needs a name without blanks, colons and slashes")
	case u.Name == "system" || strings.HasPrefix(u.Name, "service-account-"):
		return fault.New(fault.Invalid, "the name %q is reserved", u.Name)
	case len(u.Roles) > 50 || slices.Contains(u.Roles, ""):
		return fault.New(fault.Invalid, "a user has at most 50 roles, each with a name")
	case slices.Contains(u.Roles, RoleAgent):
		return fault.New(fault.Invalid, "the role %q is for agents", RoleAgent)
	case u.OrgAdmin && u.Org == "":
		return fault.New(fault.Invalid, "an admin of an organisation needs one")
	}
	return nil
}

func decodeUser(o ledger.Object) User {
	var spec userSpec
	_ = json.Unmarshal(o.Spec, &spec) // what cannot be read is shown without it
	return User{
		ID: o.ID, Name: o.Name, Org: o.Org, Account: spec.Account, OrgAdmin: spec.OrgAdmin, Roles: spec.Roles, Created: o.Created,
	}
}

func identity(o ledger.Object, spec userSpec) sso.Identity {
	return sso.Identity{
		ID: o.ID, Name: o.Name, Org: o.Org, Account: spec.Account, OrgAdmin: spec.OrgAdmin, Roles: spec.Roles, Epoch: spec.Epoch,
	}
}
