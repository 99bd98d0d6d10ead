package gitops

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/droverhq/drover/internal/ledger"
)

// barred is why nothing new is done for an organisation, for the user; empty: it is.
func (s *Service) barred(org string) string {
	if s.Tenants == nil || !s.Tenants.Barred(org) {
		return ""
	}
	return fmt.Sprintf("organisation %.128q may not have anything deployed: ask your operator. What runs is left as it is; this goes on by itself once it may again", org)
}

// ofOrg are the kinds of what organisations have, in the order in which they are woken:
// what others are opened with comes first.
var ofOrg = []string{KindRepository.Name, KindTarget.Name, KindDeployment.Name, KindSyncRun.Name}

// OfOrg returns the wakes of what an organisation has, after a place of the form N/ID, N
// of ofOrg, and the place to go on after: empty when that was all.
func (s *Service) OfOrg(ctx context.Context, org, after string, limit int) ([]ledger.Wake, string, error) {
	n, id, _ := strings.Cut(after, "/")
	for at, _ := strconv.Atoi(n); at < len(ofOrg); at, id = at+1, "" {
		found, err := s.Store.List(ctx, ledger.Query{Kind: ofOrg[at], Scope: map[string]any{"org": org}, AfterID: id, Limit: limit, Brief: true})
		if err != nil {
			return nil, "", err
		}
		if len(found) == 0 {
			continue
		}
		var wakes []ledger.Wake
		for _, o := range found {
			if o.Kind != KindSyncRun.Name || !(&SyncRun{Object: o}).over() {
				wakes = append(wakes, ledger.Wake{Ref: o.Ref, Org: o.Org})
			}
		}
		return wakes, strconv.Itoa(at) + "/" + found[len(found)-1].ID, nil
	}
	return nil, "", nil
}
