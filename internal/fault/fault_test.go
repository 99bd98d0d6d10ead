package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/droverhq/drover/internal/fault"
)

func TestKinds(t *testing.T) {
	taken := fault.New(fault.Conflict, "%q is taken", "rex").Because("name-taken")
	cases := []struct {
		reason string
		err    error
		kind   fault.Kind
		why    string
		text   string
	}{
		{"what has no kind is our fault", errors.New("boom"), fault.Internal, "", "boom"},
		{"a kind with a reason", taken, fault.Conflict, "name-taken", `"rex" is taken`},
		{"wrapping keeps the kind", fmt.Errorf("cannot create: %w", taken), fault.Conflict, "name-taken", `cannot create: "rex" is taken`},
		{"the outermost kind counts", fault.New(fault.Invalid, "bad parent: %w", taken), fault.Invalid, "", `bad parent: "rex" is taken`},
		{"joined errors are searched", errors.Join(io.EOF, taken), fault.Conflict, "name-taken", "EOF\n\"rex\" is taken"},
	}
	for _, c := range cases {
		if got := fault.Of(c.err); got != c.kind {
			t.Errorf("%s: kind %v, want %v", c.reason, got, c.kind)
		}
		if got := fault.Reason(c.err); got != c.why {
			t.Errorf("%s: reason %q, want %q", c.reason, got, c.why)
		}
		if got := c.err.Error(); got != c.text {
			t.Errorf("%s: text %q, want %q", c.reason, got, c.text)
		}
		for k := fault.Internal; k <= fault.Unavailable; k++ {
			if got := fault.Is(c.err, k); got != (k == c.kind) {
				t.Errorf("%s: is %v: %v", c.reason, k, got)
			}
		}
	}
}

func TestNoError(t *testing.T) {
	for k := fault.Internal; k <= fault.Unavailable; k++ {
		if fault.Is(nil, k) {
			t.Errorf("no error is %v", k)
		}
	}
	if fault.Reason(nil) != "" {
		t.Error("no error has a reason")
	}
}

func TestCauseIsKept(t *testing.T) {
	if err := fault.New(fault.Unavailable, "cannot read: %w", io.ErrUnexpectedEOF); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v does not hold its cause", err)
	}
	if err := fault.New(fault.Unavailable, "two: %w and %w", io.EOF, io.ErrClosedPipe); !errors.Is(err, io.ErrClosedPipe) || !errors.Is(err, io.EOF) {
		t.Errorf("%v does not hold both of its causes", err)
	}
}

func TestKindNames(t *testing.T) {
	seen := map[string]bool{}
	for k := fault.Internal; k <= fault.Unavailable; k++ {
		if k.String() == "" || seen[k.String()] {
			t.Errorf("kind %d is called %q", int(k), k)
		}
		seen[k.String()] = true
	}
	for _, k := range []fault.Kind{-1, 7, 99} {
		if k.String() != "internal" {
			t.Errorf("unknown kind %d is called %q", int(k), k)
		}
	}
}
