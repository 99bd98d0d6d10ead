package executor_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

func TestInput(t *testing.T) {
	hush := executor.NewSecret("hush")
	for _, tc := range []struct {
		reason        string
		in            any
		known, secret bool
		value, shown  any
	}{
		{"as it is", "x", true, false, "x", "x"},
		{"a secret is shown to nobody", hush, true, true, "hush", executor.Hidden},
		{"also inside", map[string]any{"a": []any{hush}}, true, true, map[string]any{"a": []any{"hush"}}, executor.Hidden},
		{"unknown has no value", executor.Unknown{}, false, false, nil, executor.Unknown{}},
		{"unknown inside", []any{"x", executor.Unknown{}}, false, false, nil, executor.Unknown{}},
	} {
		i := executor.Resource{Inputs: map[string]any{"x": tc.in}}.Input("x")
		if !i.Given || i.Known != tc.known || i.Secret != tc.secret || !cmp.Equal(i.Value, tc.value) || !cmp.Equal(i.Show(), tc.shown) {
			t.Errorf("%s: %+v, shown %v", tc.reason, i, i.Show())
		}
		if err := i.Open(); (err != nil) != tc.secret {
			t.Errorf("%s: in the open: %v", tc.reason, err)
		}
	}
	if i := (executor.Resource{}).Input("x"); i.Given || !i.Known || i.Text() != "" {
		t.Errorf("what is not given is %+v", i)
	}
}

func TestPoolKeepsOneEach(t *testing.T) {
	opened := 0
	p := executor.NewPool(func(c executor.Connection) (int, error) {
		if c["bad"] != "" {
			return 0, errors.New("bad")
		}
		opened++
		return opened, nil
	})
	first, _ := p.Get(executor.Connection{"a": "1", "b": "2"})
	if again, _ := p.Get(executor.Connection{"b": "2", "a": "1"}); again != first {
		t.Error("the same connection was opened twice")
	}
	if _, err := p.Get(executor.Connection{"bad": "x"}); err == nil {
		t.Error("what cannot be opened is there")
	}
	for i := range 200 {
		_, _ = p.Get(executor.Connection{"n": fmt.Sprint(i)})
		_, _ = p.Get(executor.Connection{"a": "1", "b": "2"})
	}
	if opened != 201 {
		t.Errorf("%d were opened: what is used goes, or nothing does", opened)
	}
	if _, _ = p.Get(executor.Connection{"n": "0"}); opened != 202 {
		t.Error("what was not used for long is kept for ever")
	}
}

func TestRememberIsSpare(t *testing.T) {
	saved := 0
	r := executor.Resource{}
	r.Save = func(_ context.Context, state []byte) error { saved++; r.State = state; return nil }
	for range 2 {
		if err := r.Remember(t.Context(), []string{"b", "a", "b"}, map[string]int{"x": 1}); err != nil {
			t.Fatal(err)
		}
	}
	if m := r.Memory(); saved != 1 || !cmp.Equal(m.Names, []string{"a", "b"}) || string(m.Note) != `{"x":1}` {
		t.Errorf("saved %d times: %+v", saved, m)
	}
	r.Save = func(context.Context, []byte) error { return fault.New(fault.Unavailable, "away") }
	if err := r.Remember(t.Context(), []string{"c"}, nil); !fault.Is(err, fault.Unavailable) {
		t.Errorf("what cannot be kept: %v", err)
	}
}
