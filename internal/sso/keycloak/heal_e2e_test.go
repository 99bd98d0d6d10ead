//go:build e2e

package keycloak_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/Nerzal/gocloak/v13"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/sso"
	"github.com/droverhq/drover/internal/sso/ssotest"
	server "github.com/droverhq/drover/test/keycloak"
)

// hand is an administrator who works on the realm by hand.
type hand struct {
	*gocloak.GoCloak
	server *server.Server
	realm  string
}

func byHand(s *server.Server, realm string) hand { return hand{gocloak.NewClient(s.URL), s, realm} }

// token logs in: one lasts a minute, which is less than a test may take.
func (h hand) token(t *testing.T) string {
	t.Helper()
	jwt, err := h.LoginAdmin(t.Context(), h.server.User, h.server.Password, "master")
	if err != nil {
		t.Fatal(err)
	}
	return jwt.AccessToken
}

func (h hand) find(t *testing.T, id string) *gocloak.Client {
	t.Helper()
	found, err := h.GetClients(t.Context(), h.token(t), h.realm, gocloak.GetClientsParams{ClientID: &id})
	if err != nil || len(found) != 1 {
		t.Fatalf("%d clients %q, %v", len(found), id, err)
	}
	return found[0]
}

func TestWhatIsChangedByHandComesBack(t *testing.T) {
	s := server.Running(t)
	realm := s.Realm(t)
	p := open(t, config(s, realm))
	h := byHand(s, realm)
	c := sso.Client{
		ID: "srvc-acct-1", Secret: "the-right-secret", Name: "robot",
		Claims: map[string]string{"rh-org-id": "1", "dotted.name": "2"}, Roles: []string{"fleetshard_operator"},
	}
	if err := p.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	whole, err := p.Get(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for reason, harm := range map[string]func(rep *gocloak.Client){
		"the client was deleted": func(rep *gocloak.Client) { must(h.DeleteClient(t.Context(), h.token(t), realm, *rep.ID)) },
		"all mappers were deleted": func(rep *gocloak.Client) {
			for _, m := range *rep.ProtocolMappers {
				must(h.DeleteClientProtocolMapper(t.Context(), h.token(t), realm, *rep.ID, *m.ID))
			}
		},
		"a mapper says something else": func(rep *gocloak.Client) {
			m := (*rep.ProtocolMappers)[0]
			(*m.Config)["claim.value"] = "forged"
			must(h.UpdateClientProtocolMapper(t.Context(), h.token(t), realm, *rep.ID, *m.ID, m))
		},
		"another mapper writes the same claim": func(rep *gocloak.Client) {
			m := (*rep.ProtocolMappers)[0]
			m.ID = nil
			m.Name = gocloak.StringP("mine")
			(*m.Config)["claim.value"] = "forged"
			_, err := h.CreateClientProtocolMapper(t.Context(), h.token(t), realm, *rep.ID, m)
			must(err)
		},
		"the client was switched off, and its secret changed": func(rep *gocloak.Client) {
			must(h.UpdateClient(t.Context(), h.token(t), realm, gocloak.Client{ID: rep.ID, ClientID: rep.ClientID, Enabled: gocloak.BoolP(false), Secret: gocloak.StringP("another")}))
		},
		"the service account was switched off": func(rep *gocloak.Client) {
			must(h.UpdateClient(t.Context(), h.token(t), realm, gocloak.Client{ID: rep.ID, ClientID: rep.ClientID, ServiceAccountsEnabled: gocloak.BoolP(false)}))
		},
		"the role was deleted": func(*gocloak.Client) { must(h.DeleteRealmRole(t.Context(), h.token(t), realm, "fleetshard_operator")) },
		"a role was added": func(rep *gocloak.Client) {
			user, err := h.GetClientServiceAccount(t.Context(), h.token(t), realm, *rep.ID)
			must(err)
			role, err := h.GetRealmRole(t.Context(), h.token(t), realm, "offline_access")
			must(err)
			must(h.AddRealmRoleToUser(t.Context(), h.token(t), realm, *user.ID, []gocloak.Role{*role}))
		},
	} {
		harm(h.find(t, c.ID))
		if err := p.Apply(t.Context(), c); err != nil {
			t.Errorf("%s: %v", reason, err)
			continue
		}
		got, err := p.Get(t.Context(), c.ID)
		if diff := cmp.Diff(whole, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", reason, err, diff)
		}
		if _, ok, err := ssotest.Token(t.Context(), p.Endpoints(), c.ID, c.Secret); !ok || err != nil {
			t.Errorf("%s: no token: %v", reason, err)
		}
	}
}

// anyOrder: the server lists scopes as they come.
var anyOrder = cmpopts.SortSlices(func(a, b string) bool { return a < b })

func TestStrangersAreLeftAlone(t *testing.T) {
	s := server.Running(t)
	realm := s.Realm(t)
	h := byHand(s, realm)
	id, secret := "somebodys", "somebodys-secret"
	if _, err := h.CreateClient(t.Context(), h.token(t), realm, gocloak.Client{ClientID: &id, Secret: &secret}); err != nil {
		t.Fatal(err)
	}
	ours := open(t, config(s, realm))
	other := config(s, realm)
	other.Owner = "other-drover"
	theirs := open(t, other)
	shared := sso.Client{ID: "srvc-acct-theirs", Secret: "x"}
	if err := theirs.Apply(t.Context(), shared); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{id, shared.ID} {
		before := h.find(t, name)
		_, get := ours.Get(t.Context(), name)
		for verb, err := range map[string]error{
			"Get": get, "Apply": ours.Apply(t.Context(), sso.Client{ID: name, Secret: "mine"}), "Delete": ours.Delete(t.Context(), name),
		} {
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("%s of %s: got %v, want a Conflict", verb, name, err)
			}
		}
		if diff := cmp.Diff(before, h.find(t, name), anyOrder); diff != "" {
			t.Errorf("%s was changed (-before +after):\n%s", name, diff)
		}
	}
}

// TestReplicas applies and deletes through providers that know nothing of each
// other, as processes do.
func TestReplicas(t *testing.T) {
	s := server.Running(t)
	realm := s.Realm(t)
	var wg sync.WaitGroup
	c := sso.Client{ID: "srvc-acct-1", Secret: "s", Claims: map[string]string{"a": "1", "b": "2"}, Roles: []string{"one", "two"}}
	for i := range 6 {
		wg.Go(func() {
			p := open(t, config(s, realm))
			if err := p.Apply(t.Context(), c); err != nil {
				t.Errorf("replica %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	p := open(t, config(s, realm))
	if err := p.Apply(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	got, err := p.Get(t.Context(), c.ID)
	if err != nil || fmt.Sprint(got.Claims) != fmt.Sprint(c.Claims) || len(got.Roles) != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	for range 4 {
		wg.Go(func() {
			if err := open(t, config(s, realm)).Delete(t.Context(), c.ID); err != nil {
				t.Errorf("delete: %v", err)
			}
		})
	}
	wg.Wait()
}

// TestOwnAccount uses a client of the realm with few rights, as docs/sso.md
// tells operators to make, and no administrator.
func TestOwnAccount(t *testing.T) {
	s := server.Running(t)
	realm := s.Realm(t)
	h := byHand(s, realm)
	id, secret, yes := "drover", "drover-secret", true
	made, err := h.CreateClient(t.Context(), h.token(t), realm, gocloak.Client{ClientID: &id, Secret: &secret, ServiceAccountsEnabled: &yes})
	if err != nil {
		t.Fatal(err)
	}
	user, err := h.GetClientServiceAccount(t.Context(), h.token(t), realm, made)
	if err != nil {
		t.Fatal(err)
	}
	management := h.find(t, "realm-management")
	var rights []gocloak.Role
	for _, name := range []string{"manage-clients", "manage-users", "manage-realm"} {
		role, err := h.GetClientRole(t.Context(), h.token(t), realm, *management.ID, name)
		if err != nil {
			t.Fatal(err)
		}
		rights = append(rights, *role)
	}
	if err := h.AddClientRolesToUser(t.Context(), h.token(t), realm, *management.ID, *user.ID, rights); err != nil {
		t.Fatal(err)
	}
	c := config(s, realm)
	c.User, c.LoginRealm, c.Secret = "", "", secret
	p := open(t, c)
	client := sso.Client{ID: "srvc-acct-1", Secret: "s", Roles: []string{"fleetshard_operator"}}
	if err := p.Apply(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Get(t.Context(), client.ID); err != nil {
		t.Error(err)
	}
	if err := p.Delete(t.Context(), client.ID); err != nil {
		t.Error(err)
	}
}

// Replicas that make the same account at once get in each other's way, and all
// of them succeed.
func TestReplicasMakeTheSameClientAtOnce(t *testing.T) {
	s := server.Running(t)
	realm := s.Realm(t)
	for round := range 5 {
		c := sso.Client{ID: fmt.Sprintf("srvc-acct-r%d", round), Secret: "s", Name: "robot", Roles: []string{fmt.Sprintf("role%d", round)}}
		var wg sync.WaitGroup
		for range 4 {
			p := open(t, config(s, realm))
			wg.Go(func() {
				if err := p.Apply(t.Context(), c); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		wg.Wait()
	}
}

func TestTokensAreForTheAudience(t *testing.T) {
	s := server.Running(t)
	cfg := config(s, s.Realm(t))
	cfg.Audience = "drover"
	p := open(t, cfg)
	c := sso.Client{ID: "srvc-acct-1", Secret: "the-secret", Name: "robot", Claims: map[string]string{"rh-org-id": "1"}}
	for range 2 { // the second finds nothing to do
		if err := p.Apply(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	h := byHand(s, cfg.Realm)
	audiences := 0
	for _, m := range *h.find(t, c.ID).ProtocolMappers {
		if *m.ProtocolMapper == "oidc-audience-mapper" && (*m.Config)["included.custom.audience"] == "drover" {
			audiences++
		}
	}
	if audiences != 1 {
		t.Errorf("%d mappers of the audience", audiences)
	}
	jwt, err := h.LoginClient(t.Context(), c.ID, c.Secret, cfg.Realm)
	if err != nil {
		t.Fatal(err)
	}
	_, claims, err := h.DecodeAccessToken(t.Context(), jwt.AccessToken, cfg.Realm)
	if err != nil {
		t.Fatal(err)
	}
	if aud := fmt.Sprint((*claims)["aud"]); aud != "drover" && aud != "[drover]" {
		t.Errorf("the audience is %s", aud)
	}
	if got, err := p.Get(t.Context(), c.ID); err != nil || len(got.Claims) != 1 {
		t.Errorf("%+v %v", got.Claims, err)
	}
}
