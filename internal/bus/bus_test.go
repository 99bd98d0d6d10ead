package bus_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
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
		reason  string
		err     error
		tries   int
		verdict bus.Verdict
		wait    time.Duration
	}{
		{"what is refused is not tried again", bus.Reject(away), 1, bus.PutAway, 0},
		{"the first failure is forgiven soon", broken, 1, bus.Again, 100 * time.Millisecond},
		{"the next ones take longer", broken, 3, bus.Again, 400 * time.Millisecond},
		{"it is tried ten times", broken, 10, bus.PutAway, 0},
		{"an outage is waited for", away, 10, bus.Again, 30 * time.Second},
		{"and then others may try", away, 38, bus.Return, 0},
	} {
		if verdict, wait := bus.Later(tc.err, tc.tries); verdict != tc.verdict || wait != tc.wait {
			t.Errorf("%s: got %v after %v", tc.reason, verdict, wait)
		}
	}
}

// Whatever fails how often: waits are bounded, every message comes to an end of
// being held, and an outage puts nothing aside.
func TestLaterProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := fault.Kind(rapid.IntRange(0, int(fault.Unavailable)).Draw(t, "kind"))
		err, held := error(fault.New(kind, "x")), time.Duration(0)
		for tries := 1; ; tries++ {
			verdict, wait := bus.Later(err, tries)
			if held += wait; wait < 0 || wait > 30*time.Second || held > 25*time.Minute {
				t.Fatalf("try %d waits %v, %v in all", tries, wait, held)
			}
			if verdict == bus.Again {
				if wait == 0 {
					t.Fatal("again at once")
				}
				continue
			}
			if (verdict == bus.Return) != (kind == fault.Unavailable) {
				t.Fatalf("%v ends with %v", kind, verdict)
			}
			return
		}
	})
}
