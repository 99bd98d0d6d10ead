package httpapi_test

import (
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
)

// What is said of an environment in one request holds as a whole or not at all: whoever
// is refused, by a message too, finds nothing of it.
func TestAnAmendmentIsWhole(t *testing.T) {
	s := newSite(t)
	s.bring("strict", "1", "  permissions: {plan: {users: [alice]}, apply: {users: [alice]}, destroy: {users: [arthur]}}\n")
	s.deploy("alice", "kept", "strict")
	var before, after v1.Object
	s.want(200, "alice", "GET", envs+"/kept", "", &before)
	for _, tc := range []struct {
		reason string
		status int
		body   string
	}{
		{"the last part is no tag", 400, `{"ends": "never", "description": "mine", "tags": ["a b"]}`},
		{"she may not say that it stays", 403, `{"ends": "never", "description": "mine", "protected": true}`},
	} {
		s.want(tc.status, "alice", "PATCH", envs+"/kept", tc.body, nil)
		if s.want(200, "alice", "GET", envs+"/kept", "", &after); after.Version != before.Version {
			t.Errorf("%s: half of it was done: %+v", tc.reason, after)
		}
	}
	if s.want(200, "alice", "PATCH", envs+"/kept", `{"ends": "never", "description": "mine", "tags": ["a"]}`, &after); after.Version != before.Version+1 {
		t.Errorf("one request made %d changes", after.Version-before.Version)
	}
}
