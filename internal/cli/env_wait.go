package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

// moment is how far the log is, as whoever sees no more than their own is told it.
func (s *session) moment(ctx context.Context) (int64, error) {
	page, err := s.List(ctx, "environments", client.ListOptions{Size: 1})
	return page.Seq, err
}

// carrying is a wish that an environment was told of.
type carrying struct {
	object v1.Object
	verb   string
	wait   waitFlags
	since  int64 // sequence of the log before it
	gone   bool  // it is to be destroyed
}

// carried says what was accepted, shows the graph at work if asked to, and prints
// the result.
func (c *CLI) carried(cmd *cobra.Command, s *session, w carrying) error {
	format, o := output(cmd), w.object
	text := format == "" || format == "text"
	name := clean(label(o), false)
	if w.wait.wait {
		ctx, cancel := context.WithTimeout(cmd.Context(), w.wait.timeout)
		defer cancel()
		show := &walk{cli: c, message: envOf(w.object).Status.Message, out: c.cfg.Out, live: c.tty && text, phases: map[string]string{}, began: map[string]time.Time{}}
		if !text {
			show.out = c.cfg.Err
		}
		last, err := c.followEnv(ctx, s, w, show)
		show.clear()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) && err != nil {
			return &timeoutError{fmt.Sprintf("environment %s is %s after %v: %s\nIt goes on without you; `drover env describe %s` tells how",
				name, last.Phase, w.wait.timeout, clean(envOf(last).Status.Message, false), name)}
		}
		if err != nil {
			return err
		}
		o = last
	}
	switch {
	case format == "name":
		c.printf("environment/%s\n", name)
	case !text:
		return c.print(format, o)
	case !w.wait.wait:
		c.printf("environment/%s %s\n", name, w.verb)
		if c.asks(cmd.Context(), s, o) {
			return nil
		}
		c.note("`drover env describe %s` tells how it goes", name)
	case w.gone:
		c.printf("environment %s is Destroyed\n", name)
	default:
		c.printf("environment %s is %s\n", name, o.Phase)
		for _, e := range envOf(o).Status.Entries {
			c.printf("%s: %s\n", clean(e.Name, false), clean(e.URL, false))
		}
	}
	return nil
}

// asks tells that a plan waits for an approval, if that is known within a moment.
func (c *CLI) asks(ctx context.Context, s *session, o v1.Object) bool {
	next := envOf(o).Spec.Next
	if next == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	p, err := c.planned(ctx, s, v1.Plan{ID: next.Plan, Phase: "planning"})
	if err != nil || p.Phase != "approval" {
		return false
	}
	c.note("%s", clean(p.Message, false))
	return true
}

// followEnv follows an environment and its resources until the operation of the
// wish has ended and the environment is judged. Two streams feed it; both end with
// ctx.
func (c *CLI) followEnv(ctx context.Context, s *session, w carrying, show *walk) (v1.Object, error) {
	op, last := envOf(w.object).operation(), w.object
	type event struct {
		change v1.Change
		err    error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := make(chan event)
	for _, o := range []client.WatchOptions{{Resource: "environments", ID: w.object.ID}, {Resource: "resources"}} {
		o.After = w.since
		o.Lost = func(err error, pause time.Duration) { show.clear(); c.lost(err, pause) }
		go func() {
			for ch, err := range s.Watch(ctx, o) {
				select {
				case events <- event{ch, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	asked, seen := false, w.since
	for ticks := 1; ; ticks++ {
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-tick.C:
			show.draw()
			if next := envOf(last).Spec.Next; next != nil && !asked && ticks%5 == 0 {
				if p, err := s.Plan(ctx, next.Plan); err == nil && p.Phase == "approval" {
					asked = true
					show.clear()
					c.note("%s", clean(p.Message, false))
				}
			}
		case e := <-events:
			switch o := e.change.Object; {
			case e.err != nil:
				return last, e.err
			case o.Kind == "resource" && o.Parent == w.object.ID:
				seen = max(seen, e.change.Seq)
				show.change(e.change)
			case o.ID == w.object.ID:
				last = o
				show.say(envOf(o).Status.Message)
				if done, err := c.judge(ctx, s, last, op, w.gone); done || err != nil {
					c.catchUp(ctx, s, o.ID, seen, show)
					return last, err
				}
			}
		}
	}
}

// catchUp shows what the stream of resources was too slow to bring before the
// environment's own. What cannot be read now is not worth a failure.
func (c *CLI) catchUp(ctx context.Context, s *session, environment string, after int64, show *walk) {
	page, err := s.Changes(ctx, client.ChangeOptions{After: after, Resource: "resources", Limit: 1000})
	if err != nil {
		return
	}
	for _, ch := range page.Items {
		if ch.Object.Parent == environment {
			show.change(ch)
		}
	}
}

// judge tells whether a wish has come to its end.
func (c *CLI) judge(ctx context.Context, s *session, o v1.Object, op string, gone bool) (bool, error) {
	st := envOf(o)
	if st.operation() == op && op != "" && o.Deleted == nil {
		return false, nil
	}
	if op != "" {
		ended, err := s.Get(ctx, "operations", op, "")
		if err != nil {
			return false, err
		}
		reason, _ := statusOf(ended)
		switch ended.Phase {
		case "running":
			return false, nil
		case "failed":
			return false, errors.New(clean(reason, true))
		case "superseded":
			return false, &conflictError{"environment " + label(o) + " was told something else meanwhile: " + clean(reason, false)}
		}
	}
	switch {
	case gone:
		return o.Deleted != nil || o.Phase == "Destroyed", nil
	case o.Deleted != nil:
		return false, errors.New("it was destroyed")
	case o.Phase == "Deployed-OK":
		return true, nil
	case o.Phase == "Deployed-Fail":
		return false, fmt.Errorf("environment %s is Deployed-Fail: %s", label(o), clean(st.Status.Message, true))
	}
	return false, nil
}

// walk shows a graph at work: a line for each resource that is done, and below
// them, on a terminal, what runs and waits at the moment.
type walk struct {
	cli     *CLI
	out     io.Writer
	live    bool
	message string
	phases  map[string]string
	began   map[string]time.Time // first seen
	drawn   int                  // lines to take back
}

func (w *walk) change(ch v1.Change) {
	o := ch.Object
	phase := o.Phase
	if o.Deleted != nil {
		phase = "destroyed"
	}
	if _, known := w.began[o.Name]; !known {
		w.began[o.Name] = ch.At
	}
	if w.phases[o.Name] == phase {
		return
	}
	before := w.phases[o.Name]
	w.phases[o.Name] = phase
	if phase == "pending" || before == "" && phase == "ready" && ch.Op != "ready" {
		return
	}
	w.clear()
	_, message := statusOf(o)
	line := fmt.Sprintf("%-28s %s%*s %8s  %s", clean(o.Name, false), w.cli.phase(phase), max(11-len(phase), 0), "", seconds(ch.At.Sub(w.began[o.Name])), clean(message, false))
	fmt.Fprintln(w.out, strings.TrimRight(line, " "))
	w.draw()
}

// say takes what the environment says of itself: on a terminal it stands below
// while nothing else is known.
func (w *walk) say(message string) {
	if message != w.message && message != "" && !w.live && len(w.phases) == 0 {
		fmt.Fprintln(w.out, clean(message, false))
	}
	w.message = message
}

// maxLive keeps the part that is redrawn within most terminals.
const maxLive = 8

// draw shows what is at work below what is done.
func (w *walk) draw() {
	if !w.live {
		return
	}
	w.clear()
	count := map[string]int{}
	var busy []string
	for _, name := range slices.Sorted(maps.Keys(w.phases)) {
		phase := w.phases[name]
		count[phase]++
		if phase == "applying" || phase == "destroying" {
			busy = append(busy, fmt.Sprintf("  %s %s %s", name, phase, seconds(w.cli.now().Sub(w.began[name]))))
		}
	}
	var parts []string
	for _, phase := range []string{"ready", "applying", "pending", "blocked", "failed", "destroying", "destroyed"} {
		if count[phase] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[phase], phase))
		}
	}
	lines := []string{strings.Join(parts, ", ")}
	if len(parts) == 0 {
		lines[0] = w.message
	}
	lines = append(lines, busy[:min(len(busy), maxLive)]...)
	for _, line := range lines {
		if short := []rune(clean(line, false)); len(short) > 78 {
			line = string(short[:77]) + "…"
		}
		fmt.Fprintf(w.out, "%s\n", clean(line, false))
	}
	w.drawn = len(lines)
}

// clear takes back what draw has shown.
func (w *walk) clear() {
	for ; w.drawn > 0; w.drawn-- {
		fmt.Fprint(w.out, "\x1b[A\x1b[2K")
	}
}
