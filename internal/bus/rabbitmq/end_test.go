package rabbitmq_test

import (
	"fmt"
	"testing"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/bustest"
	broker "github.com/droverhq/drover/test/rabbitmq"
)

// Who consumes no more is sent nothing more: what comes then is there at once for whoever
// is next, and for the first time.
func TestNothingIsSentToWhoHasEnded(t *testing.T) {
	w := open(t)
	b, queue := w.bus(t), bustest.Name()
	ch := broker.Channel(t, w.URL)
	for i := range 30 {
		_, stop := bustest.Collect(t, b, queue)
		stop()
		bustest.Send(t, b, queue, bus.Message{ID: fmt.Sprint(i)})
		d, ok, err := ch.Get(w.prefix+queue, true)
		if err != nil {
			t.Fatal(err)
		}
		if !ok || d.Redelivered || d.MessageId != fmt.Sprint(i) {
			t.Fatalf("number %d: there is %q, again: %v", i, d.MessageId, d.Redelivered)
		}
	}
}
