package access_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
)

func TestRights(t *testing.T) {
	const org, owner = "acme", "alice"
	type rights struct{ See, Change bool }
	for name, tc := range map[string]struct {
		reason string
		who    access.Principal
		want   rights
	}{
		"nobody":              {"the zero principal sees nothing", access.Principal{}, rights{}},
		"admin":               {"an operator may do everything", access.Principal{User: "root", Admin: true}, rights{true, true}},
		"owner":               {"one's own", access.Principal{User: owner, Org: org}, rights{true, true}},
		"colleague":           {"the organisation's are seen, not touched", access.Principal{User: "bob", Org: org}, rights{See: true}},
		"org admin":           {"the organisation's admin may touch them", access.Principal{User: "bob", Org: org, OrgAdmin: true}, rights{true, true}},
		"foreign org admin":   {"another organisation's admin is a stranger", access.Principal{User: "eve", Org: "evil", OrgAdmin: true}, rights{}},
		"same name elsewhere": {"a user name means nothing in another organisation", access.Principal{User: owner, Org: "evil"}, rights{}},
		"same name, no org":   {"a user name alone opens nothing of an organisation", access.Principal{User: owner}, rights{}},
		"agent":               {"an agent is no user", access.Principal{Cluster: "c1"}, rights{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := rights{tc.who.Sees(org, owner), tc.who.MayChange(org, owner)}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("%s: %s", tc.reason, d)
			}
		})
	}
}

func TestWithoutAnOrganisation(t *testing.T) {
	alice := access.Principal{User: "alice"}
	if !alice.Sees("", "alice") || !alice.MayChange("", "alice") {
		t.Error("a user without an organisation does not see their own")
	}
	if alice.Sees("", "bob") {
		t.Error("a user without an organisation sees another's")
	}
}

func TestNobodySignsAsTheSystem(t *testing.T) {
	for _, name := range []string{"system", "agent:local"} {
		if got := (access.Principal{User: name}).Actor(); got != "user:"+name {
			t.Errorf("a user named %s signs as %s", name, got)
		}
	}
}

func TestContext(t *testing.T) {
	if got := access.From(context.Background()); got.Sees("", "") {
		t.Error("an empty context carries a principal that sees something")
	}
	want := access.Principal{Cluster: "c1"}
	got := access.From(access.With(context.Background(), want))
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got.Actor() != "agent:c1" {
		t.Errorf("an agent signs as %q", got.Actor())
	}
}
