package kubeapi_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

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
