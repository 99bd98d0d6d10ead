package document_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/ledger"
)

// store is a ledger in memory that can be away.
type store struct {
	mu   sync.Mutex
	log  []ledger.Change
	away bool
}

var errAway = errors.New("away")

func (s *store) write(kind, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, ledger.Change{Seq: int64(len(s.log)) + 1, Object: ledger.Object{Ref: ledger.Ref{Kind: kind, ID: id}}})
}

func (s *store) setAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *store) Head(context.Context) (ledger.Head, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return ledger.Head{}, errAway
	}
	return ledger.Head{Seq: int64(len(s.log))}, nil
}

func (s *store) List(_ context.Context, q ledger.Query) (out []ledger.Object, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.log {
		if o := c.Object; o.Kind == q.Kind && o.ID > q.AfterID && len(out) < q.Limit && q.Deleted {
			out = append(out, o)
		}
	}
	return out, nil
}

func (s *store) Changes(_ context.Context, q ledger.ChangeQuery) ([]ledger.Change, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return nil, errAway
	}
	return s.log[q.After:min(int(q.After)+q.Limit, len(s.log))], nil
}

func (s *store) At(context.Context, ledger.Ref, ledger.Moment) (ledger.Change, error) {
	return ledger.Change{}, errors.New("not asked for")
}

func (s *store) Hints(context.Context) <-chan struct{} { return nil } // all are lost

func TestFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var want, got []string
		for i := range 2500 { // several pages
			id := fmt.Sprintf("%05d", i)
			s.write("cat", id)
			s.write("stone", id)
			want = append(want, "cat/"+id)
		}
		s.write("dog", "rex")
		want = append(want, "dog/rex")
		settle := func(objects []ledger.Object) {
			for _, o := range objects {
				got = append(got, o.Kind+"/"+o.ID)
			}
		}
		f := document.Follower{Kinds: []string{"cat", "dog"}, Noun: "animals"}
		if err := f.Load(t.Context(), s, settle); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("all of its kinds are loaded: -want +got\n%s", diff)
		}

		got = nil
		ctx, cancel := context.WithCancel(t.Context())
		feed := ledger.NewFeed(s)
		var running sync.WaitGroup
		s.write("cat", "between") // Load and Follow
		running.Go(func() { _ = feed.Run(ctx) })
		running.Go(func() { _ = f.Follow(ctx, feed, settle) })
		s.write("stone", "x")
		s.setAway(true)
		s.write("dog", "max")
		time.Sleep(time.Minute) // of the bubble: the store is away meanwhile
		s.setAway(false)
		s.write("cat", "tom")
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		running.Wait()
		if diff := cmp.Diff([]string{"cat/between", "dog/max", "cat/tom"}, got); diff != "" {
			t.Errorf("what changes is settled once and in order, and nothing is lost: -want +got\n%s", diff)
		}
	})
}

func TestLoadTellsWhatCannotBeRead(t *testing.T) {
	f := document.Follower{Kinds: []string{"cat"}, Noun: "cats"}
	err := f.Load(t.Context(), &store{away: true}, func([]ledger.Object) { t.Error("nothing was read") })
	if !errors.Is(err, errAway) || !strings.Contains(err.Error(), "head of the log") {
		t.Errorf("got %v", err)
	}
	err = f.Load(t.Context(), unlisted{&store{}}, func([]ledger.Object) { t.Error("nothing was read") })
	if !errors.Is(err, errAway) || !slices.Contains(strings.Fields(err.Error()), "cats:") {
		t.Errorf("got %v", err)
	}
}

// unlisted lists nothing.
type unlisted struct{ *store }

func (unlisted) List(context.Context, ledger.Query) ([]ledger.Object, error) { return nil, errAway }
