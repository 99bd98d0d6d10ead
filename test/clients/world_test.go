// Package clients points unmodified clients of kas-fleet-manager at the built
// binary: the Go and JavaScript SDKs, the rhoas command line, and the protocol
// of the kas-fleetshard sync agent.
//
// Every answer that they get is held against the specification that the Go SDK
// was made from. It must not know the rooms inside; what a client does not notice
// does not count here.
package clients

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

func TestMain(m *testing.M) {
	for _, v := range os.Environ() { // the settings of whoever runs the tests are not theirs
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "DROVER_") && !strings.HasPrefix(name, "DROVER_TEST_") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

const (
	api      = "/api/kafkas_mgmt/v1"
	realm    = "/auth/realms/drover"
	client   = "rhoas-cli-prod" // what rhoas calls itself
	password = "correct horse battery staple"
)

// exchange is a request and its answer, as they went over the wire.
type exchange struct {
	method, path string
	status       int
	kind         string // media type of the answer
	body         []byte
}

// world is a control plane, a proxy that keeps what passes, a source of metrics
// and a cluster with an agent.
type world struct {
	*testing.T
	server *drover.Server
	url    string // of the proxy: what clients are told

	mu   sync.Mutex
	kept []exchange
}

const quotas = `apiVersion: drover.dev/v1
kind: Quota
metadata: {name: acme}
spec:
  organisation: acme
  anyUser: true
  grants:
  - offering: kafka
    type: standard
    billing:
    - {model: standard, units: 5}
    - {model: eval, units: 2}
    - {model: enterprise, units: 3}
`

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	var target atomic.Pointer[url.URL]
	proxy := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target.Load()); r.Out.Host = r.In.Host },
		ModifyResponse: w.keep,
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	w.url = front.URL
	policies := filepath.Join(t.TempDir(), "quotas.yaml")
	if err := os.WriteFile(policies, []byte(quotas), 0o600); err != nil {
		t.Fatal(err)
	}
	w.server = drover.Serve(t, "--public-url", w.url, "--metrics-url", prometheus(t),
		"--policy-files", policies, "--sso-options", "client="+client)
	u, err := url.Parse(w.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	target.Store(u)
	w.user("alice", "acme", true)
	w.user("bob", "acme", false)
	w.user("carol", "solo", false)
	return w
}

// keep remembers an answer.
func (w *world) keep(r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return err
		}
		if body, err = io.ReadAll(z); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, exchange{r.Request.Method, r.Request.URL.Path, r.StatusCode, r.Header.Get("Content-Type"), body})
	return nil
}

// exchanges are those so far.
func (w *world) exchanges() []exchange {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]exchange(nil), w.kept...)
}

// ask sends a request past the proxy and reads its JSON.
func (w *world) ask(want int, token, method, path string, body, into any) {
	w.Helper()
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			w.Fatal(err)
		}
	}
	a := drover.Must(w, drover.Request{
		Method: method, URL: w.server.URL() + path, Token: token, Body: data, Header: http.Header{"Content-Type": {"application/json"}},
	})
	if a.Status != want {
		w.Fatalf("%s %s: %d %s", method, path, a.Status, a.Body)
	}
	if into != nil {
		if err := json.Unmarshal(a.Body, into); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) admin() string {
	w.Helper()
	token, err := w.server.AdminToken()
	if err != nil {
		w.Fatal(err)
	}
	return token
}

// user makes somebody who can log in.
func (w *world) user(name, org string, orgAdmin bool) {
	w.Helper()
	w.ask(http.StatusCreated, w.admin(), "POST", "/api/v1/users",
		map[string]any{"name": name, "org": org, "org_admin": orgAdmin, "account": "account-of-" + name, "password": password}, nil)
}

// await asks for a kafka until it is so.
func (w *world) await(token, id, what string, so func(kafka map[string]any, status int) bool) {
	w.Helper()
	drover.Until(w, what, func() bool {
		a := drover.Must(w, drover.Request{Method: "GET", URL: w.server.URL() + api + "/kafkas/" + id, Token: token})
		kafka := map[string]any{}
		_ = json.Unmarshal(a.Body, &kafka)
		return so(kafka, a.Status)
	})
}

var input = regexp.MustCompile(`name="(request|proof)" value="([^"]*)"`)

// browse does what a person does at the login page: it follows the link, fills
// in the form, and is sent back to the program that asked. It returns the URL.
func (w *world) browse(link, user string) string {
	w.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	page, err := browser.Get(link)
	if err != nil {
		w.Fatal(err)
	}
	defer page.Body.Close()
	text, err := io.ReadAll(page.Body)
	if err != nil {
		w.Fatal(err)
	}
	form := url.Values{"username": {user}, "password": {password}}
	for _, m := range input.FindAllStringSubmatch(string(text), -1) {
		form.Set(m[1], strings.NewReplacer("&#43;", "+", "&amp;", "&").Replace(m[2]))
	}
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	sent, err := browser.PostForm(w.url+realm+"/protocol/openid-connect/login", form)
	if err != nil {
		w.Fatal(err)
	}
	sent.Body.Close()
	back := sent.Header.Get("Location")
	if back == "" {
		w.Fatalf("the login page answers %d to %s, at %s:\n%s", sent.StatusCode, user, link, text)
	}
	return back
}

// login returns an access token of a person, by authorization code and PKCE.
func (w *world) login(user string) string {
	w.Helper()
	verifier := strings.Repeat("v", 64)
	sum := sha256.Sum256([]byte(verifier))
	const back = "http://127.0.0.1:43210/callback"
	at := w.url + realm + "/protocol/openid-connect"
	to, err := url.Parse(w.browse(at+"/auth?"+url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {back}, "scope": {"openid"}, "state": {"xyz"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode(), user))
	if err != nil {
		w.Fatal(err)
	}
	resp, err := http.PostForm(at+"/token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {client}, "redirect_uri": {back},
		"code": {to.Query().Get("code")}, "code_verifier": {verifier},
	})
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got.AccessToken == "" {
		w.Fatalf("no token for %s: %d, %v", user, resp.StatusCode, err)
	}
	return got.AccessToken
}

// prometheus is a tiny one: whatever is asked, there is one series of it with
// the labels of the question.
func prometheus(t *testing.T) string {
	t.Helper()
	selector := regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)?\{(.*)\}$`)
	pair := regexp.MustCompile(`([a-zA-Z_]\w*)(=~?)"([^"]*)"`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ParseForm() != nil {
			http.Error(w, "bad form", http.StatusBadRequest)
			return
		}
		labels := map[string]string{}
		if m := selector.FindStringSubmatch(r.Form.Get("query") + r.Form.Get("match[]")); m != nil {
			labels["__name__"] = m[1]
			for _, p := range pair.FindAllStringSubmatch(m[2], -1) {
				labels[p[1]] = strings.Split(strings.Trim(p[3], "^$()"), "|")[0]
			}
		}
		series := map[string]any{"metric": labels}
		kind := "vector"
		switch {
		case strings.HasSuffix(r.URL.Path, "/federate"):
			for _, match := range r.Form["match[]"] {
				fmt.Fprintf(w, "%s 42 1700000000000\n", match)
			}
			return
		case strings.HasSuffix(r.URL.Path, "/query_range"):
			kind, series["values"] = "matrix", []any{[]any{1700000000, "41"}, []any{1700000030, "42.5"}}
		default:
			series["value"] = []any{1700000000.5, "42.5"}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": kind, "result": []any{series}}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}
