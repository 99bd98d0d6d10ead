package access_test

import (
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

// Replicas whose clocks are ten minutes apart take each other's tokens. What has
// ended has ended, and whoever is refused for the time of day reads so.
func TestClocksOfReplicasApart(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		behind time.Duration // of who looks, behind who signs
		ttl    time.Duration
		says   string // in the refusal; empty: it is taken
	}{
		"behind":       {"A token from the future is one of a clock that is ahead.", 10 * time.Minute, time.Hour, ""},
		"ahead":        {"It ends that much earlier.", -10 * time.Minute, time.Hour, ""},
		"far behind":   {"Nobody's clock is an hour off.", time.Hour, 2 * time.Hour, "is not valid yet: it is good from "},
		"ahead of all": {"There is no grace for what has ended, and its reader learns the time.", -10 * time.Minute, 5 * time.Minute, "has expired: it was good until "},
	} {
		t.Run(name, func(t *testing.T) {
			s, theirs, ours := newStore(), newClock(), newClock()
			theirs.forward(time.Hour)
			ours.forward(time.Hour - tc.behind)
			i, _ := replica(t, s, theirs)
			looks, a := replica(t, s, ours)
			who, err := a.Authenticate(t.Context(), issue(t, i, access.Claims{Cluster: "edge"}, tc.ttl))
			switch {
			case tc.says == "" && (err != nil || who.Cluster != "edge"):
				t.Errorf("%s %+v, %v", tc.reason, who, err)
			case tc.says != "" && (!fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), tc.says) ||
				!strings.Contains(err.Error(), ours.now().Format("2006-01-02 15:04:05 UTC")+" by this server's clock")):
				t.Errorf("%s It is refused with %v", tc.reason, err)
			}
			line, _, err := i.IssueErrand(t.Context(), "join", "edge", tc.ttl)
			if err != nil {
				t.Fatal(err)
			}
			if err := looks.Errand(t.Context(), line, "join", "edge"); (err == nil) != (tc.says == "") {
				t.Errorf("%s Of an errand: %v", tc.reason, err)
			}
		})
	}
}

// A token for a cluster that began later than it is by this clock is not of before.
func TestTokensAreNotOlderThanTheirCluster(t *testing.T) {
	c := newClock()
	i, a := replica(t, newStore(), c)
	for reason, began := range map[string]time.Time{
		"written down by a clock that is ahead": c.now().Add(10*time.Minute + time.Millisecond),
		"long ago":                              c.now().Add(-time.Hour),
		"never":                                 {},
	} {
		token := issue(t, i, access.Claims{Cluster: "edge", NotOlder: began}, time.Hour)
		who, err := a.Authenticate(t.Context(), token)
		from, until, _ := access.Life(token)
		if err != nil || who.Issued.Before(began) || until.Sub(from) != time.Hour {
			t.Errorf("%s: made at %s, %v", reason, who.Issued, err)
		}
		if began.Before(c.now()) && !who.Issued.Equal(c.now().Truncate(time.Second)) {
			t.Errorf("%s: it was made at %s, and it is %s", reason, who.Issued, c.now())
		}
	}
}
