package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Nerzal/gocloak/v13"
	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/bind"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/keycloak"
	"github.com/droverhq/drover/test/postgres"
)

const (
	kafkaAPI = "/api/kafkas_mgmt/v1"
	zone     = "kafka.test"
	router   = "router.cluster.test"
)

// fleet is a control plane that sells kafkas and dinosaurs, with an outside
// agent for the kafkas and people who have tokens.
type fleet struct {
	servers  []*drover.Server
	people   *issuer
	shard    *drover.Fleetshard
	bind     *bind.Server // nil: hosts are published nowhere
	keycloak *keycloak.Server
	realm    string
	owner    string        // whose clients are this fleet's
	sso, dns *drover.Proxy // before keycloak and bind

	audience string
	turn     atomic.Int64
	mu       sync.Mutex
	secrets  []string // that may be seen nowhere
}

// fleetConfig says what a fleet is made of; nothing: one process, no servers.
type fleetConfig struct {
	keycloak, bind bool
	replicas       int                 // on PostgreSQL; 0: one process with what it brings along
	args           []string            // more flags
	issuers        []string            // whose tokens are good besides
	audience       string              // that tokens must be made for
	file           func(string) string // changes the kafkas' offering
}

// whole has everything that is real.
var whole = fleetConfig{keycloak: true, bind: true, replicas: 3}

// each runs a scenario on the embedded default, and with every server there is.
func each(t *testing.T, scenario func(t *testing.T, f *fleet)) {
	t.Run("embedded", func(t *testing.T) { t.Parallel(); f := newFleet(t, fleetConfig{}); scenario(t, f); f.discreet(t) })
	t.Run("whole", func(t *testing.T) { f := newFleet(t, whole); scenario(t, f); f.discreet(t) })
}

func newFleet(t *testing.T, c fleetConfig) *fleet {
	t.Helper()
	f := &fleet{people: newIssuer(t), audience: c.audience}
	dir := t.TempDir()
	args := append([]string{"--oidc-issuers", strings.Join(append(c.issuers, f.people.URL), ","), "--oidc-audience", c.audience, "--oidc-trust", "admins"}, c.args...)
	if c.keycloak {
		f.keycloak = keycloak.Running(t)
		f.realm, f.owner = realm(t, f.keycloak), "e2e-"+strings.ToLower(rand.Text())
		f.sso = drover.HTTPProxy(t, f.keycloak.URL)
		f.secret(f.keycloak.Password)
		file := write(t, filepath.Join(dir, "keycloak.secret"), f.keycloak.Password)
		args = append(args, "--sso", "keycloak", "--sso-options",
			fmt.Sprintf("url=http://%s,public-url=%s,realm=%s,owner=%s,user=%s,login-realm=master,secret-file=%s", f.sso.Addr, f.keycloak.URL, f.realm, f.owner, f.keycloak.User, file))
	}
	if c.bind {
		f.bind = bind.Start(t, zone)
		f.dns = drover.TCPProxy(t, f.bind.Addr)
		f.secret(f.bind.Secret)
		secret := write(t, filepath.Join(dir, "tsig.secret"), f.bind.Secret)
		args = append(args, "--dns-file", write(t, filepath.Join(dir, "dns.yaml"), fmt.Sprintf(
			"zones:\n  - name: %s\n    provider: rfc2136\n    servers: [%q]\n    settings: {server: %q, tsig-key: %s, tsig-secret-file: %q}\n",
			zone, f.bind.Addr, f.dns.Addr, bind.Key, secret)))
	}
	if c.replicas == 0 {
		f.servers = append(f.servers, drover.Up(t, args...))
	} else {
		args = append(args, "--database", postgres.Database(t), "--master-key-file", filepath.Join(dir, "master.key"))
		f.servers = append(f.servers, drover.Serve(t, args...))
	}
	text := kafkaFile(t)
	if c.file != nil {
		text = c.file(text)
	}
	f.apply(t, text)
	if c.bind { // a host in no zone is refused
		dinosaurs, err := os.ReadFile("../../offerings/dinosaur.yaml")
		if err != nil {
			t.Fatal(err)
		}
		f.apply(t, strings.Replace(string(dinosaurs), ".dinosaurs.localhost", ".dino."+zone, 1))
	}
	for range c.replicas - 1 { // which begin with what was applied, and need not hear of it
		f.servers = append(f.servers, drover.Serve(t, args...))
	}
	f.shard = &drover.Fleetshard{Cluster: "c1", API: kafkaAPI, Plural: "kafkas", Router: router}
	for _, s := range f.servers {
		f.shard.Servers = append(f.shard.Servers, s.URL())
	}
	drover.JoinOutside(t, f.shard, f.servers[0], "aws", "us-east-1")
	f.secret(f.shard.Secret())
	return f
}

// evalGrace and briefLife are long enough for an instance to get somewhere before its
// end, on a machine that stalls now and then.
const evalGrace, briefLife = 8 * time.Second, 20 * time.Second

// kafkaFile is the shipped offering with a domain of the tests and short times:
// what is outside is looked at every other second, eval has a short grace, and
// there is a size that lives briefly.
func kafkaFile(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("../../offerings/kafka.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, edit := range [][2]string{
		{"kafka.localhost", zone},
		{"observe: 10m", "observe: 2s"},
		{"grace: 96h", "grace: " + evalGrace.String()},
		{"regions:\n        - {name: us-east-1,", "regions:\n        - {name: eu-north-1, limits: {standard: 5}}\n        - {name: us-east-1,"},
	} {
		if !strings.Contains(text, edit[0]) {
			t.Fatalf("the shipped offering has changed: no %q", edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
	}
	// The first size once more, for a short life.
	first, rest, ok := strings.Cut(text, "        - name: x2\n")
	at := strings.LastIndex(first, "        - name: x1\n")
	if !ok || at < 0 {
		t.Fatal("the shipped offering has changed: no sizes x1 and x2")
	}
	brief := strings.Replace(first[at:], "name: x1\n", "name: brief\n          lifespan: "+briefLife.String()+"\n", 1)
	return first + brief + "        - name: x2\n" + rest
}

// apply applies documents as an operator does.
func (f *fleet) apply(t *testing.T, text string) {
	t.Helper()
	file := write(t, filepath.Join(t.TempDir(), "file.yaml"), text)
	if stdout, stderr, code := f.servers[0].Run("apply", "-f", file); code != 0 {
		t.Fatalf("apply: %s%s\n%s", stdout, stderr, text)
	}
}

// quota grants units of standard kafkas under a billing model.
func (f *fleet) quota(t *testing.T, org string, grants ...string) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: drover.dev/v1\nkind: Quota\nmetadata: {name: %s}\nspec:\n  organisation: %s\n  anyUser: true\n  grants:\n  - offering: kafka\n    type: standard\n    billing:\n", org, org)
	for _, g := range grants {
		fmt.Fprintf(&b, "    - {%s}\n", g)
	}
	f.apply(t, b.String())
	// The one that took it knows it, the others hear of it a moment later.
	anybody := f.user(t, "anybody", org)
	granted := func(s *drover.Server) string {
		var list struct {
			Items []struct {
				Quota   string `json:"quota_id"`
				Allowed int64
			}
		}
		a := f.at(t, s, anybody, "GET", "/api/accounts_mgmt/v1/organizations/"+org+"/quota_cost", nil)
		if a.Status != http.StatusOK || json.Unmarshal(a.Body, &list) != nil {
			return fmt.Sprintf("%d %s", a.Status, a.Body)
		}
		return fmt.Sprint(list.Items)
	}
	for _, s := range f.servers[1:] {
		drover.Until(t, "every replica to know the quota", func() bool { return granted(s) == granted(f.servers[0]) })
	}
}

func (f *fleet) secret(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.secrets = append(f.secrets, s)
}

// user makes a person's token.
func (f *fleet) user(t *testing.T, name, org string) string {
	return f.people.rs256(t, map[string]any{"sub": name, "username": name, "org_id": org, "aud": f.audience})
}

// operator makes the token of somebody with a role.
func (f *fleet) operator(t *testing.T, roles ...string) string {
	return f.people.rs256(t, map[string]any{"username": "op", "org_id": nil, "realm_access": map[string]any{"roles": roles}})
}

// at asks one replica.
func (f *fleet) at(t testing.TB, s *drover.Server, token, method, path string, body any) drover.Answer {
	t.Helper()
	a, err := ask(s, token, method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// call asks the replicas in turn: what one has heard the next one may not have.
func (f *fleet) call(t testing.TB, token, method, path string, body any) drover.Answer {
	t.Helper()
	a, err := f.try(token, method, path, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (f *fleet) try(token, method, path string, body any) (drover.Answer, error) {
	return ask(f.servers[int(f.turn.Add(1))%len(f.servers)], token, method, path, body)
}

func ask(s *drover.Server, token, method, path string, body any) (drover.Answer, error) {
	var data []byte
	switch b := body.(type) {
	case nil:
	case string:
		data = []byte(b)
	default:
		data, _ = json.Marshal(b)
	}
	return drover.Ask(drover.Request{Method: method, URL: s.URL() + path, Token: token, Body: data, Header: http.Header{"Content-Type": {"application/json"}}})
}

// kafka is what clients read.
type kafka struct {
	ID, Status, Name, Owner, Region string
	Type                            string `json:"instance_type"`
	Size                            string `json:"size_id"`
	Host                            string `json:"bootstrap_server_host"`
	Failed                          string `json:"failed_reason"`
	Billing                         string `json:"billing_model"`
	Promotion                       string `json:"promotion_status"`
	Expires                         string `json:"expires_at"`
	Created                         string `json:"created_at"`
	Version                         string
	MultiAZ                         bool   `json:"multi_az"`
	Admin                           string `json:"admin_api_server_url"`
}

// order orders a kafka that must be taken.
func (f *fleet) order(t testing.TB, token string, body map[string]any) kafka {
	t.Helper()
	var a drover.Answer
	drover.Until(t, "a replica that knows the quota", func() bool { // where somebody has just changed it
		a = f.call(t, token, "POST", kafkaAPI+"/kafkas?async=true", body)
		return a.Error().ID != "42"
	})
	var k kafka
	if a.Status != http.StatusAccepted || json.Unmarshal(a.Body, &k) != nil {
		t.Fatalf("the order %v gets %d: %s", body, a.Status, a.Body)
	}
	return k
}

// await waits until a kafka is so.
func (f *fleet) await(t testing.TB, token, id, what string, so func(kafka) bool) kafka {
	t.Helper()
	var k kafka
	var last drover.Answer
	defer func() {
		if t.Failed() {
			t.Logf("%s: %d %s", id, last.Status, last.Body)
		}
	}()
	drover.Until(t, "kafka "+id+" to be "+what, func() bool {
		a, err := f.try(token, "GET", kafkaAPI+"/kafkas/"+id, nil)
		if err != nil {
			return false
		}
		last, k = a, kafka{}
		return a.Status == http.StatusOK && json.Unmarshal(a.Body, &k) == nil && so(k)
	})
	return k
}

func (f *fleet) awaitStatus(t testing.TB, token, id, status string) kafka {
	t.Helper()
	return f.await(t, token, id, status, func(k kafka) bool { return k.Status == status })
}

func (f *fleet) awaitGone(t testing.TB, token, id string) {
	t.Helper()
	drover.Until(t, "kafka "+id+" to be gone", func() bool {
		a, err := f.try(token, "GET", kafkaAPI+"/kafkas/"+id, nil)
		return err == nil && a.Status == http.StatusNotFound
	})
}

func (f *fleet) remove(t testing.TB, token, id string) {
	t.Helper()
	if a := f.call(t, token, "DELETE", kafkaAPI+"/kafkas/"+id+"?async=true", nil); a.Status != http.StatusAccepted {
		t.Fatalf("delete gets %d: %s", a.Status, a.Body)
	}
}

// refused checks the status and the code of an answer.
func refused(t testing.TB, what string, a drover.Answer, status int, code string) {
	t.Helper()
	if e := a.Error(); a.Status != status || e.Code != code {
		t.Errorf("%s: status %d, code %s, want %d %s: %s", what, a.Status, e.Code, status, code, a.Body)
	}
}

// message is what an operator reads of an instance.
func (f *fleet) message(t testing.TB, id string) string {
	t.Helper()
	o, err := f.servers[0].Client(t).Get(t.Context(), "kafkas", id, "")
	if err != nil {
		return err.Error()
	}
	var status struct{ Message string }
	_ = json.Unmarshal(o.Status, &status)
	return status.Message
}

// managed is what the agent reads of an instance that has an account.
func (f *fleet) managed(t testing.TB, id string) (m drover.Managed) {
	t.Helper()
	drover.Until(t, "the agent to read of "+id, func() bool { // it asks the replicas in turn, too
		var ok bool
		m, ok = f.shard.Find(id)
		return ok && len(m.Spec.ServiceAccounts) == 1
	})
	return m
}

// was tells whether a kafka was so at any time, by the log: what lasts for a moment
// is over before somebody looks, now and then.
func (f *fleet) was(t testing.TB, id string, so func(phase string, status []byte) bool) bool {
	t.Helper()
	changes, err := f.servers[0].Client(t).Changes(t.Context(), client.ChangeOptions{Resource: "kafkas", ID: id, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(changes.Items, func(c v1.Change) bool { return so(c.Object.Phase, c.Object.Status) })
}

// records of the zone; none where there is no name server.
func (f *fleet) records(t testing.TB) []string {
	if f.bind == nil {
		return nil
	}
	return f.bind.Records(t, zone)
}

// realm is the one that all fleets of the process share: making one takes
// seconds. They are told apart by whose clients they are.
func realm(t *testing.T, s *keycloak.Server) string {
	t.Helper()
	shared.Do(func() {
		shared.name, shared.server = "e2e-"+strings.ToLower(rand.Text()), s
		on := true
		shared.err = asAdmin(context.Background(), s, func(ctx context.Context, c *gocloak.GoCloak, token string) error {
			_, err := c.CreateRealm(ctx, token, gocloak.RealmRepresentation{Realm: &shared.name, Enabled: &on})
			return err
		})
	})
	if shared.err != nil {
		t.Fatalf("cannot create a realm: %v", shared.err)
	}
	return shared.name
}

var shared struct {
	sync.Once
	name   string
	server *keycloak.Server
	err    error
}

// endKeycloak removes what the process has made there. TestMain calls it last.
func endKeycloak() {
	if os.Getenv("DROVER_TEST_KEYCLOAK") != "" && shared.server != nil {
		_ = asAdmin(context.Background(), shared.server, func(ctx context.Context, c *gocloak.GoCloak, token string) error {
			return c.DeleteRealm(ctx, token, shared.name)
		})
	}
	keycloak.Stop()
}

func asAdmin(ctx context.Context, s *keycloak.Server, do func(context.Context, *gocloak.GoCloak, string) error) error {
	c := gocloak.NewClient(s.URL)
	token, err := c.LoginAdmin(ctx, s.User, s.Password, "master")
	if err != nil {
		return err
	}
	return do(ctx, c, token.AccessToken)
}

// clients of the realm that Drover has made, by id.
func (f *fleet) clients(t testing.TB) map[string]string {
	t.Helper()
	var list []*gocloak.Client
	most := 10_000
	err := asAdmin(context.Background(), f.keycloak, func(ctx context.Context, c *gocloak.GoCloak, token string) (err error) {
		list, err = c.GetClients(ctx, token, f.realm, gocloak.GetClientsParams{Max: &most})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, c := range list {
		if c.Attributes != nil && (*c.Attributes)["drover.owner"] == f.owner {
			out[*c.ClientID] = *c.ID
		}
	}
	return out
}

// person makes an account of the realm, and a token that Keycloak gives its owner.
func (f *fleet) person(t testing.TB, name string) (token string) {
	t.Helper()
	on, client, mail, password := true, "app-"+name, name+"@example.org", rand.Text()
	f.secret(password)
	err := asAdmin(context.Background(), f.keycloak, func(ctx context.Context, c *gocloak.GoCloak, admin string) error {
		_, err := c.CreateClient(ctx, admin, f.realm, gocloak.Client{ClientID: &client, PublicClient: &on, DirectAccessGrantsEnabled: &on})
		if err != nil {
			return err
		}
		_, err = c.CreateUser(ctx, admin, f.realm, gocloak.User{Username: &name, Email: &mail, EmailVerified: &on, FirstName: &name, LastName: &name, Enabled: &on,
			Credentials: &[]gocloak.CredentialRepresentation{{Type: new("password"), Value: &password}}})
		if err != nil {
			return err
		}
		got, err := c.Login(ctx, client, "", f.realm, name, password)
		if err == nil {
			token = got.AccessToken
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	f.secret(token)
	return token
}

func (f *fleet) deleteClient(t testing.TB, id string) {
	t.Helper()
	own := f.clients(t)[id]
	if err := asAdmin(context.Background(), f.keycloak, func(ctx context.Context, c *gocloak.GoCloak, token string) error {
		return c.DeleteClient(ctx, token, f.realm, own)
	}); err != nil {
		t.Fatal(err)
	}
}

// tokenURL is where programs log in, as the API tells them.
func (f *fleet) tokenURL(t testing.TB) string {
	t.Helper()
	var p struct {
		TokenURL string `json:"token_url"`
	}
	a := f.call(t, "", "GET", kafkaAPI+"/sso_providers", nil)
	if a.Status != http.StatusOK || json.Unmarshal(a.Body, &p) != nil || p.TokenURL == "" {
		t.Fatalf("sso_providers: %d %s", a.Status, a.Body)
	}
	return p.TokenURL
}

// discreet looks for the secrets in everything that is written: logs, the log
// of changes with all objects, and the files of an embedded database.
func (f *fleet) discreet(t *testing.T) {
	t.Helper()
	places := map[string]string{}
	for i, s := range f.servers {
		places[fmt.Sprintf("the log of replica %d", i)] = s.Log()
		files, _ := filepath.Glob(filepath.Join(s.DataDir, "drover.db*"))
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			places[filepath.Base(file)] = string(data)
		}
	}
	var changes strings.Builder
	admin := admin(t, f.servers[0])
	for after := int64(0); ; {
		a := f.call(t, admin, "GET", fmt.Sprintf("/api/v1/changes?after=%d", after), nil)
		var page struct {
			Items []json.RawMessage
			Next  int64
		}
		if a.Status != http.StatusOK || json.Unmarshal(a.Body, &page) != nil {
			t.Fatalf("changes: %d %s", a.Status, a.Body)
		}
		changes.Write(a.Body)
		if len(page.Items) == 0 || page.Next == after {
			break
		}
		after = page.Next
	}
	places["the log of changes"] = changes.String()
	places["the metrics"] = string(f.call(t, admin, "GET", "/metrics", nil).Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.secrets) == 0 || !strings.Contains(changes.String(), "kafka") {
		t.Error("there was nothing to look for, or nowhere")
	}
	for where, text := range places {
		for _, s := range f.secrets {
			for _, form := range []string{s, url.QueryEscape(s)} {
				if at := strings.Index(text, form); s != "" && at >= 0 {
					t.Errorf("a secret is in %s, after %q", where, text[max(0, at-120):at])
				}
			}
		}
	}
}

func diff[T any](t testing.TB, what string, want, got T) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s:\n%s", what, d)
	}
}
