package access_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/sso"
)

var root = access.With(context.Background(), access.Principal{User: "root", Admin: true})

func directory(t *testing.T) (*access.Users, *sqlledger.Ledger) {
	t.Helper()
	l := must(sqlledger.Open(t.Context(), sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "drover.db"), Kinds: []ledger.Kind{access.KindUser}, Key: bytes.Repeat([]byte{7}, ledger.KeySize),
	}))(t)
	t.Cleanup(func() { l.Close() })
	return access.NewUsers(l), l
}

func TestUsers(t *testing.T) {
	users, l := directory(t)
	const first, second = "correct horse", "battery staple"
	alice := must(users.Create(root, access.User{Name: "Alice", Org: "acme", Account: "7", OrgAdmin: true, Roles: []string{"drover-admin"}}, first))(t)
	if alice.Name != "alice" || alice.ID == "" {
		t.Fatalf("created %+v", alice)
	}
	who := must(users.Check(t.Context(), "ALICE", first))(t)
	want := sso.Identity{ID: alice.ID, Name: "alice", Org: "acme", Account: "7", OrgAdmin: true, Roles: []string{"drover-admin"}, Epoch: 1}
	if d := cmp.Diff(want, who); d != "" {
		t.Error(d)
	}
	if _, err := users.Create(root, access.User{Name: "alice"}, first); fault.Reason(err) != "exists" {
		t.Errorf("a second alice: %v", err)
	}
	if err := users.SetPassword(root, "alice", second); err != nil {
		t.Fatal(err)
	}
	if _, err := users.Check(t.Context(), "alice", first); fault.Reason(err) != "login" {
		t.Errorf("the old password: %v", err)
	}
	if who := must(users.Check(t.Context(), "alice", second))(t); who.Epoch != 2 {
		t.Errorf("a new password leaves logins of the old one: epoch %d", who.Epoch)
	}
	must(users.Create(root, access.User{Name: "bob", Org: "initech"}, first))(t)
	list, total, err := users.List(root, "acme", 0, 10)
	if err != nil || total != 1 {
		t.Fatalf("%d users of acme, %v", total, err)
	}
	if d := cmp.Diff([]access.User{alice}, list, cmpopts.IgnoreFields(access.User{}, "Created")); d != "" {
		t.Error(d)
	}
	if err := users.Delete(root, "alice"); err != nil {
		t.Fatal(err)
	}
	if _, err := users.Check(t.Context(), "alice", second); fault.Reason(err) != "login" {
		t.Errorf("a deleted user: %v", err)
	}
	if _, err := users.Find(t.Context(), alice.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a deleted user is found: %v", err)
	}
	again := must(users.Create(root, access.User{Name: "alice"}, first))(t)
	if again.ID == alice.ID {
		t.Error("an id was used again for somebody else")
	}
	log := must(json.Marshal(must(l.Changes(t.Context(), ledger.ChangeQuery{}))(t)))(t)
	for _, secret := range []string{first, second, "argon2id"} {
		if strings.Contains(string(log), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}

func TestUsersRefuse(t *testing.T) {
	users, _ := directory(t)
	const good = "correct horse"
	must(users.Create(root, access.User{Name: "alice", Org: "acme"}, good))(t)
	for name, tc := range map[string]struct {
		reason   string
		user     access.User
		password string
	}{
		"no name":     {"there is nothing to log in with", access.User{}, good},
		"blank":       {"names end in logs", access.User{Name: "a b"}, good},
		"control":     {"names end in logs", access.User{Name: "a\nb"}, good},
		"long":        {"and in columns", access.User{Name: strings.Repeat("a", 300)}, good},
		"system":      {"nobody signs as the loop", access.User{Name: "system"}, good},
		"agent":       {"nor as an agent", access.User{Name: "agent:c1"}, good},
		"program":     {"nor as a program", access.User{Name: "service-account-x"}, good},
		"agent role":  {"a person is no agent", access.User{Name: "bob", Roles: []string{"fleetshard_operator"}}, good},
		"admin of no": {"an admin of which organisation?", access.User{Name: "bob", OrgAdmin: true}, good},
		"short":       {"a password that is guessed at once", access.User{Name: "bob"}, "1234567"},
		"huge":        {"hashing costs", access.User{Name: "bob"}, strings.Repeat("x", 513)},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := users.Create(root, tc.user, tc.password)
			if !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: got %v", tc.reason, err)
			}
			if err != nil && strings.Contains(err.Error(), tc.password) {
				t.Errorf("the error holds the password: %v", err)
			}
		})
	}
	for name, tc := range map[string]struct{ reason, user, password string }{
		"wrong":   {"the password is wrong", "alice", good + "!"},
		"empty":   {"there is no password", "alice", ""},
		"nobody":  {"there is no such user", "nobody", good},
		"control": {"no user can have that name", "a\x00b", good},
		"huge":    {"nor that one", strings.Repeat("a", 100000), good},
		"long":    {"no user can have that password", "alice", strings.Repeat("x", 100000)},
	} {
		t.Run("login "+name, func(t *testing.T) {
			_, err := users.Check(t.Context(), tc.user, tc.password)
			if !fault.Is(err, fault.Denied) || err.Error() != "the name or the password is wrong" {
				t.Errorf("%s: got %v, which tells what is wrong", tc.reason, err)
			}
		})
	}
	mallory := access.With(t.Context(), access.Principal{User: "mallory", Org: "acme", OrgAdmin: true})
	_, created := users.Create(mallory, access.User{Name: "eve"}, good)
	_, got := users.Get(mallory, "alice")
	_, _, listed := users.List(mallory, "", 0, 10)
	for verb, err := range map[string]error{
		"create": created, "get": got, "list": listed,
		"set password": users.SetPassword(mallory, "alice", good), "delete": users.Delete(mallory, "alice"),
	} {
		if !fault.Is(err, fault.Denied) {
			t.Errorf("%s by somebody who is no operator: %v", verb, err)
		}
	}
}

// asked counts what the directory asks the ledger.
type asked struct {
	access.Store
	calls []string
}

func (a *asked) Lookup(ctx context.Context, n ledger.Name) (ledger.Ref, error) {
	a.calls = append(a.calls, "lookup")
	return a.Store.Lookup(ctx, n)
}

func (a *asked) Get(ctx context.Context, r ledger.Ref) (ledger.Object, error) {
	a.calls = append(a.calls, "get")
	return a.Store.Get(ctx, r)
}

func (a *asked) Unseal(ctx context.Context, ref string) ([]byte, error) {
	a.calls = append(a.calls, "unseal")
	return a.Store.Unseal(ctx, ref)
}

func TestStrangersCostTheSame(t *testing.T) {
	_, l := directory(t)
	counted := &asked{Store: l}
	users := access.NewUsers(counted)
	must(users.Create(root, access.User{Name: "alice"}, "correct horse"))(t)
	calls := map[string][]string{}
	for _, name := range []string{"alice", "nobody"} {
		counted.calls = nil
		if _, err := users.Check(t.Context(), name, "a guess of that"); fault.Reason(err) != "login" {
			t.Fatal(err)
		}
		calls[name] = counted.calls
	}
	if d := cmp.Diff(calls["alice"], calls["nobody"]); d != "" || len(calls["alice"]) != 3 {
		t.Errorf("the time tells who is there: %s", d)
	}
}
