package command_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// looker keeps what it is told of messages that were refused.
type looker struct {
	refused []command.Refusal
	request []string
}

func (*looker) Taken(string, string, time.Duration) {}

func (l *looker) Refused(ctx context.Context, r command.Refusal) {
	cause, _ := ledger.KnownCause(ctx)
	id, _ := cause.Request()
	l.refused, l.request = append(l.refused, r), append(l.request, id)
}

// Whatever is refused before the API sees it is told once, by its request, with
// nothing of the token or the data; what the API sees, the API tells of.
func TestRefusedMessagesAreTold(t *testing.T) {
	asked := func(m bus.Message, id string) bus.Message {
		m.Headers = map[string]string{"Authorization": m.Headers["Authorization"], "X-Request-ID": id}
		return m
	}
	const data = `{"name":"secret-of-alice"}`
	odd := message("alice", "a\nlevel=INFO", "instance.create", "things", data)
	odd.ID = "m-5"
	for _, c := range []struct {
		reason  string
		message bus.Message
		api     http.Handler
		try     int
		request string // empty: one that is made of source and id
		want    *command.Refusal
	}{
		{"a token that is nobody's", asked(message("secret-token", "1", "instance.create", "things", data), "night-shift-4711"), nil, 1, "night-shift-4711",
			&command.Refusal{Command: "instance.create", Outcome: "denied", Message: "1", Source: "/test"}},
		{"a request that nobody can name", asked(message("secret-token", "2", "instance.create", "things", data), "a b\n"), nil, 1, "",
			&command.Refusal{Command: "instance.create", Outcome: "denied", Message: "2", Source: "/test"}},
		{"a command of the future", message("alice", "3", "instance.teleport", "things", data), nil, 1, "",
			&command.Refusal{Outcome: "malformed", Message: "3", Source: "/test"}},
		{"no JSON", asked(bus.Message{ID: "m-4", Body: []byte("secret-body")}, "night-shift-4712"), nil, 1, "night-shift-4712",
			&command.Refusal{Outcome: "malformed", Message: "m-4"}},
		{"an id that would write lines of its own", odd, nil, 1, "", &command.Refusal{Outcome: "malformed", Message: "m-5", Source: "/test"}},
		{"what breaks the API, in the end", message("alice", "6", "instance.create", "things", data), says{status: http.StatusInternalServerError}, 99, "",
			&command.Refusal{Command: "instance.create", Outcome: "failed", Message: "6", Source: "/test"}},
		{"what comes again", message("alice", "7", "instance.create", "things", data), says{status: http.StatusServiceUnavailable}, 99, "", nil},
		{"what the API refuses", message("alice", "8", "instance.create", "things", `{}`), nil, 1, "", nil},
		{"what is done", message("alice", "9", "instance.create", "things", data), nil, 1, "", nil},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w, d := atDesk(t)
			var seen looker
			w.s.Observer = &seen
			if c.api != nil {
				w.s.API = c.api
			}
			err := d.handle(t.Context(), bus.Delivery{Message: c.message, Try: c.try, Failed: c.try - 1})
			if c.want == nil {
				if len(seen.refused) > 0 {
					t.Errorf("told: %+v, after %v", seen.refused, err)
				}
				return
			}
			if len(seen.refused) != 1 {
				t.Fatalf("told %d times, after %v", len(seen.refused), err)
			}
			if diff := cmp.Diff(*c.want, seen.refused[0]); diff != "" {
				t.Errorf("what is told (-want +got):\n%s", diff)
			}
			if got := seen.request[0]; c.request != "" && got != c.request || c.request == "" && len(got) < 8 {
				t.Errorf("it is that of request %q", got)
			}
			if all := fmt.Sprint(seen); strings.Contains(all, "secret") {
				t.Errorf("it tells %s", all)
			}
		})
	}
}

// A sender that could not be told is told when the message comes again, and so is the log.
func TestARefusalIsToldWithItsSender(t *testing.T) {
	w, d := atDesk(t)
	var seen looker
	w.s.Observer, d.fails = &seen, fault.New(fault.Unavailable, "away")
	ended, end := context.WithCancel(t.Context())
	end()
	m := message("eve", "1", "instance.teleport", "things", `{}`)
	if err := d.handle(ended, bus.Delivery{Message: m, Try: 1}); err == nil || len(seen.refused) > 0 {
		t.Errorf("%v, and told is %+v", err, seen.refused)
	}
	if _ = d.handle(t.Context(), bus.Delivery{Message: m, Try: 1}); len(seen.refused) != 1 {
		t.Errorf("told is %+v", seen.refused)
	}
}
