package httpapi_test

import (
	"encoding/json"
	"testing"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/ledger"
)

// A row in which somebody has written what is no JSON is shown without that, and a list
// that has it can be written.
func TestRowsThatAreNoJSON(t *testing.T) {
	for _, c := range []struct{ reason, spec, status, want string }{
		{"as ever", `{"a":1}`, `{"b":2}`, `{"a":1} {"b":2}`},
		{"a status that ends too soon", `{"a":1}`, `{"b":`, `{"a":1} `},
		{"a spec that is none", `garbage`, `{"b":2}`, ` {"b":2}`},
		{"nothing", ``, ``, ` `},
	} {
		o := ledger.Object{Ref: ledger.Ref{Kind: "deployment", ID: "x"}, Spec: json.RawMessage(c.spec), Status: json.RawMessage(c.status)}
		out := httpapi.WireRow(&o, nil, access.Principal{Admin: true})
		if got := string(out.Spec) + " " + string(out.Status); got != c.want {
			t.Errorf("%s: %s", c.reason, got)
		}
		if _, err := json.Marshal(out); err != nil {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
}
