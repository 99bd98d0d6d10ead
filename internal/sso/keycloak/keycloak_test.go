package keycloak_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/sso"
	"github.com/droverhq/drover/internal/sso/keycloak"
)

// badServer answers like Keycloak would on a bad day.
type badServer struct {
	*httptest.Server
	logins  atomic.Int32
	asked   atomic.Int32
	mu      sync.Mutex
	token   string                                            // the valid one
	secret  string                                            // of the account
	answers func(w http.ResponseWriter, r *http.Request) bool // true: it has answered
}

func newServer(t *testing.T) *badServer {
	s := &badServer{secret: "own-secret"}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		s.mu.Lock()
		defer s.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/token") {
			_, basic, _ := r.BasicAuth()
			if s.secret != r.PostFormValue("client_secret") && s.secret != basic {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprintf(w, `{"error":"unauthorized_client","error_description":"%s"}`, r.PostFormValue("client_secret"))
				return
			}
			s.token = fmt.Sprint("token-", s.logins.Add(1))
			fmt.Fprintf(w, `{"access_token":%q,"expires_in":60}`, s.token)
			return
		}
		s.asked.Add(1)
		if r.Header.Get("Authorization") != "Bearer "+s.token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if s.answers != nil && s.answers(w, r) {
			return
		}
		w.Write([]byte(`[]`))
	}))
	t.Cleanup(s.Close)
	return s
}

func TestLogin(t *testing.T) {
	s := newServer(t)
	now := time.Now()
	file := filepath.Join(t.TempDir(), "secret")
	write(t, file, "own-secret\n")
	p, err := keycloak.New(keycloak.Config{URL: s.URL, Realm: "r", SecretFile: file, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	absent := func(reason string, logins int32) {
		t.Helper()
		if _, err := p.Get(t.Context(), "x"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: got %v, want NotFound", reason, err)
		}
		if got := s.logins.Load(); got != logins {
			t.Errorf("%s: %d logins, want %d", reason, got, logins)
		}
	}
	absent("the first call logs in", 1)
	absent("a token is used again", 1)
	now = now.Add(50 * time.Second)
	absent("a token is changed before it runs out", 2)
	s.mu.Lock()
	s.token = "revoked" // by hand, at the server
	s.mu.Unlock()
	absent("a token that is refused is changed", 3)
	s.mu.Lock()
	s.token, s.secret = "revoked", "new-secret"
	s.mu.Unlock()
	_, err = p.Get(t.Context(), "x")
	if !fault.Is(err, fault.Unavailable) || strings.Contains(err.Error(), "own-secret") {
		t.Errorf("the account's secret is old: got %v, want Unavailable and silence", err)
	}
	write(t, file, "new-secret")
	absent("a new secret needs no restart", 4)
}

func TestBadDays(t *testing.T) {
	own := `[{"id":"1","clientId":"x","attributes":{"drover.owner":"drover"}}]`
	for _, c := range []struct {
		reason  string
		answers func(w http.ResponseWriter, r *http.Request) bool
		get     fault.Kind
		apply   fault.Kind
		remove  fault.Kind
	}{
		{"a missing realm is not a missing client", status(404), fault.Unavailable, fault.Unavailable, fault.Unavailable},
		{"the account lost its rights", status(403), fault.Unavailable, fault.Unavailable, fault.Unavailable},
		{"the server is broken", status(500), fault.Unavailable, fault.Unavailable, fault.Unavailable},
		{"the server is overloaded", status(429), fault.Unavailable, fault.Unavailable, fault.Unavailable},
		{"it repeats what it was told", echo(400), fault.Invalid, fault.Invalid, fault.Invalid},
		{"a proxy answers in its place", html, fault.Unavailable, fault.Unavailable, fault.Unavailable},
		{"the client is somebody's own", clients(`[{"id":"1","clientId":"x"}]`), fault.Conflict, fault.Conflict, fault.Conflict},
		{"the client is another Drover's", clients(strings.ReplaceAll(own, `"drover"}`, `"other"}`)), fault.Conflict, fault.Conflict, fault.Conflict},
	} {
		t.Run(c.reason, func(t *testing.T) {
			s := newServer(t)
			s.answers = c.answers
			p, err := keycloak.New(keycloak.Config{URL: s.URL, Realm: "r", Secret: "own-secret"})
			if err != nil {
				t.Fatal(err)
			}
			_, get := p.Get(t.Context(), "x")
			for verb, got := range map[string]struct {
				err  error
				want fault.Kind
			}{
				"Get":    {get, c.get},
				"Apply":  {p.Apply(t.Context(), sso.Client{ID: "x", Secret: "client-secret"}), c.apply},
				"Delete": {p.Delete(t.Context(), "x"), c.remove},
			} {
				if !fault.Is(got.err, got.want) {
					t.Errorf("%s: got %v (%s), want %s", verb, got.err, fault.Of(got.err), got.want)
				}
				if text := fmt.Sprintf("%v %+v", got.err, got.err); strings.Contains(text, "-secret") || strings.Contains(text, "token-") {
					t.Errorf("%s tells a secret: %v", verb, got.err)
				}
			}
		})
	}
}

// TestHangingServer also shows that the breaker spares a server that is away.
func TestHangingServer(t *testing.T) {
	s := newServer(t)
	release := make(chan struct{})
	defer close(release)
	hang := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		<-release
	}))
	p, err := keycloak.New(keycloak.Config{URL: hang.URL, Realm: "r", Secret: "own-secret", Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if _, err := p.Get(t.Context(), "x"); !fault.Is(err, fault.Unavailable) {
			t.Fatalf("got %v, want Unavailable", err)
		}
	}
	if n := s.asked.Load(); n == 0 || n > 10 {
		t.Errorf("a server that does not answer was asked %d times", n)
	}
}

func TestConfig(t *testing.T) {
	good := keycloak.Config{URL: "https://sso.example.org/auth/", Realm: "r", Secret: "s"}
	p, err := keycloak.New(good)
	if err != nil {
		t.Fatal(err)
	}
	if e := p.Endpoints(); e.Issuer != "https://sso.example.org/auth/realms/r" || e.TokenURL != e.Issuer+"/protocol/openid-connect/token" {
		t.Errorf("endpoints: %+v", e)
	}
	for reason, change := range map[string]func(c *keycloak.Config){
		"there is no URL":               func(c *keycloak.Config) { c.URL = "" },
		"the URL is not one of the web": func(c *keycloak.Config) { c.URL = "file:///etc" },
		"the URL has a password":        func(c *keycloak.Config) { c.URL = "https://a:hidden@sso.example.org" },
		"there is no realm":             func(c *keycloak.Config) { c.Realm = "" },
		"the realm leads elsewhere":     func(c *keycloak.Config) { c.Realm = "../master" },
		"there is no secret":            func(c *keycloak.Config) { c.Secret = "" },
		"there are two secrets":         func(c *keycloak.Config) { c.SecretFile = "f" },
	} {
		c := good
		change(&c)
		if _, err := keycloak.New(c); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: got %v, want Invalid", reason, err)
		}
	}
}

func status(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
}

func echo(code int) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		w.WriteHeader(code)
		text, _ := json.Marshal("client-secret " + r.Header.Get("Authorization"))
		fmt.Fprintf(w, `{"errorMessage":%s}`, text)
		return true
	}
}

func html(w http.ResponseWriter, _ *http.Request) bool {
	w.Header().Set("Content-Type", "text/html")
	w.Write([]byte("<html>come back later</html>"))
	return true
}

func clients(body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			w.WriteHeader(http.StatusTeapot) // nothing of a stranger's may be written
			return true
		}
		w.Write([]byte(body))
		return true
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
