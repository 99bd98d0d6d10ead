package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/doctor"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/subscription"
)

// ran keeps what was carried forward.
type ran struct{ ids []string }

func (r *ran) Reconcile(_ context.Context, task reconcile.Task) (reconcile.Result, error) {
	r.ids = append(r.ids, task.Ref.ID)
	return reconcile.Result{}, nil
}

// A replica without a broker neither tells its followers, whom it does not reach, nor
// takes the telling away from replicas that have one.
func TestAReplicaWithoutABrokerLeavesItsEventsToOthers(t *testing.T) {
	for _, c := range []struct {
		reason, bus string
		tells       bool
	}{
		{"the bus of the process brings events to nobody outside", "inprocess", false},
		{"a broker", "rabbitmq", true},
	} {
		r := &ran{}
		sinks, telling := app.Messages(c.bus, r)
		if sinks[subscription.ToWebhook] == nil || (sinks[subscription.ToBus] != nil) != c.tells || (sinks[subscription.ToAnswers] != nil) != c.tells {
			t.Errorf("%s: it tells at %v", c.reason, sinks)
		}
		for _, id := range []string{subscription.BusID, subscription.AnswersID, "hook"} {
			did := len(r.ids)
			res, err := telling.Reconcile(t.Context(), reconcile.Task{Ref: ledger.Ref{Kind: subscription.Kind.Name, ID: id}})
			if err != nil {
				t.Fatal(err)
			}
			if carried := len(r.ids) > did; carried != (c.tells || id == "hook") || res.Next == carried {
				t.Errorf("%s: %s is carried forward: %v, and comes again: %v", c.reason, id, carried, res.Next)
			}
		}
	}
}

// A message that the API never saw is found in the log and in the audit by its request,
// and nobody fills the ledger with such.
func TestRefusedMessagesAreOnRecord(t *testing.T) {
	var out bytes.Buffer
	ctx := ledger.WithCause(t.Context(), ledger.ByRequest("night-shift-4711"))
	store := &entries{}
	refuse := app.Refuser(app.NewLog(&out), store)
	refuse(ctx, command.Refusal{Command: "instance.create", Outcome: "denied", Message: "m1", Source: "/shop"})
	got := map[string]any{}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "time")
	want := map[string]any{"level": "INFO", "msg": "message refused", "request": "night-shift-4711", "outcome": "denied", "message": "m1", "source": "/shop", "command": "instance.create"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the line (-want +got):\n%s", diff)
	}
	if len(store.sets) != 1 {
		t.Fatalf("on record are %+v", store.sets)
	}
	entry := store.sets[0].Puts[0].Object
	var status operation.AuditStatus
	if err := json.Unmarshal(entry.Status, &status); err != nil {
		t.Fatal(err)
	}
	if entry.Kind != operation.AuditKind.Name || entry.Phase != operation.AuditRefused || entry.Name != "COMMAND instance.create" || entry.Org != "" || entry.Owner != "bus" ||
		status.Status != 401 || status.About != "message m1, which says that it is of /shop" || store.sets[0].Cause != ledger.ByRequest("night-shift-4711") {
		t.Errorf("on record is %+v, %s", entry, entry.Status)
	}
	refuse(ctx, command.Refusal{Outcome: "failed", Message: "m2"}) // it is put aside besides, with its reason
	if e := store.sets[1].Puts[0].Object; e.Phase != operation.AuditFailed {
		t.Errorf("one that failed each time is on record as %+v", e)
	}
	for range 1000 {
		refuse(ctx, command.Refusal{Outcome: "denied", Message: "m3"})
	}
	if n := len(store.sets); n < 100 || n > 200 {
		t.Errorf("of a thousand %d are on record", n)
	}
}

// entries keeps what is written.
type entries struct{ sets []ledger.Set }

func (e *entries) Commit(_ context.Context, s ledger.Set) (ledger.Result, error) {
	e.sets = append(e.sets, s)
	return ledger.Result{}, nil
}

// Of two brokers it is said which one's options are wrong, once.
func TestBrokersAreToldApart(t *testing.T) {
	for reason, c := range map[string]struct{ set, says string }{
		"two logins":     {"credentials=file:/x,username=u", "credentials are a name and a password"},
		"no reference":   {"credentials=secret", "credentials"},
		"no vault":       {"credentials=vault:rabbitmq/creds/drover", "refers to Vault"},
		"no such option": {"colour=blue", "colour"},
	} {
		set := strings.Split(c.set, ",")
		k := app.NewKeeper(app.Config{Settings: app.Settings{Primary: true, SiteBusOptions: append(set, "url=amqp://127.0.0.1:1"), DataDir: t.TempDir()}}, "http://127.0.0.1:9", sqlledger.Standing{})
		for setting, err := range map[string]error{"--site-bus-options": k.OpenSignals(), "--bus-options": app.OpenRabbit(append(set, "url=amqp://127.0.0.1:1")...)} {
			if text := fmt.Sprint(err); !strings.HasPrefix(text, setting) || strings.Count(text, "bus-options") != 1 || !strings.Contains(text, c.says) {
				t.Errorf("%s: of %s it says %s", reason, setting, text)
			}
		}
	}
}

// The log has one line when the broker goes, and one when it is back.
func TestTheLogTellsOfTheBroker(t *testing.T) {
	var log bytes.Buffer
	app.TellOfBroker(slog.New(slog.NewTextHandler(&log, nil)), "broker.example:5672", errors.New("refused"), 90*time.Second)
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "the broker is away") || !strings.Contains(lines[0], "broker=broker.example:5672 error=refused") ||
		!strings.Contains(lines[1], "level=INFO") || !strings.Contains(lines[1], "the broker is back") || !strings.Contains(lines[1], "after=1m30s") {
		t.Errorf("the log has %q", lines)
	}
}

// heardBus was heard at a time.
type heardBus struct {
	bus.Bus
	at time.Time
}

func (h heardBus) Heard() time.Time { return h.at }

// A connection to the broker may be days old when it is lost: what counts is what came by it.
func TestTheBrokerAnswersForAsLongAsItIsHeard(t *testing.T) {
	connected := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	heard := connected.Add(time.Hour)
	for _, c := range []struct {
		reason, name string
		bus          bus.Bus
		want         time.Time
	}{
		{"a heartbeat is an answer", app.DoorBroker, heardBus{at: heard}, heard},
		{"nothing came since", app.DoorBroker, heardBus{}, connected},
		{"another side is not the broker", "the identity provider", heardBus{at: heard}, connected},
		{"there is no broker", app.DoorBroker, nil, connected},
	} {
		if got := app.Answered(doctor.Side{Name: c.name, Answered: connected}, c.bus); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.reason, got, c.want)
		}
	}
}

// What says of itself in its body what it is, is shown with that.
func TestWhatWasPutAsideIsNamedByItsEnvelope(t *testing.T) {
	const body = `{"specversion": "1.0", "data": {"id": "inner", "type": "inner"}, "id": "order-1", "type": "dev.drover.command.v1", "source": "/shop"}`
	for _, c := range []struct {
		reason   string
		m        bus.Message
		id, kind string
	}{
		{"by its properties", bus.Message{ID: "a", Type: "b", Body: []byte(body)}, "a", "b"},
		{"by its body", bus.Message{Body: []byte(body)}, "order-1", "dev.drover.command.v1"},
		{"one of each", bus.Message{ID: "a", Body: []byte(body)}, "a", "dev.drover.command.v1"},
		{"by the beginning of its body", bus.Message{Body: []byte(body[:len(body)-40])}, "order-1", ""},
		{"no JSON", bus.Message{Body: []byte("id: x")}, "", ""},
		{"no object", bus.Message{Body: []byte(`["id", "x"]`)}, "", ""},
		{"no text", bus.Message{Body: []byte(`{"id": 7, "type": {}}`)}, "", ""},
		{"too long", bus.Message{Body: []byte(`{"id": "` + strings.Repeat("x", 300) + `"}`)}, "", ""},
	} {
		if id, kind := app.Shown(bus.Rejected{Message: c.m}); id != c.id || kind != c.kind {
			t.Errorf("%s: %q %q", c.reason, id, kind)
		}
	}
}
