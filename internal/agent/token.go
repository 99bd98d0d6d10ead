package agent

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"

	"github.com/droverhq/drover/internal/fault"
)

const tokenName = "token"

// Tokens are what an agent proves itself with: the one that it was started with
// and the newest that the control plane has given it. The newest is used; the
// other one is the way back if it is refused.
type Tokens struct {
	store Store

	mu    sync.Mutex
	given string
	kept  string
	now   string // which of the two is used
}

// NewTokens reads what an earlier life was given. given may be empty if there is one.
func NewTokens(store Store, given string) (*Tokens, error) {
	b, err := store.Load(tokenName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Unavailable, "cannot read the token that the control plane gave this agent: %w", err)
	}
	t := &Tokens{store: store, given: given, kept: strings.TrimSpace(string(b))}
	if t.now = t.kept; t.now == "" {
		t.now = given
	}
	return t, nil
}

// Bearer is the token of the next request, for client.Config.
func (t *Tokens) Bearer(context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.now, nil
}

// renew takes a new token in place of the present one, which stays the way back.
func (t *Tokens) renew(token string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if token == t.now || strings.ContainsAny(token, "\r\n\x00 ") {
		return nil
	}
	if err := t.store.Save(tokenName, []byte(token+"\n")); err != nil {
		return err // the present one is good for a while; another comes with the next answer
	}
	t.given, t.kept, t.now = t.now, token, token
	return nil
}

// refused goes over to the other token, if there is one.
func (t *Tokens) refused() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.now == t.kept && t.given != "":
		t.now = t.given
	case t.kept != "":
		t.now = t.kept
	}
}
