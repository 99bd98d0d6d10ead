package cluster_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/internal/cluster"
)

func phase(t *testing.T, s *cluster.Service) string {
	t.Helper()
	o, err := s.Get(t.Context(), "edge")
	if err != nil {
		t.Fatal(err)
	}
	return o.Phase
}

func TestASilentClusterTakesNoOrders(t *testing.T) {
	caller := cluster.Caller{Agent: "a", Installation: "home"}
	report := func(t *testing.T, s *cluster.Service, n int64) {
		t.Helper()
		if err := s.Report(t.Context(), "edge", cluster.Report{Agent: "a", Installation: "home", Number: n, Ready: true, Capacity: 5}); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		reason string
		live   func(t *testing.T, one, two *cluster.Service)
		want   string
		writes int64 // beside the first connection and report
	}{
		"connected": {"an open connection writes nothing", func(_ *testing.T, one, _ *cluster.Service) {
			for range 20 {
				time.Sleep(15 * time.Second)
				one.Alive("edge", "a")
			}
		}, cluster.Ready, 0},
		"reports": {"nor do heartbeats", func(t *testing.T, one, _ *cluster.Service) {
			for n := range int64(20) {
				time.Sleep(15 * time.Second)
				report(t, one, 2+n)
			}
		}, cluster.Ready, 0},
		"gone": {"whose connection ended and who does not come back is silent after 30 s", func(_ *testing.T, one, _ *cluster.Service) {
			one.Leave("edge", "a")
			time.Sleep(31 * time.Second)
		}, cluster.Waiting, 1},
		"dead": {"so is whose connection hangs without an end", func(*testing.T, *cluster.Service, *cluster.Service) {
			time.Sleep(31 * time.Second)
		}, cluster.Waiting, 1},
		"grace": {"not before", func(_ *testing.T, one, _ *cluster.Service) {
			one.Leave("edge", "a")
			time.Sleep(29 * time.Second)
		}, cluster.Ready, 0},
		"back": {"who comes back in time was never away", func(t *testing.T, one, _ *cluster.Service) {
			one.Leave("edge", "a")
			time.Sleep(20 * time.Second)
			if err := one.Admit(t.Context(), "edge", caller); err != nil {
				t.Error(err)
			}
			for range 4 {
				time.Sleep(15 * time.Second)
				one.Alive("edge", "a")
			}
		}, cluster.Ready, 0},
		"moved": {"nor who has connected to another replica", func(t *testing.T, one, two *cluster.Service) {
			one.Leave("edge", "a")
			if err := two.Admit(t.Context(), "edge", caller); err != nil {
				t.Error(err)
			}
			for range 4 {
				time.Sleep(15 * time.Second)
				two.Alive("edge", "a")
			}
		}, cluster.Ready, 1},
		"refused": {"why a silent agent is refused is written once", func(t *testing.T, one, _ *cluster.Service) {
			one.Leave("edge", "a")
			time.Sleep(40 * time.Second)
			for range 3 {
				if err := one.Refused(t.Context(), "edge", "it is too old"); err != nil {
					t.Error(err)
				}
			}
		}, cluster.Waiting, 2},
		"beside": {"whoever is refused beside an agent that speaks is not worth a word", func(t *testing.T, one, _ *cluster.Service) {
			if err := one.Refused(t.Context(), "edge", "it is too old"); err != nil {
				t.Error(err)
			}
		}, cluster.Ready, 0},
		"again": {"who speaks again is ready again", func(t *testing.T, one, _ *cluster.Service) {
			one.Leave("edge", "a")
			time.Sleep(40 * time.Second)
			if err := one.Admit(t.Context(), "edge", caller); err != nil {
				t.Error(err)
			}
			report(t, one, 2)
		}, cluster.Ready, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				one, l := open(t)
				two := cluster.NewService(l)
				if err := one.Admit(t.Context(), "edge", caller); err != nil {
					t.Fatal(err)
				}
				report(t, one, 1)
				before := head(t, l)
				c.live(t, one, two)
				synctest.Wait()
				if got := phase(t, one); got != c.want {
					t.Errorf("%s: it is %s", c.reason, got)
				}
				if n := head(t, l) - before; n != c.writes {
					t.Errorf("%s: %d changes were written", c.reason, n)
				}
			})
		})
	}
}

func TestWhoOnlyAsksNowAndThenHasMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := open(t)
		caller := cluster.Caller{Agent: "outside", Installation: "outside", Polls: true}
		if err := s.Admit(t.Context(), "edge", caller); err != nil {
			t.Fatal(err)
		}
		if err := s.Report(t.Context(), "edge", cluster.Report{Agent: "outside", Installation: "outside", Unnumbered: true, Ready: true, Capacity: 5}); err != nil {
			t.Fatal(err)
		}
		before := head(t, l)
		for range 10 {
			time.Sleep(time.Minute)
			if err := s.Admit(t.Context(), "edge", caller); err != nil {
				t.Fatal(err)
			}
		}
		if phase(t, s) != cluster.Ready || head(t, l) != before {
			t.Errorf("it is %s after %d changes", phase(t, s), head(t, l)-before)
		}
		time.Sleep(179 * time.Second)
		synctest.Wait()
		if phase(t, s) != cluster.Ready {
			t.Errorf("it is %s after less than three minutes of silence", phase(t, s))
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if phase(t, s) != cluster.Waiting {
			t.Errorf("it is %s after three minutes of silence", phase(t, s))
		}
	})
}

func TestSilenceIsSaidUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := open(t)
		if err := s.Admit(t.Context(), "edge", cluster.Caller{Agent: "a", Installation: "home"}); err != nil {
			t.Fatal(err)
		}
		says := func(want bool) {
			t.Helper()
			o, err := s.Get(t.Context(), "edge")
			if err != nil {
				t.Fatal(err)
			}
			_, status, err := cluster.Decode(o)
			if said := strings.Contains(status.Message, "silent since 2000-01-01"); err != nil || said != want {
				t.Errorf("in phase %s it says %q, %v", o.Phase, status.Message, err)
			}
		}
		report := func(n int64) {
			t.Helper()
			if err := s.Report(t.Context(), "edge", cluster.Report{Agent: "a", Installation: "home", Number: n, Ready: true, Capacity: 5}); err != nil {
				t.Fatal(err)
			}
		}
		report(1)
		says(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		says(true)
		report(2)
		says(false)
		time.Sleep(time.Minute)
	})
}
