package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

func TestCheck(t *testing.T) {
	long := strings.Repeat("a", 256)
	for _, tc := range []struct {
		reason  string
		message bus.Message
		refused bool
	}{
		{"an empty one is one", bus.Message{}, false},
		{"bytes of any kind", bus.Message{ID: "\xff", Headers: map[string]string{"\xff": "\xfe\x00"}, Body: []byte{0xff}}, false},
		{"as large as allowed", bus.Message{Body: make([]byte, bus.MaxBody)}, false},
		{"a byte more", bus.Message{Body: make([]byte, bus.MaxBody+1)}, true},
		{"a long id", bus.Message{ID: long}, true},
		{"a long topic", bus.Message{Topic: long}, true},
		{"a long type", bus.Message{Type: long}, true},
		{"a long content type", bus.Message{ContentType: long}, true},
		{"a long address", bus.Message{ReplyTo: long}, true},
		{"a long correlation", bus.Message{Correlation: long}, true},
		{"a long name of a header", bus.Message{Headers: map[string]string{long: ""}}, true},
		{"a header without a name", bus.Message{Headers: map[string]string{"": "x"}}, true},
		{"a large header", bus.Message{Headers: map[string]string{"a": strings.Repeat("b", 64<<10)}}, true},
		{"a token is no large header", bus.Message{Headers: map[string]string{"a": strings.Repeat("b", 16<<10)}}, false},
	} {
		err := tc.message.Check()
		if tc.refused != fault.Is(err, fault.Invalid) || !tc.refused && err != nil {
			t.Errorf("%s: got %v", tc.reason, err)
		}
	}
}

func TestRejectKeepsTheCause(t *testing.T) {
	cause := fault.New(fault.Invalid, "no type")
	err := fmt.Errorf("cannot take it: %w", bus.Reject(cause))
	if !bus.IsRejected(err) || !errors.Is(err, cause) || fault.Of(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
	if bus.IsRejected(cause) || bus.IsRejected(nil) {
		t.Error("what was not rejected is")
	}
}

func TestLater(t *testing.T) {
	away, broken := fault.New(fault.Unavailable, "the database is away"), errors.New("broken")
	for _, tc := range []struct {
		reason      string
		err         error
		try, failed int
		verdict     bus.Verdict
		wait        time.Duration
	}{
		{"what is refused is not tried again", bus.Reject(away), 1, 0, bus.PutAway, 0},
		{"the first failure is forgiven soon", broken, 1, 0, bus.Again, 100 * time.Millisecond},
		{"the next one, too", away, 2, 0, bus.Again, 200 * time.Millisecond},
		{"then it holds up nobody else", broken, 3, 2, bus.Park, 400 * time.Millisecond},
		{"whatever it was", away, 3, 2, bus.Park, 400 * time.Millisecond},
		{"it fails ten times", broken, 10, 9, bus.PutAway, 0},
		{"an outage is waited for", away, 10, 0, bus.Park, 30 * time.Second},
		{"for ever", away, 10_000, 99, bus.Park, 30 * time.Second},
		{"and does not count for what fails after it", broken, 10_000, 8, bus.Park, 30 * time.Second},
	} {
		if verdict, wait := bus.Later(tc.err, bus.Delivery{Try: tc.try, Failed: tc.failed}); verdict != tc.verdict || wait != tc.wait {
			t.Errorf("%s: got %v after %v", tc.reason, verdict, wait)
		}
	}
}

// Whatever fails in which order: waits are bounded, what rests in a hand does for a moment
// alone, and a message is put aside after ten failures of its own, however many outages
// were between them.
func TestLaterProperties(t *testing.T) {
	kinds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fault.Kind {
		return fault.Kind(rapid.IntRange(0, int(fault.Unavailable)).Draw(t, "kind"))
	}), 1, 100)
	rapid.Check(t, func(t *rapid.T) {
		d, own, held := bus.Delivery{Try: 1}, 0, time.Duration(0)
		for _, kind := range kinds.Draw(t, "kinds") {
			err := error(fault.New(kind, "x"))
			if kind != fault.Unavailable {
				own++
			}
			verdict, wait := bus.Later(err, d)
			if (verdict == bus.PutAway) != (own == 10) || wait < 0 || wait > 30*time.Second || (wait == 0) != (verdict == bus.PutAway) {
				t.Fatalf("failure %d at try %d comes to %v after %v", own, d.Try, verdict, wait)
			}
			if verdict == bus.PutAway {
				return
			}
			if verdict == bus.Again {
				held += wait
			}
			if held > time.Second {
				t.Fatalf("it was held for %v", held)
			}
			d = d.Retried(err)
		}
	})
}

// Those who failed at one moment come back at many.
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[time.Duration]bool{}
		for range 100 {
			began := time.Now()
			if !bus.Rest(t.Context(), time.Second) {
				t.Fatal("the rest was not over")
			}
			took := time.Since(began)
			if seen[took] = true; took < 750*time.Millisecond || took > 1250*time.Millisecond {
				t.Errorf("a rest of a second took %v", took)
			}
		}
		if len(seen) < 90 {
			t.Errorf("a hundred rests have only %d ends", len(seen))
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if bus.Rest(ended, time.Hour) {
			t.Error("a rest that was cut short was over")
		}
	})
	for _, d := range []time.Duration{0, 1, 2, 3} {
		if got := bus.Spread(d); got < 0 || got > 2*d+1 {
			t.Errorf("%v was spread to %v", d, got)
		}
	}
}
