package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/sqlledger"
)

// Operators see what waits to be removed and decide; nobody else learns of it.
func TestApprovals(t *testing.T) {
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "ledger.db"), Key: bytes.Repeat([]byte{7}, ledger.KeySize),
		Kinds: slices.Concat([]ledger.Kind{instance.Kind, cluster.Kind, offering.Kind, operation.Kind, operation.AuditKind, access.SigningKey}, breaker.Kinds()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	guard := breaker.NewService(breaker.Config{Store: l}) // nothing goes by itself
	removal := breaker.Removal{Scope: "instances/dinosaur", Total: 7, Rule: "a list", Object: ledger.Ref{Kind: "instance", ID: "i1"}}
	if _, err := guard.Take(t.Context(), removal); !fault.Is(err, fault.Exhausted) {
		t.Fatal(err)
	}
	registry := offering.NewService(offering.Config{Store: l}).Registry()
	handler, err := httpapi.New(httpapi.Config{
		Ledger: l, Feed: ledger.NewFeed(l), Offerings: registry, Approvals: guard, Authenticator: &gate{revoked: map[string]bool{}},
		Instances: instance.NewService(instance.Config{Store: l, Offerings: registry}), Clusters: cluster.NewService(l),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	call := func(status int, who, method, path, body string, into any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+who)
		if body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != status {
			t.Fatalf("%s %s by %s: %s %s, %v; want %d", method, path, who, resp.Status, data, err, status)
		}
		if into != nil {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
		}
	}
	const all = "/api/v1/approvals"
	var list v1.List
	call(200, "root", "GET", all+"?search=phase+=+open", "", &list)
	if len(list.Items) != 1 || list.Items[0].Resource != "approvals" || list.Items[0].Fields["scope"] != "instances/dinosaur" {
		t.Fatalf("open are %+v", list.Items)
	}
	call(200, "root", "GET", all+"?search=phase+=+approved", "", &list)
	if len(list.Items) != 0 {
		t.Errorf("approved are %+v", list.Items)
	}
	call(200, "root", "GET", all, "", &list)
	one := all + "/" + list.Items[0].ID
	for _, who := range []string{"alice", "arthur", "agent-c1"} {
		call(403, who, "GET", all, "", nil)
		call(403, who, "GET", one, "", nil)
		call(403, who, "POST", one+"/approve", "{}", nil)
		call(403, who, "POST", one+"/refuse", "", nil)
	}
	call(404, "root", "POST", all+"/nosuch/approve", "{}", nil)
	call(404, "root", "POST", all+"/nosuch/refuse", "", nil)
	for reason, body := range map[string]string{
		"less than none": `{"count": -1}`, "no duration": `{"for": "soon"}`, "too long": `{"for": "1000h"}`, "no number": `{"count": "all"}`, "for ever": `{"for": "-1h"}`,
	} {
		t.Log(reason)
		call(400, "root", "POST", one+"/approve", body, nil)
	}
	var got v1.Object
	call(200, "root", "POST", one+"/refuse", "", &got)
	if got.Phase != breaker.Refused {
		t.Errorf("refused: %+v", got)
	}
	call(200, "root", "POST", one+"/approve", `{"count": 1, "for": "30m"}`, &got)
	var spec breaker.Spec
	if err := json.Unmarshal(got.Spec, &spec); err != nil || got.Phase != breaker.Approved || spec.By != "root" || spec.Count != 1 || spec.Until.Sub(spec.At).Minutes() != 30 {
		t.Errorf("approved: %s %+v, %v", got.Phase, spec, err)
	}
	if counts, err := guard.Take(t.Context(), removal); err != nil || len(counts) != 1 {
		t.Errorf("what was approved: %v, %v", counts, err)
	}
	call(200, "root", "POST", one+"/approve", "", &got)
	var history v1.Changes
	call(200, "root", "GET", one+"/history", "", &history)
	if n := len(history.Items); n != 4 || history.Items[1].Actor != "root" || history.Items[1].Op != breaker.Refused {
		t.Errorf("the history has %d: %+v", n, history.Items)
	}
	call(200, "root", "GET", "/api/v1/audits?search=name+like+%25approvals%25", "", &list)
	if list.Total < 3 {
		t.Errorf("%d decisions are on record", list.Total)
	}
}
