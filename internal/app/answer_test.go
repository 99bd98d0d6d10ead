package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/audit"
	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/subscription"
)

// mailbox keeps what was sent where.
type mailbox struct {
	bus.Bus
	sent []string
}

func (m *mailbox) Send(_ context.Context, queue string, b bus.Message) error {
	m.sent = append(m.sent, queue+" "+b.Correlation+" "+strings.TrimPrefix(b.Type, command.TypePrefix))
	return nil
}

// A command of which a change was erased, one that nobody can read and one whose record has
// been taken off hold up nobody's answers: what can be told of them is, and all others are
// answered.
func TestAnswersGoOnBehindWhatCannotBeTold(t *testing.T) {
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "drover.db"), Key: bytes.Repeat([]byte{7}, 32),
		Kinds: []ledger.Kind{command.Kind, subscription.Kind, operation.Kind, operation.AuditKind, audit.Kind}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	room, err := audit.NewService(audit.Config{Store: l, Kinds: []string{command.Kind.Name, subscription.Kind.Name, operation.Kind.Name, operation.AuditKind.Name, audit.Kind.Name}})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	box := &mailbox{}
	s := app.Answering(l, box, slog.New(slog.NewTextHandler(&log, nil)))
	if err := s.EnsureBus(t.Context()); err != nil {
		t.Fatal(err)
	}
	write := func(o ledger.Object, op string) ledger.Object {
		t.Helper()
		res, err := l.Commit(t.Context(), ledger.Set{Actor: "alice", Cause: ledger.ByRequest("r"), Puts: []ledger.Put{{Object: o, Expect: o.Version, Op: op}}})
		if err != nil {
			t.Fatal(err)
		}
		return res.Objects[0]
	}
	order := func(org, id string) ledger.Object {
		t.Helper()
		spec, err := json.Marshal(command.Spec{Type: "instance.create", Message: id, Source: "/shop", ReplyTo: org + "-answers"})
		if err != nil {
			t.Fatal(err)
		}
		return write(ledger.Object{Ref: ledger.Ref{Kind: command.Kind.Name, ID: id}, Org: org, Owner: "alice", Name: id, Phase: command.Accepted, Spec: spec}, command.Accepted)
	}
	done := func(o ledger.Object) ledger.Object {
		o.Phase = command.Done
		return write(o, command.Done)
	}
	first := order("acme", "first")
	head, err := l.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first = done(first)
	first.Deleted = head.At
	write(first, "delete")
	odd := order("acme", "odd")
	odd.Spec = json.RawMessage(`"nonsense"`)
	write(odd, command.Progress)
	done(order("umbrella", "other"))
	if _, err := room.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := room.Erase(t.Context(), head.Seq); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Reconcile(t.Context(), reconcile.Task{Ref: ledger.Ref{Kind: subscription.Kind.Name, ID: subscription.AnswersID}}); err != nil {
		t.Fatalf("answers stop: %v", err)
	}
	want := []string{"acme-answers first done", "acme-answers odd accepted", "umbrella-answers other accepted", "umbrella-answers other done"}
	if diff := cmp.Diff(want, box.sent); diff != "" {
		t.Errorf("answered (-want +got):\n%s", diff)
	}
	if n := strings.Count(log.String(), "msg="); n != 1 || !strings.Contains(log.String(), "command=command/odd") {
		t.Errorf("the log says %s", &log)
	}
}
