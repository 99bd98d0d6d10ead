package policy_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/test/postgres"
)

// Three replicas on one PostgreSQL: of ten quotas for one organisation exactly
// one comes into force, and a user who accepts everywhere at once does it once.
func TestReplicasOnPostgres(t *testing.T) {
	url := postgres.Database(t)
	var replicas []*policy.Service
	for range 3 {
		store, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: url, Key: bytes.Repeat([]byte{7}, ledger.KeySize), Kinds: policy.Kinds()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		replicas = append(replicas, policy.NewService(policy.Config{Store: store}))
	}
	var wg sync.WaitGroup
	errs := make([]error, 10)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = replicas[i%3].Apply(t.Context(), "request", doc("Quota", "q"+string(rune('a'+i)), "{organisation: acme, anyUser: true}"))
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case fault.Reason(err) != "name-taken":
			t.Errorf("got %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d quotas are for one organisation", won)
	}

	apply(t, replicas[0], doc("Terms", "use", "{version: '1', text: be nice}"))
	alice := access.Principal{User: "alice", Org: "acme"}
	made := make([]bool, 9)
	for _, r := range replicas {
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range made {
		wg.Go(func() {
			var err error
			if _, made[i], err = replicas[i%3].Accept(t.Context(), alice, "use", "1"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	first := 0
	for _, m := range made {
		if m {
			first++
		}
	}
	if first != 1 {
		t.Errorf("%d acceptances of one user", first)
	}
	for _, r := range replicas {
		if err := r.Accepted(t.Context(), alice, "use"); err != nil {
			t.Error(err)
		}
	}
}
