package httpapi_test

import "testing"

// What command lines ask of an account service before they order.
func TestWhatCommandLinesAskFirst(t *testing.T) {
	f := newFleet(t)
	alice := f.user(t, "alice", "acme")
	account := f.do(t, alice, "GET", "/api/accounts_mgmt/v1/current_account", "").ok(200).object()
	org, _ := account["organization"].(map[string]any)
	if account["username"] != "alice" || org["id"] != "acme" {
		t.Errorf("the account is %v", account)
	}
	list := f.do(t, alice, "GET", "/api/accounts_mgmt/v1/organizations/acme/quota_cost?fetchRelatedResources=true", "").ok(200).object()
	items, _ := list["items"].([]any)
	trials := 0
	for _, it := range items {
		item := it.(map[string]any)
		if _, ok := item["cloud_accounts"].([]any); !ok {
			t.Errorf("a client would stumble over missing cloud_accounts: %v", item)
		}
		related, _ := item["related_resources"].([]any)
		for _, r := range related {
			if r := r.(map[string]any); r["product"] == "RHOSAKTrial" && r["resource_name"] == "rhosak" {
				trials++
			}
		}
	}
	if trials == 0 {
		t.Errorf("there is no trial among %v", items)
	}
	f.do(t, alice, "GET", "/api/accounts_mgmt/v1/organizations/evil/quota_cost", "").refused("another organisation's", 404, "7")
	review := f.do(t, alice, "POST", "/api/authorizations/v1/self_terms_review", "{}").ok(200).object()
	if review["terms_available"] != false || review["terms_required"] != false {
		t.Errorf("the review is %v", review)
	}
}
