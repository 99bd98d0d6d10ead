package httpapi_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
)

// outpost is a site that does as it is told.
type outpost struct {
	state    string
	refusal  error
	saw      int64
	promoted bool
}

func (o *outpost) Status() v1.Site {
	return v1.Site{Role: "secondary", State: o.state, Lag: &v1.Lag{Seconds: 0.25}, Primary: "http://east", Sites: []string{"http://west", "http://east"}}
}
func (o *outpost) Refuse() error      { return o.refusal }
func (o *outpost) Mark(h http.Header) { h.Set("Drover-Role", "secondary") }
func (o *outpost) Saw(epoch int64)    { o.saw = epoch }
func (o *outpost) Promote(_ context.Context, word v1.PromoteSite) (v1.Site, error) {
	o.promoted = word.PrimaryIsGone
	return o.Status(), nil
}

func TestSiteRefusesWritesAndAnswersReads(t *testing.T) {
	at := &outpost{state: "following", refusal: fault.New(fault.Conflict, "write to http://east").Because("secondary")}
	r := newRig(t, func(c *httpapi.Config) { c.Site = at })
	admin, alice := r.token(t, access.Claims{User: "root", Admin: true}), r.user(t, "alice", "acme")
	for _, c := range []struct {
		reason, token, method, path, body string
		status                            int
	}{
		{"reads are answered", alice, "GET", "/api/v1/dinosaurs", "", 200},
		{"writes are not", alice, "POST", "/api/v1/dinosaurs", `{"name":"rex"}`, 421},
		{"agents are sent away", admin, "POST", "/api/v1/clusters/c1/sync", `{}`, 421},
		{"what only asks is answered", admin, "POST", "/api/v1/placement/explain", `{`, 400},
		{"operators see how it stands", admin, "GET", "/api/v1/site", "", 200},
		{"others do not", alice, "GET", "/api/v1/site", "", 403},
		{"nor do they have it promoted", alice, "POST", "/api/v1/site/promote", `{"primary_is_gone":true}`, 403},
		{"nobody reads without a token", "", "GET", "/api/v1/dinosaurs", "", 401},
	} {
		got := r.do(t, c.token, c.method, c.path, c.body)
		if got.Code != c.status || got.Header().Get("Drover-Role") != "secondary" {
			t.Errorf("%s: %d %v %s", c.reason, got.Code, got.Header(), got.Body)
		}
	}
	if at.promoted {
		t.Error("it was promoted by somebody who may not")
	}
	if got := r.do(t, admin, "POST", "/api/v1/site/promote", `{"primary_is_gone":true}`); got.Code != 200 || !at.promoted {
		t.Errorf("an operator's word: %d %s", got.Code, got.Body)
	}
	for state, want := range map[string]int{"following": 200, "leading": 200, "fenced": 503, "waiting": 503} {
		at.state = state
		if got := r.do(t, "", "GET", "/readyz", ""); got.Code != want || state == "following" && !strings.Contains(got.Body.String(), "http://east") {
			t.Errorf("a site that is %s is ready: %d %s", state, got.Code, got.Body)
		}
	}
	var out v1.Site
	at.state = "leading"
	if got := r.do(t, admin, "GET", "/api/v1/site", ""); json.Unmarshal(got.Body.Bytes(), &out) != nil || len(out.Sites) != 2 {
		t.Errorf("the status is %s", got.Body)
	}
}
