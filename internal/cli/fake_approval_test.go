package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"

	v1 "github.com/droverhq/drover/api/v1"
)

// waiting is the approval that the fake server has from the beginning, although
// its lists show it only once it was decided about.
const waiting = "k3v9q2m7xa"

func (f *fake) approve(r *http.Request) (any, error) {
	var q v1.Approve
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		return nil, fault(400, "DROVER-17", err.Error())
	}
	return f.decide(r, "approved", fmt.Sprintf("%d may go for %q", q.Count, q.For))
}

func (f *fake) refuse(r *http.Request) (any, error) {
	return f.decide(r, "refused", "nothing goes")
}

func (f *fake) decide(r *http.Request, phase, message string) (any, error) {
	if r.PathValue("id") != waiting {
		return nil, fault(404, "DROVER-7", "not found")
	}
	status, _ := json.Marshal(map[string]string{"message": message})
	return f.write("alice", "request:r9", phase, v1.Object{Kind: "approval", ID: waiting, Resource: "approvals", Phase: phase, Status: status}), nil
}
