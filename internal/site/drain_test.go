package site_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/site"
)

func TestDrain(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	signal := func(kind string, epoch int64, s int) func(site.Drain) site.Drain {
		return func(d site.Drain) site.Drain {
			return d.Told(site.Signal{Kind: kind, Site: "east", To: "west", Epoch: epoch, At: at(s)}, at(s+1))
		}
	}
	works := func(s int) func(site.Drain) site.Drain {
		return func(d site.Drain) site.Drain { return d.Works(at(s)) }
	}
	past := func(epoch int64) func(site.Drain) site.Drain {
		return func(d site.Drain) site.Drain { return d.Past(epoch) }
	}
	drained := site.Drain{Epoch: 2, At: at(10), Heard: at(11)}
	for _, tc := range []struct {
		reason string
		steps  []func(site.Drain) site.Drain // after it was drained
		want   site.Drain
	}{
		{"nothing more is heard", nil, drained},
		{"it is told twice", []func(site.Drain) site.Drain{signal(site.SignalDrain, 2, 10)}, drained},
		{"its replicas end one after the other", []func(site.Drain) site.Drain{signal(site.SignalDrain, 2, 20)}, site.Drain{Epoch: 2, At: at(20), Heard: at(21)}},
		{"the word of before comes late", []func(site.Drain) site.Drain{signal(site.SignalEpoch, 2, 9)}, drained},
		{"the word of an earlier epoch comes late", []func(site.Drain) site.Drain{signal(site.SignalPromotion, 1, 30)}, drained},
		{"it leads again", []func(site.Drain) site.Drain{signal(site.SignalEpoch, 2, 20)}, site.Drain{}},
		{"and ends again", []func(site.Drain) site.Drain{signal(site.SignalEpoch, 2, 20), signal(site.SignalDrain, 2, 30)}, site.Drain{Epoch: 2, At: at(30), Heard: at(31)}},
		{"it leads in a later epoch, by a clock that was set", []func(site.Drain) site.Drain{signal(site.SignalPromotion, 3, 5)}, site.Drain{}},
		{"it answers what it was asked before", []func(site.Drain) site.Drain{works(11)}, drained},
		{"it answers what it was asked since", []func(site.Drain) site.Drain{works(12)}, site.Drain{}},
		{"its own epoch goes on", []func(site.Drain) site.Drain{past(2)}, drained},
		{"the next one has begun", []func(site.Drain) site.Drain{past(3)}, site.Drain{}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got := signal(site.SignalDrain, 2, 10)(site.Drain{})
			for _, step := range tc.steps {
				got = step(got)
			}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

// A drain that is a site's last word counts, in whichever order its signals come. Where another
// is the last, the question that follows each of them finds out.
func TestDrainIsTheLastWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "signals")
		sent, order := make([]site.Signal, n), make([]int, n)
		for i := range sent {
			kind := site.SignalDrain
			if i < n-1 {
				kind = rapid.SampledFrom([]string{site.SignalEpoch, site.SignalPromotion, site.SignalDrain}).Draw(t, "kind")
			}
			sent[i] = site.Signal{Kind: kind, Epoch: 1, At: noon.Add(time.Duration(i) * time.Second)}
			order[i] = i
		}
		last := sent[n-1]
		var d site.Drain
		for _, i := range rapid.Permutation(order).Draw(t, "order") {
			d = d.Told(sent[i], noon)
		}
		if !d.At.Equal(last.At) {
			t.Fatalf("it was drained at %s, and what counts is %+v", last.At, d)
		}
	})
}
