package kubeapi_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/ledger"
)

// broken is a cache that nothing can be read from.
type broken struct{ cache.Cache }

func (broken) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("broken")
}

func (broken) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("broken")
}

// causes keeps those of the lines that are written.
type causes struct {
	slog.Handler
	all []ledger.Cause
}

func (*causes) Enabled(context.Context, slog.Level) bool { return true }

func (c *causes) Handle(ctx context.Context, _ slog.Record) error {
	cause, _ := ledger.KnownCause(ctx)
	c.all = append(c.all, cause)
	return nil
}

// What could not be taken is told with the custom resource that asked for it: by that
// cause the history of what it leads to is found.
func TestAnIntentThatFailsSaysItsCause(t *testing.T) {
	var said causes
	c := kubeapi.New(kubeapi.Config{Home: &kubeapi.Home{Access: kubeapi.Access{Name: "home", Now: time.Now}}, Logger: slog.New(&said)})
	if err := c.Take(t.Context(), broken{}, "deployment", "team", "shop"); err == nil {
		t.Fatal("it was taken")
	}
	if want := ledger.ByResource("home", "deployment", "team", "shop"); len(said.all) != 1 || said.all[0] != want {
		t.Errorf("said for %q, want %q", said.all, want)
	}
}

// A namespace whose label names nobody who carries anything out is told of, for as long as
// that is so.
func TestNamespacesWithoutTheirEngine(t *testing.T) {
	c := kubeapi.New(kubeapi.Config{Home: &kubeapi.Home{Access: kubeapi.Access{Name: "home", Now: time.Now}}, Engine: func(label string) string {
		if label == "far" {
			return label
		}
		return "edge"
	}})
	on := c.Namespaces(t.Context(), broken{})
	ns := func(name, engine string) *metav1.PartialObjectMetadata {
		o := &metav1.PartialObjectMetadata{}
		if o.Name = name; engine != "" {
			o.Labels = map[string]string{kubeapi.EngineLabel: engine}
		}
		return o
	}
	going := ns("going", "nobody")
	going.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	for _, o := range []*metav1.PartialObjectMetadata{ns("usual", ""), ns("chosen", "far"), ns("b", "nobody"), ns("a", "else"), going} {
		on.OnAdd(o, true)
	}
	a, b := kubeapi.Stray{Namespace: "a", Label: "else", Engine: "edge"}, kubeapi.Stray{Namespace: "b", Label: "nobody", Engine: "edge"}
	for _, step := range []struct {
		reason string
		do     func()
		want   []kubeapi.Stray
	}{
		{"two name nobody", func() {}, []kubeapi.Stray{a, b}},
		{"one has another label now", func() { on.OnUpdate(ns("b", "nobody"), ns("b", "far")) }, []kubeapi.Stray{a}},
		{"another goes", func() { on.OnDelete(ns("a", "else")) }, []kubeapi.Stray{}},
		{"one comes", func() { on.OnAdd(ns("b", "nobody"), false) }, []kubeapi.Stray{b}},
	} {
		step.do()
		if got := c.Strays(); !slices.Equal(got, step.want) {
			t.Errorf("%s: %+v", step.reason, got)
		}
	}
}
