// Package credential is the port to whoever knows what opens a door at the moment: the
// database's, the broker's. It changes while Drover runs.
//
// It owns the contract: who is asked, what is told of a change, and that the last
// known one stays in use while nobody can be asked. It must not know what is behind the
// doors. Package credentialtest checks that an implementation keeps the contract.
package credential

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Credential opens a door. However it is printed, it shows no secret.
type Credential struct {
	Username string // empty: the one that is known otherwise
	Password string
	Ends     time.Time // zero: not by itself, as far as is known
}

// Same tells whether two open the door as the same.
func (c Credential) Same(d Credential) bool {
	return c.Username == d.Username && c.Password == d.Password
}

// Format implements fmt.Formatter, for all verbs.
func (Credential) Format(f fmt.State, _ rune) { io.WriteString(f, "a credential") } //nolint:errcheck // nobody could be told

// MarshalText implements encoding.TextMarshaler.
func (Credential) MarshalText() ([]byte, error) { return []byte("a credential"), nil }

// Source knows what opens one door. It is safe for concurrent use.
type Source interface {
	// Get returns what opens the door now. It asks nobody where something is known,
	// even beyond its end: whether it still opens is up to the door.
	// Faults: Unavailable, Denied, NotFound, Invalid: nothing is known, and why.
	Get(ctx context.Context) (Credential, error)
	// Changed returns what is closed when there is another one than now. Whoever
	// takes it before Get misses none. From then on there is time to replace what
	// the last one has opened.
	Changed() <-chan struct{}
	// Refused tells that the door did not open to one that Get has returned. If there
	// is another, it comes soon.
	Refused(c Credential)
	// Trouble is why what is known cannot be renewed or read anew; nil: it can.
	Trouble() error
	// Close ends the source. What it has given out is not taken back by this.
	Close()
}

// Held is what a source has, for implementations. The zero one has nothing.
type Held struct {
	mu      sync.Mutex
	have    bool
	now     Credential
	trouble error
	changed chan struct{}
}

// Now returns what there is, if there is something.
func (h *Held) Now() (Credential, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now, h.have
}

// Set takes one that was just had, or had again. The trouble is over.
func (h *Held) Set(c Credential) {
	h.mu.Lock()
	defer h.mu.Unlock()
	another := h.have && !h.now.Same(c)
	h.now, h.have, h.trouble = c, true, nil
	if another && h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
}

// Fail keeps what is wrong.
func (h *Held) Fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = err
}

// Changed is the source's.
func (h *Held) Changed() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// Trouble is the source's.
func (h *Held) Trouble() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.trouble
}

// Reference is how a setting names a source, and never what it holds.
type Reference struct{ Scheme, Path string }

// ParseReference reads vault:database/creds/drover or file:/run/secrets/database.
func ParseReference(text string) (Reference, error) {
	scheme, path, ok := strings.Cut(text, ":")
	if !ok || path == "" || scheme != "vault" && scheme != "file" {
		// What was written may be a password.
		return Reference{}, fault.New(fault.Invalid, "want vault:PATH, such as vault:database/creds/drover, or file:PATH, such as file:/run/secrets/database")
	}
	if scheme == "vault" {
		path = strings.Trim(path, "/")
	}
	return Reference{scheme, path}, nil
}

// String is the reference as it was written.
func (r Reference) String() string { return r.Scheme + ":" + r.Path }
