package access_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

func TestErrand(t *testing.T) {
	c := newClock()
	s := newStore()
	i, a := replica(t, s, c)
	other, _ := replica(t, s, c)
	stranger, _ := replica(t, newStore(), c)
	token, expires, err := i.IssueErrand(t.Context(), "join", "edge", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if d := expires.Sub(c.now()); d <= 59*time.Minute || d > time.Hour {
		t.Errorf("it lives for %s", d)
	}
	foreign, _, err := stranger.IssueErrand(t.Context(), "join", "edge", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(token, ".")
	for _, tc := range []struct {
		reason, token, purpose, subject string
		good                            bool
	}{
		{"what it was made for", token, "join", "edge", true},
		{"another subject", token, "join", "edge2", false},
		{"another purpose", token, "leave", "edge", false},
		{"no purpose at all", token, "", "", false},
		{"no token", "", "join", "edge", false},
		{"another server's", foreign, "join", "edge", false},
		{"a changed one", head + ".x" + rest, "join", "edge", false},
		{"a token of the cluster's agent", issue(t, i, access.Claims{Cluster: "edge"}, time.Hour), "join", "edge", false},
		{"an operator's token", issue(t, i, access.Claims{User: "root", Admin: true}, time.Hour), "join", "edge", false},
	} {
		err := other.Errand(t.Context(), tc.token, tc.purpose, tc.subject)
		if tc.good != (err == nil) || err != nil && (!fault.Is(err, fault.Denied) || fault.Reason(err) != "token") {
			t.Errorf("%s: %v", tc.reason, err)
		}
	}
	if who, err := a.Authenticate(t.Context(), token); err == nil {
		t.Errorf("it makes its holder a caller: %+v", who)
	}
	c.forward(time.Hour)
	if err := i.Errand(t.Context(), token, "join", "edge"); !fault.Is(err, fault.Denied) {
		t.Errorf("an hour later: %v", err)
	}
}

func TestErrandsAreBounded(t *testing.T) {
	i, _ := replica(t, newStore(), newClock())
	for reason, tc := range map[string]struct {
		purpose, subject string
		ttl              time.Duration
	}{
		"no purpose":         {"", "edge", time.Hour},
		"no subject":         {"join", "", time.Hour},
		"a subject for logs": {"join", "edge\n", time.Hour},
		"no life":            {"join", "edge", 0},
		"too long a life":    {"join", "edge", 8760 * time.Hour},
	} {
		if _, _, err := i.IssueErrand(t.Context(), tc.purpose, tc.subject, tc.ttl); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}
