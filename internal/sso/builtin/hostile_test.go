package builtin_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
)

func TestWrongPassword(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	page := w.open(b, newAttempt())
	var said []string
	for _, tc := range []struct{ reason, name, secret string }{
		{"the password is wrong", "alice", password + "x"},
		{"there is no such user", "nobody", password},
		{"there is no password", "alice", ""},
		{"no user can have that name", "a\x00b\xff", password},
	} {
		got := w.submit(b, page, tc.name, tc.secret)
		if got.status != http.StatusUnauthorized || got.header.Get("Location") != "" {
			t.Fatalf("%s: got %d %q", tc.reason, got.status, got.header.Get("Location"))
		}
		if strings.Contains(got.body, password) {
			t.Error("the page repeats the password")
		}
		text := got.body[strings.Index(got.body, `role="alert"`):]
		said = append(said, text[:strings.Index(text, "</p>")])
	}
	for _, s := range said {
		if s != said[0] {
			t.Errorf("the page tells what is wrong: %q, %q", said[0], s)
		}
	}
	if got := w.submit(b, page, "alice", password); got.status != http.StatusFound {
		t.Errorf("after mistakes, the right password: %d %s", got.status, got.body)
	}
}

func TestBackOff(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	page := w.open(b, newAttempt())
	for _, name := range []string{"alice", "nobody"} {
		for range 5 {
			if got := w.submit(b, page, name, "guess"); got.status != http.StatusUnauthorized {
				t.Fatalf("%s: a first guess: %d", name, got.status)
			}
		}
		// The sixth has to wait, with the right password too, and whether there
		// is such a user or not.
		got := w.submit(b, page, name, password)
		if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
			t.Errorf("%s: the sixth guess: %d", name, got.status)
		}
	}
	w.skew.Store(int64(2 * time.Second))
	if got := w.submit(b, page, "alice", password); got.status != http.StatusFound {
		t.Errorf("after the wait: %d %s", got.status, got.body)
	}
	page = w.open(b, newAttempt())
	for i := range 20 {
		switch got := w.submit(b, page, fmt.Sprint("user", i), "guess"); got.status {
		case http.StatusTooManyRequests:
			return // the address has to wait, whatever names it tries
		case http.StatusUnauthorized:
		default:
			t.Fatalf("a guess: %d %s", got.status, got.body)
		}
	}
	t.Error("an address may try names for ever")
}

func TestForgedForms(t *testing.T) {
	w := newWorld(t)
	b := w.browser()
	page := w.open(b, newAttempt())
	other := w.open(b, newAttempt())
	swapped := page
	swapped.body = strings.ReplaceAll(page.body, hidden.FindAllStringSubmatch(page.body, -1)[0][2], hidden.FindAllStringSubmatch(other.body, -1)[0][2])
	bent := page
	bent.body = strings.Replace(page.body, `name="proof" value="`, `name="proof" value="x`, 1)
	broken := page
	broken.body = strings.Replace(page.body, `name="request" value="`, `name="request" value="AAAA`, 1)
	for name, tc := range map[string]struct {
		reason string
		from   *http.Client
		page   answer
		want   int
	}{
		"no cookie":      {"another site's page has no cookie of ours", w.browser(), page, http.StatusForbidden},
		"another proof":  {"nor our proof", b, bent, http.StatusForbidden},
		"another's form": {"a proof is good for one request", b, swapped, http.StatusForbidden},
		"broken request": {"a request that nobody sealed", b, broken, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.submit(tc.from, tc.page, "alice", password)
			if got.status != tc.want || got.header.Get("Location") != "" {
				t.Errorf("%s: got %d, want %d", tc.reason, got.status, tc.want)
			}
		})
	}
	if got := w.submit(b, page, "alice", password); got.status != http.StatusFound {
		t.Errorf("the true form: %d", got.status)
	}
	w.skew.Store(int64(11 * time.Minute))
	if got := w.submit(b, other, "alice", password); got.status != http.StatusBadRequest {
		t.Errorf("a page from eleven minutes ago: %d", got.status)
	}
	for h, want := range map[string]string{"X-Frame-Options": "DENY", "Cache-Control": "no-store"} {
		if page.header.Get(h) != want {
			t.Errorf("the page's %s is %q", h, page.header.Get(h))
		}
	}
	if strings.Contains(page.body, "<script") || strings.Contains(page.body, " src=") || strings.Contains(page.body, "<link") {
		t.Error("the page needs more than itself")
	}
}

func TestRedirects(t *testing.T) {
	w := newWorld(t)
	w.ok(w.p.Apply(t.Context(), robot))
	for _, tc := range []struct {
		reason, client, redirect string
		good                     bool
	}{
		{"loopback, any port", "drover-cli", "http://127.0.0.1:1/callback", true},
		{"loopback by name", "drover-cli", "http://localhost:65535/sso-redhat-callback", true},
		{"loopback of six", "drover-cli", "http://[::1]:8080/callback", true},
		{"the application's own", robot.ID, robot.Redirects[0], true},
		{"another path", "drover-cli", "http://127.0.0.1:1/other", false},
		{"a longer path", "drover-cli", "http://127.0.0.1:1/callback/x", false},
		{"a way around", "drover-cli", "http://127.0.0.1:1/callback/../x", false},
		{"a query", "drover-cli", "http://127.0.0.1:1/callback?x=1", false},
		{"a fragment", "drover-cli", "http://127.0.0.1:1/callback#x", false},
		{"a host that looks like it", "drover-cli", "http://127.0.0.1.evil.example/callback", false},
		{"a user that looks like it", "drover-cli", "http://127.0.0.1:1@evil.example/callback", false},
		{"somebody", "drover-cli", "http://evil@127.0.0.1:1/callback", false},
		{"elsewhere", "drover-cli", "https://evil.example/callback", false},
		{"another scheme", "drover-cli", "javascript:alert(1)", false},
		{"encoded twice", "drover-cli", "http%3A%2F%2F127.0.0.1%3A1%2Fcallback", false},
		{"no scheme", "drover-cli", "//evil.example/callback", false},
		{"none", "drover-cli", "", false},
		{"the application's, less", robot.ID, "https://app.example.org/callback", false},
		{"the application's, more", robot.ID, robot.Redirects[0] + "0", false},
		{"the application's, another case", robot.ID, "https://app.example.org/Callback?x=1", false},
		{"the application's, encoded", robot.ID, "https://app.example.org/%63allback?x=1", false},
		{"the application's, another port", robot.ID, "https://app.example.org:444/callback?x=1", false},
		{"no such client", "nobody", callback, false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			a := newAttempt()
			a.query.Set("client_id", tc.client)
			a.query.Set("redirect_uri", tc.redirect)
			// A request that is bad in another way must not be sent there either.
			for _, scope := range []string{"openid", ""} {
				a.query.Set("scope", scope)
				got := w.open(w.browser(), a)
				to := got.header.Get("Location")
				switch {
				case tc.good && scope == "openid" && (got.status != http.StatusOK || action.FindString(got.body) == ""):
					t.Errorf("got %d %q %s, want the login page", got.status, to, got.body)
				case !tc.good && (got.status != http.StatusBadRequest || to != ""):
					t.Errorf("got %d and location %q, want a refusal that stays here", got.status, to)
				}
			}
		})
	}
}

func TestRequestsRefused(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		reason string
		change url.Values
		want   string
	}{
		"no challenge": {"a client without a secret proves that the code is its own", url.Values{"code_challenge": {""}, "code_challenge_method": {""}}, "invalid_request"},
		"plain":        {"a challenge that is the verifier proves nothing", url.Values{"code_challenge_method": {"plain"}}, "invalid_request"},
		"no method":    {"which is the default", url.Values{"code_challenge_method": {""}}, "invalid_request"},
		"implicit":     {"tokens do not belong into URLs", url.Values{"response_type": {"id_token token"}}, "unauthorized_client"},
		"silent":       {"nobody is logged in without a page", url.Values{"prompt": {"none"}}, "login_required"},
		"object":       {"requests are not signed here", url.Values{"request": {"e30.e30."}}, "request_not_supported"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttempt()
			for k, v := range tc.change {
				a.query[k] = v
			}
			got := w.open(w.browser(), a)
			// Errors of the implicit flow are in the fragment.
			if to := got.header.Get("Location"); !strings.HasPrefix(to, callback) || !strings.Contains(to, "error="+tc.want) || strings.Contains(to, "code=") {
				t.Errorf("%s: got %d %q", tc.reason, got.status, to)
			}
		})
	}
}

func TestHugeInputs(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(slog.New(slog.DiscardHandler))
	huge := strings.Repeat("x", 200<<10)
	a := newAttempt()
	a.query.Set("state", huge)
	if got := w.open(w.browser(), a); got.status != http.StatusRequestURITooLong {
		t.Errorf("a query of 200 KiB: %d", got.status)
	}
	for name, form := range map[string]url.Values{
		"code":          {"grant_type": {"authorization_code"}, "client_id": {"drover-cli"}, "code": {huge}},
		"refresh token": {"grant_type": {"refresh_token"}, "client_id": {"drover-cli"}, "refresh_token": {huge}},
		"client":        {"grant_type": {"client_credentials"}, "client_id": {huge}, "client_secret": {"x"}},
		"long client":   {"grant_type": {"client_credentials"}, "client_id": {huge[:2000]}, "client_secret": {"x"}},
		"zero client":   {"grant_type": {"client_credentials"}, "client_id": {"a\x00b"}, "client_secret": {"x"}},
		"grant":         {"grant_type": {huge[:1000]}},
		"state":         {"client_id": {"drover-cli"}, "redirect_uri": {callback}, "state": {huge[:20000]}},
		"nothing":       {},
	} {
		for _, path := range []string{"token", "revoke", "token/introspect", "login", "logout", "auth"} {
			if got := w.post(path, form); got.status >= 500 {
				t.Errorf("%s at %s: %d %s", name, path, got.status, got.body)
			}
		}
	}
	if n := len(log.String()); n > 20_000 || strings.Contains(log.String(), huge[:1000]) {
		t.Errorf("strangers fill the log: %d bytes", n)
	}
	if got := w.get(http.DefaultClient, w.at("userinfo"), huge[:8000]); got.status != http.StatusUnauthorized {
		t.Errorf("a huge bearer: %d", got.status)
	}
}

func TestCodeAbuse(t *testing.T) {
	w := newWorld(t)
	a := newAttempt()
	code := w.code(a)
	wrong := a
	wrong.verifier = strings.Repeat("y", 52)
	if got := w.exchange(wrong, code); got.status != http.StatusBadRequest || got.text("error") != "invalid_grant" {
		t.Errorf("a wrong verifier: %d %s", got.status, got.body)
	}
	missing := a
	missing.verifier = ""
	if got := w.exchange(missing, code); got.status != http.StatusBadRequest || got.text("access_token") != "" {
		t.Errorf("no verifier: %d %s", got.status, got.body)
	}
	elsewhere := newAttempt()
	elsewhere.verifier = a.verifier
	elsewhere.query.Set("redirect_uri", "http://127.0.0.1:43211/callback")
	if got := w.exchange(elsewhere, code); got.text("error") != "invalid_grant" {
		t.Errorf("another redirect: %d %s", got.status, got.body)
	}
	w.ok(w.p.Apply(t.Context(), robot))
	stolen := w.post("token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {robot.ID}, "client_secret": {robot.Secret},
		"redirect_uri": {callback}, "code": {code}, "code_verifier": {a.verifier},
	})
	if stolen.text("error") != "invalid_grant" {
		t.Errorf("another client's code: %d %s", stolen.status, stolen.body)
	}
	got := w.exchange(a, code)
	if got.status != http.StatusOK {
		t.Fatalf("the right exchange after wrong ones: %d %s", got.status, got.body)
	}
	if again := w.exchange(a, code); again.text("error") != "invalid_grant" {
		t.Errorf("a code a second time: %d %s", again.status, again.body)
	}
	if next := w.refresh(got.text("refresh_token")); next.text("error") != "invalid_grant" {
		t.Errorf("the tokens of a code that was used twice: %d %s", next.status, next.body)
	}
	if in := w.introspect(got.text("access_token")); in.json["active"] != false {
		t.Errorf("they count: %s", in.body)
	}
	late := newAttempt()
	code = w.code(late)
	w.skew.Store(int64(2 * time.Minute))
	if got := w.exchange(late, code); got.text("error") != "invalid_grant" {
		t.Errorf("a code after two minutes: %d %s", got.status, got.body)
	}
}

func TestOneOfManyExchangesWins(t *testing.T) {
	w := newWorld(t)
	token := w.login().text("refresh_token")
	var mu sync.Mutex
	won := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got := w.refresh(token)
			mu.Lock()
			defer mu.Unlock()
			if got.status == http.StatusOK {
				won++
			} else if got.text("error") != "invalid_grant" {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	wg.Wait()
	if won != 1 {
		t.Errorf("one refresh token was exchanged %d times", won)
	}
}

func TestPasswordEndsLogins(t *testing.T) {
	w := newWorld(t)
	for name, act := range map[string]func() error{
		"password": func() error { return w.users.SetPassword(root, "alice", password) },
		"deletion": func() error { return w.users.Delete(root, "alice") },
	} {
		got := w.login()
		w.ok(act())
		if next := w.refresh(got.text("refresh_token")); next.text("error") != "invalid_grant" {
			t.Errorf("%s: the login goes on: %d %s", name, next.status, next.body)
		}
		if info := w.get(http.DefaultClient, w.at("userinfo"), got.text("access_token")); info.status == http.StatusOK {
			t.Errorf("%s: userinfo: %s", name, info.body)
		}
		if name == "deletion" {
			_, err := w.users.Create(root, access.User{Name: "alice"}, password)
			w.ok(err)
		}
	}
}

// A page that was open while its application lost a redirect leads there no more.
func TestRedirectTakenAway(t *testing.T) {
	w := newWorld(t)
	w.ok(w.p.Apply(t.Context(), robot))
	a, b := newAttempt(), w.browser()
	a.query.Set("client_id", robot.ID)
	a.query.Set("redirect_uri", robot.Redirects[0])
	page := w.open(b, a)
	changed := robot
	changed.Redirects = []string{"https://other.example.org/"}
	w.ok(w.p.Apply(t.Context(), changed))
	if got := w.submit(b, page, "alice", password); got.status != http.StatusBadRequest || got.header.Get("Location") != "" {
		t.Errorf("sent to %d %q", got.status, got.header.Get("Location"))
	}
}
