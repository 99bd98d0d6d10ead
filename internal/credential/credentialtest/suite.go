// Package credentialtest checks that a source of credentials keeps the contract.
package credentialtest

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/credential"
)

// long is what everything has come about by.
const long = time.Minute

// Place is where a source takes its credential from.
type Place struct {
	// Open makes a source that looks every few moments. It is closed by the suite.
	Open func(t *testing.T) credential.Source
	// Put writes another credential. It is nil where the place makes them by itself,
	// with short lives.
	Put func(t *testing.T, username, password string)
	// Break makes the place unreadable until what it returns is called.
	Break func(t *testing.T) (mend func())
}

func (p Place) put(t *testing.T, username, password string) {
	if p.Put != nil {
		p.Put(t, username, password)
	}
}

func (p Place) open(t *testing.T) credential.Source {
	s := p.Open(t)
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, s credential.Source) credential.Credential {
	t.Helper()
	c, err := s.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Run runs all checks.
func Run(t *testing.T, p Place) {
	t.Run("what is there is had, and tells when there is another", func(t *testing.T) { changes(t, p) })
	t.Run("nobody can be asked: the last known stays", func(t *testing.T) { stays(t, p) })
	t.Run("nothing is known and nobody can be asked", func(t *testing.T) {
		p.put(t, "ann", "first-secret")
		mend := p.Break(t)
		s := p.open(t)
		if c, err := s.Get(t.Context()); err == nil {
			t.Errorf("it has %v", c)
		}
		mend()
		p.put(t, "ann", "first-secret")
		eventually(t, "it is had", func() bool { _, err := s.Get(t.Context()); return err == nil })
	})
	t.Run("it shows itself to nobody", func(t *testing.T) {
		p.put(t, "ann", "first-secret")
		c := get(t, p.open(t))
		data, err := json.Marshal(map[string]any{"of": c})
		var logged strings.Builder
		slog.New(slog.NewTextHandler(&logged, nil)).Info("had", "credential", c)
		for _, text := range []string{fmt.Sprint(c), fmt.Sprintf("%+v %#v %s %q", c, c, c, &c), string(data), logged.String()} {
			if err != nil || strings.Contains(text, c.Password) {
				t.Errorf("it is printed as a secret (%v)", err)
			}
		}
	})
}

func changes(t *testing.T, p Place) {
	p.put(t, "ann", "first-secret")
	s := p.open(t)
	changed := s.Changed()
	first := get(t, s)
	if p.Put != nil && (first.Username != "ann" || first.Password != "first-secret") || first.Password == "" {
		t.Fatal("it is another one")
	}
	p.put(t, "bob", "second-secret")
	wait(t, changed)
	next := get(t, s)
	if next.Same(first) || p.Put != nil && (next.Username != "bob" || next.Password != "second-secret") {
		t.Error("it tells of another one, and has the first")
	}
	if s.Trouble() != nil {
		t.Errorf("all is well, and it says %v", s.Trouble())
	}
	if p.Put == nil {
		return
	}
	changed = s.Changed()
	p.put(t, "bob", "second-secret") // written again, and the same
	for range 20 {
		get(t, s)
	}
	select {
	case <-changed:
		t.Error("it tells of a change where there is none")
	default:
	}
}

func stays(t *testing.T, p Place) {
	p.put(t, "ann", "first-secret")
	s := p.open(t)
	first := get(t, s)
	mend := p.Break(t)
	eventually(t, "it says what is wrong", func() bool { return s.Trouble() != nil })
	if text := s.Trouble().Error(); strings.Contains(text, first.Password) {
		t.Error("its trouble holds a secret")
	}
	kept := get(t, s)
	if p.Put != nil && !kept.Same(first) { // one that ends may be another by now
		t.Error("the last known is gone")
	}
	changed := s.Changed()
	mend()
	p.put(t, "bob", "second-secret")
	wait(t, changed)
	eventually(t, "its trouble is over", func() bool { return s.Trouble() == nil })
	if get(t, s).Same(kept) {
		t.Error("mended, it has the old one")
	}
}

func wait(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(long):
		t.Fatal("it never tells of a change")
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(long); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}
