package offering_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// variant makes the minimal offering under another name, with a version to tell it by.
func variant(name, version string) []byte {
	text := strings.NewReplacer("minimal", name, "Minimal", strings.ToUpper(name[:1])+name[1:], "MINIMALS", strings.ToUpper(name)).Replace(minimal)
	return []byte(strings.Replace(text, `["1"]`, `["`+version+`"]`, 1))
}

func versionOf(t testing.TB, r *offering.Registry, name string) string {
	t.Helper()
	o, ok := r.Get(name)
	if !ok {
		return ""
	}
	v, err := o.Version(o.Spec.Components[0].Name, "")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestApply(t *testing.T) {
	st := newStore()
	s := offering.NewService(offering.Config{Store: st})
	ctx := ledger.WithCause(access.With(t.Context(), access.Principal{User: "alice"}), ledger.ByRequest("r1"))

	object, changed, err := s.Apply(ctx, "request", variant("tea", "1"))
	if err != nil || !changed || object.ID != "tea" || object.Kind != "offering" {
		t.Fatalf("got %+v, %v, %v", object, changed, err)
	}
	var status offering.Status
	if err := json.Unmarshal(object.Status, &status); err != nil || status.Source != "request" || !strings.HasPrefix(status.Digest, "sha256:") {
		t.Errorf("the status tells where it came from, got %s", object.Status)
	}
	if c := st.log[0]; c.Actor != "alice" || c.Cause != "request:r1" || c.Op != "create" {
		t.Errorf("the log tells who and why, got %+v", c)
	}
	if _, ok := s.Registry().ByGroup("teas_mgmt", "v1"); !ok {
		t.Error("it is found by its API path at once")
	}

	if _, changed, err := s.Apply(ctx, "elsewhere", append([]byte("# again\n"), variant("tea", "1")...)); err != nil || changed || len(st.log) != 1 {
		t.Errorf("the same content writes nothing, got %v, %v", changed, err)
	}
	if _, _, err := s.Apply(ctx, "request", []byte("apiVersion: nonsense")); !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v", err)
	}
	if v := versionOf(t, s.Registry(), "tea"); v != "1" || len(st.log) != 1 {
		t.Errorf("a broken file leaves the last good version in force, got %q", v)
	}
	if _, changed, err := s.Apply(t.Context(), "request", variant("tea", "2")); err != nil || !changed || versionOf(t, s.Registry(), "tea") != "2" {
		t.Errorf("got %v, %v", changed, err)
	}
	if c := st.log[1]; c.Actor != "system" || c.Op != "update" {
		t.Errorf("without a principal it was the system, got %+v", c)
	}
}

func TestApplyKeepsTheLastGoodVersionWhenTheStoreFails(t *testing.T) {
	st := newStore()
	s := offering.NewService(offering.Config{Store: st})
	if _, _, err := s.Apply(t.Context(), "request", variant("tea", "1")); err != nil {
		t.Fatal(err)
	}
	st.fail = fault.New(fault.Unavailable, "away")
	if _, _, err := s.Apply(t.Context(), "request", variant("tea", "2")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	if v := versionOf(t, s.Registry(), "tea"); v != "1" {
		t.Errorf("what is not stored is not in force, got %q", v)
	}
}

func TestClashes(t *testing.T) {
	tea := string(variant("tea", "1"))
	for name, c := range map[string]struct{ reason, old, new string }{
		"Group":    {"two offerings behind one path", "mates_mgmt", "teas_mgmt"},
		"Plural":   {"two resources of one name", "plural: mates", "plural: teas"},
		"Singular": {"a singular that is another's plural", "singular: mate", "singular: teas"},
		"Kind":     {"two kinds of one name", "kind: Mate", "kind: Tea"},
		"Prefix":   {"errors that nobody could tell apart", "MATE-MGMT", "TEA-MGMT"},
	} {
		t.Run(name, func(t *testing.T) {
			other := string(variant("mate", "1"))
			if !strings.Contains(other, c.old) {
				t.Fatalf("no %q in\n%s", c.old, other)
			}
			other = strings.Replace(other, c.old, c.new, 1)
			st := newStore()
			here, there := offering.NewService(offering.Config{Store: st}), offering.NewService(offering.Config{Store: st})
			if _, _, err := here.Apply(t.Context(), "request", []byte(tea)); err != nil {
				t.Fatal(err)
			}
			for where, s := range map[string]*offering.Service{"the same replica": here, "a replica that has not heard of it": there} {
				if _, _, err := s.Apply(t.Context(), "request", []byte(other)); !fault.Is(err, fault.Conflict) || fault.Reason(err) != "name-taken" {
					t.Errorf("%s, on %s: got %v", c.reason, where, err)
				}
			}
			if _, err := here.Delete(t.Context(), "tea"); err != nil {
				t.Fatal(err)
			}
			if _, _, err := there.Apply(t.Context(), "request", []byte(other)); err != nil {
				t.Errorf("what is deleted holds no names, got %v", err)
			}
		})
	}
}

func TestNamesThatAnUpdateGivesUpAreFree(t *testing.T) {
	s := offering.NewService(offering.Config{Store: newStore()})
	if _, _, err := s.Apply(t.Context(), "request", variant("tea", "1")); err != nil {
		t.Fatal(err)
	}
	moved := strings.Replace(string(variant("tea", "1")), "teas_mgmt", "infusions", 1)
	if _, _, err := s.Apply(t.Context(), "request", []byte(moved)); err != nil {
		t.Fatal(err)
	}
	taker := strings.Replace(string(variant("mate", "1")), "mates_mgmt", "teas_mgmt", 1)
	if _, _, err := s.Apply(t.Context(), "request", []byte(taker)); err != nil {
		t.Errorf("got %v", err)
	}
	if o, _ := s.Registry().ByGroup("teas_mgmt", "v1"); o == nil || o.Metadata.Name != "mate" {
		t.Errorf("got %v", o)
	}
}

func TestWhatIsInUseStays(t *testing.T) {
	used := users{"tea": 3}
	s := offering.NewService(offering.Config{Store: newStore(), Instances: used, Now: func() time.Time { return born }})
	if _, _, err := s.Apply(t.Context(), "request", variant("tea", "1")); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ reason, old, new string }{
		"Path": {"instances keep their address", "teas_mgmt", "infusions"},
		"Plan": {"instances keep their plan", "name: x1", "name: x2"},
	} {
		doc := strings.Replace(string(variant("tea", "1")), c.old, c.new, 1)
		if _, _, err := s.Apply(t.Context(), "request", []byte(doc)); !fault.Is(err, fault.Conflict) || fault.Reason(err) != "in-use" {
			t.Errorf("%s: %s: got %v", name, c.reason, err)
		}
	}
	if _, _, err := s.Apply(t.Context(), "request", variant("tea", "2")); err != nil {
		t.Errorf("everything else can change, got %v", err)
	}
	if _, err := s.Delete(t.Context(), "tea"); !fault.Is(err, fault.Conflict) || fault.Reason(err) != "in-use" {
		t.Errorf("an offering with instances cannot be deleted, got %v", err)
	}
	delete(used, "tea")
	object, err := s.Delete(t.Context(), "tea")
	if err != nil || !object.Deleted.Equal(born) {
		t.Errorf("got %+v, %v", object, err)
	}
	if _, ok := s.Registry().Get("tea"); ok {
		t.Error("what is deleted is no longer in force")
	}
	if _, err := s.Delete(t.Context(), "tea"); !fault.Is(err, fault.NotFound) {
		t.Errorf("it is deleted once, got %v", err)
	}
	if _, changed, err := s.Apply(t.Context(), "request", variant("tea", "2")); err != nil || !changed || versionOf(t, s.Registry(), "tea") != "2" {
		t.Errorf("and can come back, got %v, %v", changed, err)
	}
}

func TestApplyOutlivesARace(t *testing.T) {
	st := newStore()
	here, there := offering.NewService(offering.Config{Store: st}), offering.NewService(offering.Config{Store: st})
	st.before = func() {
		if _, _, err := there.Apply(t.Context(), "request", variant("tea", "1")); err != nil {
			t.Error(err)
		}
	}
	if _, changed, err := here.Apply(t.Context(), "request", variant("tea", "2")); err != nil || !changed {
		t.Errorf("whoever comes second starts over, got %v, %v", changed, err)
	}
	if v := versionOf(t, here.Registry(), "tea"); v != "2" {
		t.Errorf("got %q", v)
	}
}

func TestLoadAndFollow(t *testing.T) {
	st := newStore()
	writer := offering.NewService(offering.Config{Store: st})
	apply := func(name, v string) {
		t.Helper()
		if _, _, err := writer.Apply(t.Context(), "request", variant(name, v)); err != nil {
			t.Fatal(err)
		}
	}
	apply("tea", "1")
	apply("gone", "1")
	if _, err := writer.Delete(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}

	logged := make(records, 10)
	reader := offering.NewService(offering.Config{Store: st, Log: slog.New(logged)})
	if err := reader.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(reader.Registry().List()); got != 1 || versionOf(t, reader.Registry(), "tea") != "1" {
		t.Errorf("the ledger's offerings are in force after Load, got %d", got)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	feed := ledger.NewFeed(st)
	var running sync.WaitGroup
	running.Go(func() { _ = feed.Run(ctx) })
	running.Go(func() { _ = reader.Follow(ctx, feed) })
	defer running.Wait()
	defer cancel()

	apply("tea", "2")
	breakTea := func() {
		t.Helper()
		object, err := st.Get(ctx, ledger.Ref{Kind: "offering", ID: "tea"})
		if err != nil {
			t.Fatal(err)
		}
		// A version of a later binary: this one cannot compile it.
		object.Spec = json.RawMessage(fmt.Sprintf(`{"apiVersion":"drover.dev/v2","n":%d}`, object.Version))
		if _, err := st.Commit(ctx, ledger.Set{Actor: "x", Cause: "schedule:x", Puts: []ledger.Put{{Object: object, Expect: object.Version, Op: "update"}}}); err != nil {
			t.Fatal(err)
		}
		if r := logged.next(t); !strings.Contains(r, "offering not updated") || !strings.Contains(r, "apiVersion") {
			t.Errorf("why it is not used is logged, got %s", r)
		}
	}
	breakTea()
	if v := versionOf(t, reader.Registry(), "tea"); v != "2" {
		t.Errorf("the last good version stays in force, got %q", v)
	}
	apply("mate", "1")
	if _, err := writer.Delete(t.Context(), "mate"); err != nil {
		t.Fatal(err)
	}
	apply("last", "1")
	breakTea() // logged after everything before it was looked at
	if _, ok := reader.Registry().Get("mate"); ok || versionOf(t, reader.Registry(), "last") != "1" {
		t.Error("what another replica applies and deletes is followed")
	}
}

// records is a log that tests can wait for.
type records chan string

func (r records) Enabled(context.Context, slog.Level) bool { return true }
func (r records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r records) WithGroup(string) slog.Handler            { return r }
func (r records) Handle(_ context.Context, rec slog.Record) error {
	text := rec.Message
	rec.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	r <- text
	return nil
}

// until waits for a record that holds all the parts. Others are passed over: a
// busy machine may see a file between two steps of writing it.
func (r records) until(t testing.TB, parts ...string) {
	t.Helper()
	for {
		record, found := r.next(t), true
		for _, p := range parts {
			found = found && strings.Contains(record, p)
		}
		if found {
			return
		}
	}
}

func (r records) next(t testing.TB) string {
	t.Helper()
	select {
	case s := <-r:
		return s
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing was logged")
		return ""
	}
}

// Whatever is applied and deleted on two replicas in whatever order, each name
// and path has one offering, and the registry of the writer is what the ledger holds.
func TestRegistryIsWhatTheLedgerHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		st := newStore()
		replicas := []*offering.Service{offering.NewService(offering.Config{Store: st}), offering.NewService(offering.Config{Store: st})}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			s := rapid.SampledFrom(replicas).Draw(t, "replica")
			name := rapid.SampledFrom([]string{"tea", "mate", "broth"}).Draw(t, "name")
			var err error
			switch rapid.IntRange(0, 3).Draw(t, "verb") {
			case 0:
				_, err = s.Delete(t.Context(), name)
			case 1:
				_, _, err = s.Apply(t.Context(), "request", []byte("broken"))
			default:
				doc := variant(name, rapid.SampledFrom([]string{"1", "2"}).Draw(t, "version"))
				if rapid.Bool().Draw(t, "greedy") {
					doc = []byte(strings.Replace(string(doc), "kind: "+strings.ToUpper(name[:1])+name[1:], "kind: Drink", 1))
				}
				_, _, err = s.Apply(t.Context(), "request", doc)
			}
			var f *fault.Error
			if err != nil && !errors.As(err, &f) {
				t.Fatalf("every refusal has a kind: %v", err)
			}
		}
		want := map[string]string{}
		kinds := map[string]bool{}
		objects, _ := st.List(t.Context(), ledger.Query{Kind: "offering", Limit: 100})
		for _, o := range objects {
			compiled, err := offering.Parse("ledger", o.Spec)
			if err != nil {
				t.Fatalf("nothing broken is ever stored: %v", err)
			}
			if kinds[compiled.Spec.Names.Kind] {
				t.Fatalf("two offerings are called %s", compiled.Spec.Names.Kind)
			}
			kinds[compiled.Spec.Names.Kind] = true
			want[o.ID] = compiled.Digest
		}
		fresh := offering.NewService(offering.Config{Store: st})
		if err := fresh.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, o := range fresh.Registry().List() {
			got[o.Metadata.Name] = o.Digest
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("-ledger +registry\n%s", diff)
		}
		for _, s := range replicas {
			if err := s.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(s.Registry().List()) != len(want) {
				t.Fatal("a replica that reads the ledger again is up to date")
			}
		}
	})
}
