package agent_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/agent"
)

// spot is a site as an agent meets it.
type spot struct {
	answer v1.Synced
	err    error
	silent bool // it never answers
	asked  int
}

func (s *spot) Sync(ctx context.Context, _ string, _ v1.Sync) (v1.Synced, error) {
	s.asked++
	if s.silent {
		<-ctx.Done()
		return v1.Synced{}, ctx.Err()
	}
	return s.answer, s.err
}

func TestAgentsChangeOver(t *testing.T) {
	gone := &client.Unreachable{Server: "east"}
	both := []string{"east", "west"}
	for _, c := range []struct {
		reason     string
		east, west spot
		epoch      int64 // that the agent has followed
		want       string
		failed     bool
	}{
		{"the one that it knows leads", spot{answer: v1.Synced{Epoch: 1}}, spot{answer: v1.Synced{Epoch: 1}}, 1, "east", false},
		{"it is gone", spot{err: gone}, spot{answer: v1.Synced{Epoch: 2}}, 1, "west", false},
		{"it follows now", spot{err: &client.Error{Status: http.StatusMisdirectedRequest}}, spot{answer: v1.Synced{Epoch: 2}}, 1, "west", false},
		{"it is an old copy and does not know", spot{answer: v1.Synced{Epoch: 1}}, spot{answer: v1.Synced{Epoch: 2}}, 2, "west", false},
		{"it is an old copy and says so", spot{err: &client.Error{Status: http.StatusConflict}}, spot{answer: v1.Synced{Epoch: 2}}, 2, "west", false},
		{"none is there", spot{err: gone}, spot{err: gone}, 1, "east", true},
		{"the agent itself is not welcome", spot{err: &client.Error{Status: http.StatusForbidden}}, spot{answer: v1.Synced{Epoch: 1}}, 1, "east", true},
	} {
		t.Run(c.reason, func(t *testing.T) {
			store := agent.Dir(t.TempDir())
			east, west := &spot{answer: v1.Synced{Epoch: 1, Sites: both}}, &spot{}
			dial := func(server string) (agent.Client, error) {
				return map[string]agent.Client{"east": east, "west": west}[server], nil
			}
			first, err := agent.NewSites(store, "east", dial, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := first.Sync(t.Context(), "edge", v1.Sync{}); err != nil {
				t.Fatal(err)
			}
			// The next life was told nothing but what the first has kept.
			sites, err := agent.NewSites(store, "east", dial, nil)
			if err != nil {
				t.Fatal(err)
			}
			*east, *west = c.east, c.west
			_, err = sites.Sync(t.Context(), "edge", v1.Sync{Epoch: c.epoch, Wait: true})
			if (err != nil) != c.failed {
				t.Fatalf("it got %v", err)
			}
			if most := 1; east.asked > most || west.asked > most {
				t.Errorf("the sites were asked %d and %d times", east.asked, west.asked)
			}
			asked := east.asked
			_, _ = sites.Sync(t.Context(), "edge", v1.Sync{Epoch: c.epoch})
			at := map[bool]string{true: "east", false: "west"}[east.asked > asked]
			if at != c.want {
				t.Errorf("it stays with %s", at)
			}
		})
	}
}

// A site that is there and never answers takes all the time there is: the next time
// another one is asked first.
func TestAgentLeavesASilentSite(t *testing.T) {
	east, west := &spot{answer: v1.Synced{Epoch: 1, Sites: []string{"east", "west"}}}, &spot{answer: v1.Synced{Epoch: 2}}
	sites, err := agent.NewSites(agent.Dir(t.TempDir()), "east", func(server string) (agent.Client, error) {
		return map[string]agent.Client{"east": east, "west": west}[server], nil
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sites.Sync(t.Context(), "edge", v1.Sync{}); err != nil {
		t.Fatal(err)
	}
	east.silent = true
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := sites.Sync(ctx, "edge", v1.Sync{Epoch: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("it got %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute) // for a site that is silent
	defer cancel()
	if out, err := sites.Sync(ctx, "edge", v1.Sync{Epoch: 1}); err != nil || out.Epoch != 2 {
		t.Errorf("it got %+v, %v", out, err)
	}
}
