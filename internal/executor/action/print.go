package action

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/droverhq/drover/internal/executor"
)

// head keeps the beginning of what is written.
type head struct {
	bytes.Buffer
	max int
	cut bool
}

func (h *head) Write(p []byte) (int, error) {
	keep := p
	if room := h.max - h.Len(); len(keep) > room {
		keep, h.cut = keep[:max(room, 0)], true
	}
	h.Buffer.Write(keep)
	return len(p), nil
}

const (
	maxLine  = 8 << 10
	shortest = 4 // of what is struck out: less is in every other word
)

// strike takes secrets out of text.
type strike struct{ words []string }

func newStrike(secrets []string) strike {
	var s strike
	add := func(w string) {
		if len(w) >= shortest && !slices.Contains(s.words, w) {
			s.words = append(s.words, w)
		}
	}
	for _, secret := range secrets {
		for _, w := range append(strings.FieldsFunc(secret, func(r rune) bool { return r == '\n' || r == '\r' }), secret) {
			add(w)
			add(base64.StdEncoding.EncodeToString([]byte(w)))
			add(base64.RawURLEncoding.EncodeToString([]byte(w)))
			add(url.QueryEscape(w))
		}
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(s.words, func(a, b string) int { return len(b) - len(a) })
	return s
}

func (s strike) out(text string) string {
	for _, w := range s.words {
		text = strings.ReplaceAll(text, w, executor.Hidden)
	}
	return text
}

// holds reports whether a secret is in a text.
func (s strike) holds(text string) bool {
	return slices.ContainsFunc(s.words, func(w string) bool { return strings.Contains(text, w) })
}

// lines passes whole lines on, without secrets: one that came in two pieces would
// not be recognised.
type lines struct {
	to     io.Writer
	strike strike

	mu   sync.Mutex
	part []byte
	tail string
}

// Write implements io.Writer. It never fails: a log that cannot be written is no
// reason to end a command.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			l.part = append(l.part, p...)
			break
		}
		l.part = append(l.part, p[:at+1]...)
		l.pass()
		p = p[at+1:]
	}
	if len(l.part) > maxLine {
		l.cut()
	}
	return n, nil
}

// cut passes the beginning of an endless line on, and keeps as much back as the
// longest secret has, which may only have begun. No secret lies over the cut: it
// would not be recognised on either side.
func (l *lines) cut() {
	back := 0
	if len(l.strike.words) > 0 {
		back = len(l.strike.words[0])
	}
	whole := l.strike.out(string(l.part))
	for at := len(l.part) - back; at > 0; at-- {
		rest := string(l.part[at:])
		if l.strike.out(string(l.part[:at]))+l.strike.out(rest) != whole {
			continue
		}
		l.part = append(l.part[:at], '\n')
		l.pass()
		l.part = append(l.part, rest...)
		return
	}
}

func (l *lines) pass() {
	text := l.strike.out(strings.ToValidUTF8(string(l.part), "\uFFFD"))
	l.part = l.part[:0]
	if said := strings.TrimSpace(text); said != "" {
		l.tail = said
	}
	if l.to != nil {
		_, _ = io.WriteString(l.to, text)
	}
}

func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.part) > 0 {
		l.part = append(l.part, '\n')
		l.pass()
	}
}

// last line that was said, short enough for an error.
func (l *lines) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := []rune(l.tail); len(r) > 300 {
		return string(r[:297]) + "..."
	}
	return l.tail
}

// secretsOf lists the texts in a tree that must be seen by nobody.
func secretsOf(v any) []string {
	var found []string
	switch x := v.(type) {
	case executor.Secret:
		found = texts(executor.Reveal(x))
	case map[string]any:
		for _, e := range x {
			found = append(found, secretsOf(e)...)
		}
	case []any:
		for _, e := range x {
			found = append(found, secretsOf(e)...)
		}
	}
	return found
}

func texts(v any) []string {
	var found []string
	switch x := v.(type) {
	case string:
		found = append(found, x)
	case map[string]any:
		for _, e := range x {
			found = append(found, texts(e)...)
		}
	case []any:
		for _, e := range x {
			found = append(found, texts(e)...)
		}
	}
	return found
}
