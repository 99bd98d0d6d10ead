package account_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// TestRounds creates, resets and deletes a hundred times with a provider that
// fails one call in five, on two replicas.
func TestRounds(t *testing.T) {
	w := newWorld(t)
	ps := []*process{w.start(-1), w.start(-1)}
	ctx := as(t.Context(), "mary", "acme")
	w.idp.fail(0.2)
	made := 0
	for i := range 100 {
		p := ps[i%2]
		a, err := p.Create(ctx, name(i), "")
		if err != nil {
			if !fault.Is(err, fault.Unavailable) {
				t.Fatalf("round %d: %v", i, err)
			}
			continue
		}
		made++
		if i%3 == 0 {
			_, _ = p.Reset(ctx, a.ID) // it may fail; what is left is looked at below
		}
		if err := ps[(i+1)%2].Delete(ctx, a.ID); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
	if made < 50 || made == 100 {
		t.Fatalf("%d of 100 were made: the provider does not fail as it should", made)
	}
	w.work(t, ps...)
	w.tidy(t, 0)
}

// TestLimitOnReplicas has three processes on one PostgreSQL.
func TestLimitOnReplicas(t *testing.T) {
	dsn := postgres.Database(t)
	provider := newWorld(t).idp
	var replicas []*account.Service
	for range 3 {
		l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: dsn, Kinds: []ledger.Kind{account.Kind}, Key: make([]byte, ledger.KeySize)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		replicas = append(replicas, account.NewService(account.Config{Store: l, Provider: provider}))
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for i := range 200 {
		wg.Go(func() {
			_, err := replicas[i%3].Create(as(t.Context(), fmt.Sprint("user-", i), "acme"), name(i), "")
			mu.Lock()
			defer mu.Unlock()
			outcomes[fault.Reason(err)]++
		})
	}
	wg.Wait()
	if outcomes[""] != 50 || outcomes["account-limit"] != 150 || len(provider.all()) != 50 {
		t.Errorf("outcomes %v, %d clients; want 50 made and 150 refused", outcomes, len(provider.all()))
	}
	_, total, err := replicas[0].List(as(t.Context(), "mary", "acme"), "", 1, 10)
	if err != nil || total != 50 {
		t.Errorf("the list has %d, %v", total, err)
	}
	var ids []string
	for page := 1; page <= 6; page++ {
		list, _, err := replicas[1].List(as(t.Context(), "mary", "acme"), "", page, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			ids = append(ids, a.ID)
		}
	}
	if len(ids) != 50 {
		t.Errorf("the pages have %d accounts", len(ids))
	}
	agents := map[string]bool{}
	for i := range 12 {
		wg.Go(func() {
			id, secret, err := replicas[i%3].EnsureAgent(t.Context(), "c-1")
			if err != nil {
				t.Errorf("agent: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			agents[id+secret] = true
		})
	}
	wg.Wait()
	if len(agents) != 1 {
		t.Errorf("%d accounts of one agent", len(agents))
	}
}
