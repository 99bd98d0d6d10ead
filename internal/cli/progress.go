package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

// goal is what a wait waits for.
type goal struct {
	word string // ready, deleted or any phase
	// generation is the intent that the data plane must have applied, where the
	// object tells: a changed instance stays ready while it is being changed.
	generation int64
	// judge decides in place of the phase; nil: the phase does.
	judge func(v1.Object) (done bool, err error)
}

// leaving are the phases on the way out, from which no other is reached again.
var leaving = []string{"deprovision", "deleting", "deprovisioning", "cleanup", "Destroying", "Destroyed"}

// met judges an object: done, failed for good, or neither.
func (g goal) met(o v1.Object) (done bool, err error) {
	gone := o.Deleted != nil
	switch {
	case strings.EqualFold(g.word, "deleted"):
		return gone, nil
	case g.judge != nil && !gone && !slices.Contains(leaving, o.Phase):
		return g.judge(o)
	case strings.EqualFold(o.Phase, g.word) && !gone:
		return g.generation == 0 || applied(o, g.generation), nil
	case gone:
		return false, errors.New("it was deleted")
	case slices.Contains(leaving, o.Phase):
		return false, errors.New("it is being deleted")
	case strings.Contains(strings.ToLower(o.Phase), "fail"):
		if text := why(o); text != "" {
			return false, fmt.Errorf("%s: %s", o.Phase, text)
		}
		return false, errors.New(o.Phase)
	}
	return false, nil
}

// applied reports whether the data plane has what the generation wants, and the
// operation that brought it there has ended. A wish that leaves the data plane's
// document alone is rendered, but not issued. An object that does not tell counts
// as applied.
func applied(o v1.Object, generation int64) bool {
	var status struct {
		Operation string `json:"operation"`
		Rendered  int64  `json:"rendered"`
		Issued    int64  `json:"issued"`
		Observed  *struct {
			Generation int64 `json:"generation"`
		} `json:"observed"`
	}
	if json.Unmarshal(o.Status, &status) != nil || status.Observed == nil {
		return true
	}
	if status.Rendered >= generation && status.Issued > 0 {
		generation = min(generation, status.Issued)
	}
	return status.Operation == "" && status.Observed.Generation >= generation
}

// wait follows an object until the goal is met, showing its phases. It reads the
// history first and watches from its end, so that no phase is missed.
func (c *CLI) wait(ctx context.Context, s *session, w waiting) (v1.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	if w.width = 14; w.resource.Kind == "cluster" {
		w.detail, w.width = clusterDetail, 31
	} else if w.resource.Kind == "deployment" && w.goal.word != "deleted" {
		w.detail = waitsFor(w.since)
	}
	show := c.newProgress(w)
	defer show.stop()
	last := w.object
	settled := func(o v1.Object) (bool, error) {
		done, err := w.goal.met(o)
		if err != nil {
			err = fmt.Errorf("%s %s is not %s: %w\n`drover describe %s %s` tells its history",
				w.resource.Singular, label(o), w.goal.word, err, w.resource.Singular, label(o))
		}
		return done || err != nil, err
	}
	history, err := s.History(ctx, w.resource.Name, w.object.ID)
	if err != nil {
		return last, c.late(ctx, err, w, last)
	}
	var after int64
	for _, ch := range history {
		after, last = ch.Seq, ch.Object
		// Older phases only matter to someone who waits for a new thing.
		if ch.Object.Version < w.since {
			continue
		}
		show.change(ch)
	}
	if ended, err := settled(last); ended {
		show.end(last, err == nil)
		return last, err
	}
	o := client.WatchOptions{After: after, Resource: w.resource.Name, ID: w.object.ID, Lost: func(err error, pause time.Duration) {
		show.breakLine()
		c.lost(err, pause)
	}}
	for ch, err := range s.Watch(ctx, o) {
		if err != nil {
			return last, c.late(ctx, err, w, last)
		}
		last = ch.Object
		show.change(ch)
		if ended, err := settled(last); ended {
			show.end(last, err == nil)
			return last, err
		}
	}
	return last, c.late(ctx, context.Cause(ctx), w, last)
}

// late words the end of patience; other errors stay as they are.
func (c *CLI) late(ctx context.Context, err error, w waiting, last v1.Object) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	state, text := "it is "+last.Phase, why(last)
	if text == "" && w.resource.Kind == "cluster" {
		text = clusterDetail(last)
	}
	if text != "" {
		state += " (" + text + ")"
	}
	again := fmt.Sprintf("`drover wait %s %s --for %s` waits again", w.resource.Singular, label(last), w.goal.word)
	if w.goal.judge != nil {
		again = fmt.Sprintf("`drover describe %s %s` tells how it goes", w.resource.Singular, label(last))
	}
	return &timeoutError{fmt.Sprintf("%s %s is not %s after %v: %s\nIt goes on without you; %s",
		w.resource.Singular, label(last), w.goal.word, w.timeout, state, again)}
}

// lost tells that a stream is being resumed.
func (c *CLI) lost(err error, pause time.Duration) {
	c.note("lost the server (%v); trying again in %s", clean(err.Error(), false), seconds(pause))
}

// waiting is one wait.
type waiting struct {
	resource v1.Resource
	object   v1.Object
	goal     goal
	since    int64 // show changes from this version on
	timeout  time.Duration
	out      io.Writer
	live     bool // one updating line instead of plain ones
	// detail is what it is at within its phase; nil: nothing is told.
	detail func(v1.Object) string
	width  int // of phases; default 14
}

// progress shows phases with the time each took: by the server's clock once the
// next one is known, by ours while it lasts. On a terminal one goroutine redraws
// the line; stop ends it.
type progress struct {
	w     waiting
	now   func() time.Time
	paint func(string) string

	mu      sync.Mutex
	begun   time.Time // server's time of the first phase
	last    time.Time // of the newest change, by the same clock
	phase   string
	detail  string    // within the phase
	entered time.Time // server's time of the phase
	seen    time.Time // our time of the phase
	done    []string  // finished phases
	ticker  *time.Ticker
	quit    chan struct{}
	drawn   bool
}

func (c *CLI) newProgress(w waiting) *progress {
	p := &progress{w: w, now: c.now, paint: c.phase}
	if w.live {
		ticker, quit := time.NewTicker(100*time.Millisecond), make(chan struct{})
		p.ticker, p.quit = ticker, quit
		go func() {
			for {
				select {
				case <-quit:
					return
				case <-ticker.C:
					p.mu.Lock()
					p.draw()
					p.mu.Unlock()
				}
			}
		}()
	}
	return p
}

func (p *progress) change(ch v1.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.begun.IsZero() {
		p.begun = ch.At
	}
	p.last = ch.At
	phase := ch.Object.Phase
	if ch.Object.Deleted != nil {
		phase = "deleted"
	}
	if p.w.detail != nil {
		defer p.within(p.w.detail(ch.Object))
	}
	if phase == p.phase {
		return
	}
	if p.phase != "" {
		took := seconds(ch.At.Sub(p.entered))
		if p.w.detail == nil {
			p.done = append(p.done, p.paint(p.phase)+" "+took)
		}
		if p.drawn && p.w.detail != nil { // what is done has a line of its own: all on one would not fit
			fmt.Fprint(p.w.out, "\r\x1b[K")
		}
		if !p.w.live || p.w.detail != nil {
			fmt.Fprintf(p.w.out, "%-*s %8s\n", p.w.width, clean(p.phase, false), took)
		}
	}
	p.phase, p.entered, p.seen, p.detail = clean(phase, false), ch.At, p.now(), ""
	p.draw()
}

// maxDetail keeps the updating line within most terminals, whose cursor would
// not find back to its beginning.
const maxDetail = 36

// within takes what it is at; the caller holds the lock.
func (p *progress) within(detail string) {
	detail = clean(detail, false)
	if short := []rune(detail); len(short) > maxDetail && p.w.live {
		detail = string(short[:maxDetail-1]) + "…"
	}
	if detail == p.detail {
		return
	}
	if p.detail = detail; detail != "" && !p.w.live {
		fmt.Fprintf(p.w.out, "  %s\n", detail)
	}
	p.draw()
}

// draw redraws the line; the caller holds the lock.
func (p *progress) draw() {
	if !p.w.live || p.phase == "" || p.ticker == nil {
		return
	}
	p.drawn = true
	parts := append(slices.Clone(p.done), p.paint(p.phase)+" "+seconds(p.now().Sub(p.seen)))
	text := strings.Join(parts, " → ")
	if p.detail != "" {
		text += " (" + p.detail + ")"
	}
	fmt.Fprintf(p.w.out, "\r\x1b[K%s", text)
}

// end finishes the display with the outcome.
func (p *progress) end(o v1.Object, ok bool) {
	p.mu.Lock()
	phase, total := p.phase, p.last.Sub(p.begun)
	if p.w.live && p.drawn {
		parts := append(slices.Clone(p.done), p.paint(phase))
		fmt.Fprintf(p.w.out, "\r\x1b[K%s\n", strings.Join(parts, " → "))
		p.drawn = false
	}
	p.mu.Unlock()
	p.stop()
	if ok {
		fmt.Fprintf(p.w.out, "%s %s is %s after %s\n", p.w.resource.Singular, clean(label(o), false), p.w.goal.word, seconds(total))
	}
}

// breakLine makes room for a line of someone else.
func (p *progress) breakLine() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprintln(p.w.out)
		p.drawn = false
	}
}

// stop ends the redrawing and leaves the line as it is; it may be called again.
func (p *progress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ticker == nil {
		return
	}
	p.ticker.Stop()
	close(p.quit)
	p.ticker = nil
	if p.drawn {
		fmt.Fprintln(p.w.out)
		p.drawn = false
	}
}
