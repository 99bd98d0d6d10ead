package builtin_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/sso"
	"github.com/droverhq/drover/internal/sso/builtin"
)

const (
	password = "correct horse battery"
	callback = "http://127.0.0.1:43210/callback"
)

// world is a server with its ledger, behind one URL whatever replica answers.
type world struct {
	t      *testing.T
	ledger *sqlledger.Ledger
	users  *access.Users
	front  *httptest.Server
	serves atomic.Pointer[http.Handler]
	skew   atomic.Int64 // of the clock
	p      *builtin.Provider
	auth   *access.Authenticator
}

var root = access.With(context.Background(), access.Principal{User: "root", Admin: true})

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, filepath.Join(t.TempDir(), "drover.db"))
}

func openLedger(t *testing.T, where string) *sqlledger.Ledger {
	t.Helper()
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: where, Key: bytes.Repeat([]byte{7}, ledger.KeySize),
		Kinds: append(builtin.Kinds(), access.SigningKey, access.KindUser),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func newWorldOn(t *testing.T, where string) *world {
	t.Helper()
	w := &world{t: t, ledger: openLedger(t, where)}
	var err error
	w.front = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { (*w.serves.Load()).ServeHTTP(rw, r) }))
	t.Cleanup(w.front.Close)
	w.users = access.NewUsers(w.ledger)
	_, err = w.users.Create(root, access.User{Name: "alice", Org: "13640203", Account: "7", OrgAdmin: true, Roles: []string{"sre"}}, password)
	w.ok(err)
	w.p = w.replica()
	w.use(w.p)
	return w
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) }

// replica is another server on the same ledger.
func (w *world) replica() *builtin.Provider { return w.replicaOn(w.ledger) }

func (w *world) replicaOn(l *sqlledger.Ledger) *builtin.Provider {
	w.t.Helper()
	issuer := builtin.Issuer(w.front.URL, "")
	realm, err := access.NewRealm(access.RealmConfig{Store: l, URL: issuer})
	w.ok(err)
	w.auth, err = access.NewAuthenticator(access.AuthenticatorConfig{Realm: realm})
	w.ok(err)
	p, err := builtin.New(builtin.Config{Store: l, Keeper: l, Keys: realm, Users: access.NewUsers(l), BaseURL: w.front.URL, Clock: w.now})
	w.ok(err)
	return p
}

// use lets a replica answer from now on.
func (w *world) use(p *builtin.Provider) {
	h := p.Handler()
	w.serves.Store(&h)
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) at(path string) string {
	return builtin.Issuer(w.front.URL, "") + "/protocol/openid-connect/" + path
}

// answer of an endpoint.
type answer struct {
	status int
	header http.Header
	body   string
	json   map[string]any
}

func (a answer) text(name string) string { s, _ := a.json[name].(string); return s }

func (w *world) do(c *http.Client, r *http.Request) answer {
	w.t.Helper()
	res, err := c.Do(r)
	w.ok(err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	w.ok(err)
	a := answer{status: res.StatusCode, header: res.Header, body: string(body)}
	_ = json.Unmarshal(body, &a.json)
	return a
}

func (w *world) post(path string, form url.Values) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.at(path), strings.NewReader(form.Encode()))
	w.ok(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return w.do(http.DefaultClient, r)
}

func (w *world) get(c *http.Client, at, bearer string) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, at, nil)
	w.ok(err)
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	return w.do(c, r)
}

// browser keeps cookies and stops before it leaves the server.
func (w *world) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	w.ok(err)
	return &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if "http://"+r.URL.Host != w.front.URL {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

// attempt is a login in the making.
type attempt struct {
	verifier string
	query    url.Values
}

func newAttempt() attempt {
	verifier := rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	return attempt{verifier, url.Values{
		"response_type": {"code"}, "client_id": {"drover-cli"}, "redirect_uri": {callback}, "scope": {"openid"},
		"state": {"st&te"}, "nonce": {"n0nce"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}}
}

var hidden = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)"`)
var action = regexp.MustCompile(`<form method="post" action="([^"]*)"`)

// open asks for the login page.
func (w *world) open(b *http.Client, a attempt) answer {
	w.t.Helper()
	return w.get(b, w.at("auth")+"?"+a.query.Encode(), "")
}

// submit fills the form in that a page shows.
func (w *world) submit(b *http.Client, page answer, name, secret string) answer {
	w.t.Helper()
	to := action.FindStringSubmatch(page.body)
	if to == nil {
		w.t.Fatalf("there is no form on the page: %d %s", page.status, page.body)
	}
	form := url.Values{"username": {name}, "password": {secret}}
	for _, f := range hidden.FindAllStringSubmatch(page.body, -1) {
		form.Set(f[1], html.UnescapeString(f[2]))
	}
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, html.UnescapeString(to[1]), strings.NewReader(form.Encode()))
	w.ok(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return w.do(b, r)
}

// code logs alice in and returns the code she is sent back with.
func (w *world) code(a attempt) string {
	w.t.Helper()
	b := w.browser()
	back := w.submit(b, w.open(b, a), "alice", password)
	u, err := url.Parse(back.header.Get("Location"))
	if err != nil || u.Query().Get("code") == "" || !strings.HasPrefix(u.String(), a.query.Get("redirect_uri")+"?") || u.Query().Get("state") != "st&te" {
		w.t.Fatalf("the login leads to %d %q %s", back.status, back.header.Get("Location"), back.body)
	}
	return u.Query().Get("code")
}

func (w *world) exchange(a attempt, code string) answer {
	w.t.Helper()
	return w.post("token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {a.query.Get("client_id")}, "redirect_uri": {a.query.Get("redirect_uri")},
		"code": {code}, "code_verifier": {a.verifier},
	})
}

func (w *world) refresh(token string) answer {
	w.t.Helper()
	return w.post("token", url.Values{"grant_type": {"refresh_token"}, "client_id": {"drover-cli"}, "refresh_token": {token}})
}

// login is the whole flow.
func (w *world) login() answer {
	w.t.Helper()
	a := newAttempt()
	got := w.exchange(a, w.code(a))
	if got.status != http.StatusOK {
		w.t.Fatalf("no tokens for a good code: %d %s", got.status, got.body)
	}
	return got
}

var robot = sso.Client{
	ID: "srvc-acct-1", Secret: "s3cr3t-of-the-robot", Name: "robot",
	Claims: map[string]string{"rh-org-id": "13640203", "username": "alice"}, Roles: []string{"reader"},
	Redirects: []string{"https://app.example.org/callback?x=1"},
}

func (w *world) credentials() url.Values {
	return url.Values{"grant_type": {"client_credentials"}, "client_id": {robot.ID}, "client_secret": {robot.Secret}}
}

// introspect asks, as the robot, whether a token counts.
func (w *world) introspect(token string) answer {
	w.t.Helper()
	w.ok(w.p.Apply(w.t.Context(), robot))
	return w.post("token/introspect", url.Values{"client_id": {robot.ID}, "client_secret": {robot.Secret}, "token": {token}})
}

func claimsOf(t *testing.T, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("no JWT: %q", token)
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestMain silences the library, which writes every refusal to the default log.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}
