package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/subscription"
)

// many is how much there is of everything.
const many = 2000

// Among very many of everything the doctor counts them and names a few: its answer
// stays small.
func TestDoctorAmongMany(t *testing.T) {
	s, err := app.New(t.Context(), app.Config{Version: "1.2", Settings: app.Settings{DataDir: t.TempDir(), Listen: "127.0.0.1:0", LogLevel: "error"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, kind := range []struct {
		name, phase, spec string
	}{
		{instance.Kind.Name, instance.Failed, "{}"}, {environment.Kind.Name, environment.Fail, "{}"}, {gitops.KindDeployment.Name, gitops.Failed, "{}"},
		{subscription.Kind.Name, subscription.Failing, `{"to":"webhook"}`},
	} {
		for i := 0; i < many; i += 200 {
			set := ledger.Set{Actor: "tester", Cause: "test"}
			for j := i; j < i+200; j++ {
				phase := kind.phase
				if j%2 > 0 {
					phase = "ready" // half of them are well
				}
				set.Puts = append(set.Puts, ledger.Put{Op: "create", Object: ledger.Object{Ref: ledger.Ref{Kind: kind.name, ID: fmt.Sprintf("%s-%05d", kind.name, j)},
					Org: fmt.Sprint("org-", j%7), Name: fmt.Sprint("name-", j), Phase: phase, Spec: json.RawMessage(kind.spec)}})
			}
			if _, err := s.Store().Commit(t.Context(), set); err != nil {
				t.Fatal(err)
			}
		}
	}
	began := time.Now()
	w, err := s.AskAsOperator(t.Context(), "/api/v1/doctor")
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%v: %d %s", err, w.Code, w.Body)
	}
	t.Logf("among %d of each of four kinds it took %s", many, time.Since(began))
	var d v1.Diagnosis
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"instance-failed", "environment-failed", "deployment-failed"} {
		found := v1.Finding{}
		for _, f := range d.Findings {
			if f.ID == id {
				found = f
			}
		}
		if found.Count != many/2 || len(found.Examples) != 6 || !strings.HasPrefix(found.Do[0], "drover describe ") {
			t.Errorf("%s: %+v", id, found)
		}
	}
	if d.Healthy || w.Body.Len() > 64<<10 {
		t.Errorf("healthy %v, in %d bytes", d.Healthy, w.Body.Len())
	}
}

// A repository that is away is left alone for a while, says the same all the time,
// and is nobody else's trouble.
func TestRepositoryThatIsAway(t *testing.T) {
	var asked atomic.Int64
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/broken") {
			asked.Add(1)
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer host.Close()
	registry := prometheus.NewRegistry()
	calls := app.NewWatcher(registry)
	git := app.NewRepositories(calls)
	texts := map[string]bool{}
	var last error
	for range 9 {
		_, last = git.Probe(t.Context(), source.Location{Repository: host.URL + "/broken.git"}, source.Credential{})
		if !fault.Is(last, fault.Unavailable) {
			t.Fatalf("a broken repository gives %v", last)
		}
		texts[last.Error()] = true
	}
	var rests interface{ Resumes() time.Duration }
	if asked.Load() != 5 || len(texts) != 1 || !errors.As(last, &rests) {
		t.Errorf("it was asked %d times, and said %v", asked.Load(), texts)
	}
	if _, err := git.Probe(t.Context(), source.Location{Repository: host.URL + "/other.git"}, source.Credential{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("another on the same host gives %v", err)
	}
	sides := calls.Calls()
	if len(sides) != 1 || sides[0].Open != 1 || sides[0].Failed.IsZero() || sides[0].Answered.IsZero() {
		t.Errorf("remembered is %+v", sides)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	if got["drover_call_refused_total"] != 4 || got["drover_call_breaker_open"] != 1 || got["drover_call_breaker_half_open"] != 0 {
		t.Errorf("metrics are %v", got)
	}
}

// An issuer that fails once is asked again; one that is away is told as that.
func TestIssuerThatIsAway(t *testing.T) {
	calls := app.NewWatcher(prometheus.NewRegistry())
	client := app.IssuerClient(calls)
	n := 0
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = io.WriteString(w, "keys")
	}))
	defer issuer.Close()
	resp, err := client.Get(issuer.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "keys" || n != 2 {
		t.Errorf("%q, %v after %d calls", text, err, n)
	}
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	if _, err := client.Get("http://" + nobody.Addr().String()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("nobody there gives %v", err)
	}
}

// A subscription that has missed something for good is found while it goes on well.
func TestDoctorFindsLostEvents(t *testing.T) {
	s, err := app.New(t.Context(), app.Config{Version: "1.2", Settings: app.Settings{DataDir: t.TempDir(), Listen: "127.0.0.1:0", LogLevel: "error"}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	set := ledger.Set{Actor: "tester", Cause: "test"}
	for id, status := range map[string]string{
		"whole": `{"told":7}`,
		"gap":   `{"told":7,"lost":4711,"lost_at":"` + time.Now().UTC().Format(time.RFC3339) + `"}`,
		"old":   `{"told":7,"lost":4712,"lost_at":"2001-02-03T04:05:06Z"}`,
	} {
		set.Puts = append(set.Puts, ledger.Put{Op: "create", Object: ledger.Object{Ref: ledger.Ref{Kind: subscription.Kind.Name, ID: id}, Name: "to-" + id,
			Phase: subscription.Active, Spec: json.RawMessage(`{"to":"webhook"}`), Status: json.RawMessage(status)}})
	}
	if _, err := s.Store().Commit(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.FollowSubscriptions(ctx) }()
	defer func() { leave(); <-done }()
	for deadline := time.Now().Add(3 * time.Minute); ; {
		w, err := s.AskAsOperator(t.Context(), "/api/v1/doctor")
		if err != nil || w.Code != http.StatusOK {
			t.Fatalf("%v: %d %s", err, w.Code, w.Body)
		}
		var d v1.Diagnosis
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		for _, f := range d.Findings {
			if f.ID != "subscription-lost" {
				continue
			}
			if f.Count != 1 || len(f.Examples) != 1 || f.Examples[0] != "to-gap: 4711 changes" {
				t.Errorf("found is %+v", f)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nobody is told: %s", w.Body)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// The alert on breakers leaves the same ones to tenants as the doctor does.
func TestAlertKnowsWhoseTheyAre(t *testing.T) {
	rules, err := os.ReadFile("../../deploy/observability/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{"open", "half_open"} {
		if want := `drover_call_breaker_` + state + `{to!~"` + strings.Join(app.Theirs, "|") + `"}`; !strings.Contains(string(rules), want) {
			t.Errorf("no rule asks for %s", want)
		}
	}
}
