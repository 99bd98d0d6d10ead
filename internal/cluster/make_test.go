package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/reconcile"
)

// slow makes a cluster for as long as it is let.
type slow struct {
	there
	begun chan struct{}
	ended chan error
}

func (s *slow) Ensure(ctx context.Context, c provider.Cluster) (provider.Progress, error) {
	if err := c.Save(ctx, []byte("begun")); err != nil {
		return provider.Progress{}, err
	}
	close(s.begun)
	<-ctx.Done()
	s.ended <- ctx.Err()
	return provider.Progress{}, ctx.Err()
}

// Whoever deletes a cluster does not wait until it has been made.
func TestADeleteEndsTheMaking(t *testing.T) {
	f := newFleet(t)
	f.SetGlance(time.Millisecond)
	m := &slow{begun: make(chan struct{}), ended: make(chan error, 1)}
	f.Makers["cloud"] = m
	if _, _, err := f.ApplyProfile(byOps(), "p.yaml", fmt.Appendf(nil, profileOf, "small", "[]")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Create(byOps(), cluster.Request{ID: "edge", Profile: "small"}); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		reconcile.Result
		error
	}
	done := make(chan outcome, 1)
	go func() {
		for { // until the maker has been asked
			r, err := f.Reconcile(context.Background(), reconcile.Task{Ref: ledger.Ref{Kind: "cluster", ID: "edge"}})
			if len(r.Write.Puts) > 0 && err == nil {
				_, err = f.l.Commit(context.Background(), r.Write)
			}
			if len(m.ended) > 0 || err != nil {
				done <- outcome{r, err}
				return
			}
		}
	}()
	<-m.begun
	if _, err := f.Delete(byOps(), "edge"); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if got.error != nil || !got.Again || len(got.Write.Puts) > 0 {
		t.Errorf("it goes on with %+v, %v", got.Result, got.error)
	}
	f.rest(t, "edge")
	if c := f.see(t, "edge"); c.Deleted.IsZero() {
		t.Errorf("it is %s", c.Phase)
	}
}
