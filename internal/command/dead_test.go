package command_test

import (
	"context"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
)

// silent is who cannot say whose a token is.
type silent struct{}

func (silent) Authenticate(context.Context, string) (access.Principal, error) {
	return access.Principal{}, access.ErrIssuerAway
}

// The sender of what the broker has put aside by itself is told why, and that nothing was
// done; or what became of it where it was done all the same. It is carried out by nobody.
func TestSendersHearOfWhatTheBrokerPutsAside(t *testing.T) {
	create := message("alice", "m1", "instance.create", "things", `{"name":"rex"}`)
	for _, c := range []struct {
		reason  string
		message bus.Message
		large   int
		done    bool // before
		unknown bool // whether it was done
		away    bool // who would know whose it is
		code    string
		phase   string
	}{
		{"it expired", create, 0, false, false, false, "put-aside", command.Rejected},
		{"it was done, and the broker never heard so", create, 0, true, false, false, "", command.Accepted},
		{"nobody knows whose it is", message("eve", "m1", "instance.create", "things", `{}`), 0, false, true, false, "put-aside", command.Rejected},
		{"it is too large", bus.Message{ReplyTo: "answers", Correlation: "m1"}, 20 << 20, false, false, false, "malformed", command.Rejected},
		{"it is no command", bus.Message{ReplyTo: "answers", Correlation: "m1", Body: []byte("{")}, 0, false, false, false, "malformed", command.Rejected},
		{"nobody can say whose it is just now, and those behind it do not wait", create, 0, false, true, true, "put-aside", command.Rejected},
	} {
		t.Run(c.reason, func(t *testing.T) {
			w, d := atDesk(t)
			if c.done {
				if err := d.handle(t.Context(), bus.Delivery{Message: c.message, Try: 1}); err != nil {
					t.Fatal(err)
				}
			}
			if c.away {
				w.s.Authenticator = silent{}
			}
			calls := w.calls
			err := w.s.Bury(t.Context(), bus.Delivery{Message: c.message, Try: 1, Large: c.large, Dead: "it expired before anybody took it"})
			if err != nil {
				t.Fatal(err)
			}
			if w.calls != calls {
				t.Error("it was carried out")
			}
			if a := d.answer(t); a.Phase != c.phase || a.Code != c.code || c.unknown == strings.Contains(a.Reason, "nothing was done") && a.Code == "put-aside" {
				t.Errorf("its sender was told %+v", a)
			}
		})
	}
}
