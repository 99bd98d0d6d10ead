package httpapi_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
)

// TestForeignPagesDoNotLookWithACookie: what a browser says of the page that
// asks decides, for reading as for writing.
func TestForeignPagesDoNotLookWithACookie(t *testing.T) {
	r := newRig(t)
	alice := r.user(t, "alice", "acme")
	for name, tc := range map[string]struct {
		site, origin string
		want         int
		reason       string
	}{
		"own page":         {"same-origin", "", 200, "the page is ours"},
		"typed":            {"none", "", 200, "the user asked, no page"},
		"no browser":       {"", "", 200, "nobody else's page is involved"},
		"own origin":       {"", "http://example.com", 200, "an old browser on our page"},
		"cross-site":       {"cross-site", "", 401, "a foreign page"},
		"neighbour":        {"same-site", "", 401, "another host of the same domain is foreign, too"},
		"foreign origin":   {"", "https://evil.example", 401, "an old browser on a foreign page"},
		"no origin at all": {"", "null", 401, "a page in a box is nobody's"},
	} {
		t.Run(name, func(t *testing.T) {
			req := httptest.NewRequest("GET", "http://example.com"+dinosaurs, nil)
			req.Header.Set("Cookie", "cs_jwt="+alice)
			if tc.site != "" {
				req.Header.Set("Sec-Fetch-Site", tc.site)
			}
			if tc.origin != "" {
				req.Header.Set("Origin", tc.origin)
			}
			if w := r.send(t, req); w.Code != tc.want {
				t.Errorf("%s: status %d: %s", tc.reason, w.Code, w.Body)
			}
			req.Header.Del("Cookie")
			req.Header.Set("Authorization", "Bearer "+alice)
			if w := r.send(t, req); w.Code != 200 {
				t.Errorf("a token is the page's own: status %d", w.Code)
			}
		})
	}
}

// TestFailuresAreLoggedOnEveryLevel: whoever logs errors alone must see them.
func TestFailuresAreLoggedOnEveryLevel(t *testing.T) {
	said := &logs{}
	r := newRig(t, func(c *httpapi.Config) {
		c.Log = slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelError}))
	})
	alice := r.user(t, "alice", "acme")
	r.do(t, alice, "GET", dinosaurs, "").ok(200)
	r.do(t, alice, "GET", dinosaurs+"/nobody", "").refused("there is none", 404, "7")
	if said.String() != "" {
		t.Errorf("what went well is logged as an error: %s", said)
	}
	r.ledger.set(func(context.Context) error { return fault.New(fault.Internal, "the page is torn") })
	r.do(t, alice, "GET", dinosaurs, "").refused("broken", 500, "9")
	r.ledger.set(nil)
	if got := said.String(); !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "the page is torn") {
		t.Errorf("the log has nothing of it: %q", got)
	}
}

// TestTokensAreOnRecord: a token is a way in, and signing one changes nothing
// else that the log could tell of.
func TestTokensAreOnRecord(t *testing.T) {
	r := newRig(t)
	root := r.token(t, access.Claims{User: "root", Admin: true})
	var made struct{ Token string }
	r.do(t, root, "POST", "/api/v1/tokens", `{"user":"alice","org":"acme","admin":true}`).ok(201).into(&made)
	r.do(t, root, "POST", "/api/v1/tokens", `{"cluster":"c1"}`).ok(201)
	r.do(t, root, "POST", "/api/v1/tokens", `{"user":"bob","ttl":"soon"}`).refused("no time", 400, "37")
	var list struct {
		Items []struct {
			Phase, Owner string
			Spec         struct{ User, Path, Remote string }
			Status       struct {
				Status int
				About  string
			}
		}
	}
	r.do(t, r.user(t, "mallory", ""), "POST", "/api/v1/tokens", `{"user":"mallory","admin":true}`).refused("operators only", 403, "11")
	w := r.do(t, root, "GET", "/api/v1/audits?order_by=created_at", "").ok(200)
	w.into(&list)
	want := []struct {
		user, about string
		code        int
	}{{"root", "user alice of acme, operator", 201}, {"root", "agent of c1", 201}, {"root", "user bob of ", 400}, {"mallory", "", 403}}
	if len(list.Items) != len(want) {
		t.Fatalf("%d entries: %s", len(list.Items), w.Body)
	}
	for i, e := range list.Items {
		if e.Status.About != want[i].about || e.Status.Status != want[i].code || e.Spec.User != want[i].user || e.Spec.Path != "/api/v1/tokens" || e.Spec.Remote == "" {
			t.Errorf("entry %d: %+v", i, e)
		}
	}
	if strings.Contains(w.Body.String(), made.Token[len(made.Token)-20:]) {
		t.Error("the token itself is on record")
	}
	r.ledger.set(func(context.Context) error { return fault.New(fault.Unavailable, "away") })
	defer r.ledger.set(nil)
	r.do(t, root, "POST", "/api/v1/tokens", `{"user":"alice"}`).refused("no record, no token", 503, "9")
}

// TestShutOutOfTheOwnAPI: whoever may not use the service gets nothing by the
// other door, above all no credentials.
func TestShutOutOfTheOwnAPI(t *testing.T) {
	f := newFleet(t)
	mallory := f.user(t, "mallory", "acme")
	f.policy.set(func(d *doorman) { d.denied = map[string]bool{"mallory": true} })
	for _, q := range [][3]string{
		{"POST", "/api/v1/serviceaccounts", `{"name":"robot"}`}, {"GET", "/api/v1/serviceaccounts", ""},
		{"GET", "/api/v1/kafkas", ""}, {"GET", "/api/v1/instances", ""}, {"POST", "/api/v1/kafkas", `{"name":"one"}`},
		{"GET", "/api/v1/changes", ""}, {"GET", "/api/v1/watch", ""}, {"GET", "/api/v1/operations", ""},
	} {
		f.do(t, mallory, q[0], q[1], q[2]).refused(q[0]+" "+q[1], 403, "4")
	}
	for _, path := range []string{"/api/v1/whoami", "/api/v1/kinds", "/api/v1/errors", "/api/v1/errors/4"} {
		f.do(t, mallory, "GET", path, "").ok(200)
	}
	f.do(t, f.user(t, "alice", "acme"), "GET", "/api/v1/kafkas", "").ok(200)
}

// TestWithout: what is sealed is taken out however its name is written, and what has
// nothing of it is left as it is.
func TestWithout(t *testing.T) {
	for _, c := range []struct{ reason, doc, want string }{
		{"nothing of it", `{"b": 1, "a":"<x>"}`, `{"b": 1, "a":"<x>"}`},
		{"by its name", `{"a":1,"secret":"s"}`, `{"a":1}`},
		{"by a name with escapes", `{"a":1,"\u0073ecret":"s"}`, `{"a":1}`},
		{"with a space before the colon", `{"a":1,"secret" :"s"}`, `{"a":1}`},
		{"further down it is another thing", `{"a":{"secret":"s"}}`, `{"a":{"secret":"s"}}`},
		{"what cannot be read", `{"secret":`, ``},
	} {
		if got := string(httpapi.Without([]byte(c.doc), []string{"secret"})); got != c.want {
			t.Errorf("%s: %s, want %s", c.reason, got, c.want)
		}
	}
}
