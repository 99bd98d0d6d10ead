package httpapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
	"github.com/droverhq/drover/internal/policy"
	"github.com/droverhq/drover/internal/reconcile"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/template"
)

// boxSecret begins every secret that a box gives.
const boxSecret = "s3cr3t-of-"

// box is an executor that makes things in memory.
type box struct {
	mu    sync.Mutex
	made  map[string]string // text by id of the resource
	block chan struct{}     // nil: nothing waits
}

func (b *box) Describe() executor.Description {
	return executor.Description{Summary: "a box in memory",
		Inputs: map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{"text": map[string]any{"type": "string"}}},
		Outputs: map[string]executor.Output{
			"url": {Type: expr.String}, "token": {Type: expr.String, Secret: true},
		}}
}

func (b *box) look(r executor.Resource) (text string, there bool, mark string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, there = b.made[r.ID]
	return text, there, executor.Mark(text, there)
}

func boxOutputs(r executor.Resource) map[string]any {
	return map[string]any{"url": "http://127.0.0.1:1/" + r.Address, "token": executor.NewSecret(boxSecret + r.Environment + "-" + r.Address)}
}

func (b *box) Plan(_ context.Context, r executor.Resource) (executor.Change, error) {
	text, there, mark := b.look(r)
	in := r.Input("text")
	c := executor.Change{Action: executor.None, Mark: mark, Outputs: boxOutputs(r)}
	switch {
	case !there:
		c.Action, c.Why, c.Outputs = executor.Create, "it is not there", map[string]any{"url": executor.Unknown{}, "token": executor.Unknown{}}
	case !in.Known || in.Text() != text:
		c.Action, c.Why, c.Fields = executor.Update, "its text differs", []executor.Field{{Path: "text", Before: executor.Hidden, After: in.Show()}}
	}
	return c, nil
}

func (b *box) Apply(ctx context.Context, r executor.Resource) (executor.Result, error) {
	text, _, mark := b.look(r)
	want := r.Input("text").Text()
	fmt.Fprintf(r.Log, "packing %s\n", r.Address)
	switch {
	case want == "broken":
		return executor.Result{}, fault.New(fault.Invalid, "nothing fits into a broken box")
	case r.Mark != "" && mark != r.Mark && text != want:
		return executor.Result{}, executor.Moved(r.Address)
	}
	b.mu.Lock()
	block := b.block
	b.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return executor.Result{}, ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.made[r.ID] = want
	return executor.Result{Done: true, Outputs: boxOutputs(r), Links: []executor.Link{{Rel: "dashboard", URL: "http://box/" + r.Address}}}, nil
}

func (b *box) Observe(_ context.Context, r executor.Resource) (executor.Observation, error) {
	_, there, mark := b.look(r)
	return executor.Observation{Exists: there, Mark: mark}, nil
}

func (b *box) Destroy(_ context.Context, r executor.Resource) (executor.Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.made, r.ID)
	return executor.Result{Done: true}, nil
}

// spoil changes everything that was made, as somebody's hand does.
func (b *box) spoil() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for id := range b.made {
		b.made[id] = "spoilt"
	}
}

// parrot runs actions: it repeats what it is told.
type parrot struct{}

func (parrot) Check(template.Command, map[string][]byte) error { return nil }

func (parrot) Run(_ context.Context, c template.Command, _ map[string][]byte, log io.Writer) error {
	fmt.Fprintf(log, "%q %v\n", c.Argv, c.Env)
	if c.Env["WORD"] == "fall" {
		return fault.New(fault.Invalid, "the parrot fell off its perch")
	}
	return nil
}

// site is a world with templates and environments, and with the loop.
type site struct {
	*world
	box    *box
	issuer *access.Issuer
}

func newSite(t *testing.T) *site {
	t.Helper()
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{
		URL: filepath.Join(t.TempDir(), "ledger.db"), Key: bytes.Repeat([]byte{7}, ledger.KeySize),
		Kinds: slices.Concat(policy.Kinds(), breaker.Kinds(), environment.Kinds(), template.Kinds(), gitops.Kinds(),
			[]ledger.Kind{instance.Kind, cluster.Kind, cluster.KindProfile, operation.Kind, operation.AuditKind, offering.Kind, access.SigningKey}),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{&world{T: t, ledger: l, gate: &gate{revoked: map[string]bool{}}, log: &bytes.Buffer{}, written: make(chan struct{}, 1)}, &box{made: map[string]string{}}, nil}
	if s.issuer, err = access.NewIssuer(access.IssuerConfig{Store: l}); err != nil {
		t.Fatal(err)
	}
	registry := offering.NewService(offering.Config{Store: l}).Registry()
	guard := breaker.NewService(breaker.Config{Store: l})
	templates := template.NewService(template.Config{Store: l, Files: l, Executors: map[string]executor.Description{"box": s.box.Describe()}, Source: source.Choose{}})
	environments := environment.NewService(environment.Config{Store: l, Keeper: l, Finder: l, Approvals: guard,
		Templates: environment.Drawings{Service: templates}, Executors: map[string]executor.Executor{"box": s.box}, Runner: parrot{}, Connections: bookOf()})
	templates.Users = environments
	guard.Waiters = map[string]breaker.Waiters{environment.KindPlan.Name: environments}
	s.clusters = cluster.NewService(l)
	deployments := gitops.NewService(gitops.Config{Store: l, Keeper: l, Engines: argo{}, Prober: argo{}})
	feed := ledger.NewFeed(l)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	reconcilers := environments.Reconcilers()
	maps.Copy(reconcilers, deployments.Reconcilers())
	reconcilers[breaker.KindApproval.Name] = &breaker.Reconciler{Service: guard}
	loop := reconcile.New(reconcile.Config{Ledger: l, Reconcilers: reconcilers, Workers: 4, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	running.Go(func() { _ = feed.Run(ctx) })
	running.Go(func() { _ = loop.Run(ctx) })
	handler, err := httpapi.New(httpapi.Config{
		Ending: ctx, Ledger: l, Feed: feed, Offerings: registry, Approvals: guard, Templates: templates, Environments: environments, Deployments: deployments,
		Instances: instance.NewService(instance.Config{Store: l, Offerings: registry}), Clusters: s.clusters, Authenticator: s.gate, Issuer: s.issuer,
		Log: slog.New(slog.NewTextHandler(s, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewServer(s.truthful(handler))
	t.Cleanup(func() {
		s.server.CloseClientConnections()
		s.server.Close()
		stop()
		running.Wait()
		_ = l.Close()
	})
	return s
}

// shopTemplate has a database and pages that need it; more goes into its spec.
const shopTemplate = `
apiVersion: drover.dev/v1
kind: Template
metadata: {name: NAME}
spec:
  version: "VERSION"
  description: sells payments
  tags: [till]
  parameters:
    type: object
    properties: {size: {type: integer, default: 2, minimum: 1, maximum: 12}, text: {type: string, default: fine}}
  resources:
    - name: db
      description: the books
      executor: box
      tags: [data]
      external: [{name: the-bank, url: "https://bank.example.org"}]
      with: {text: "${params.text}"}
    - name: web
      executor: box
      count: "${params.size}"
      with: {text: "${db.outputs.token}"}
  outputs:
    - {name: place, value: "${web[0].outputs.url}"}
    - {name: password, value: "${db.outputs.token}"}
`

// bring brings a template in and returns the version's id.
func (s *site) bring(name, version, more string) string {
	s.Helper()
	text := strings.NewReplacer("NAME", name, "VERSION", version).Replace(shopTemplate) + more
	var made v1.TemplateVersion
	s.want(201, "root", "POST", "/api/v1/templates", filesBody(map[string]string{"template.yaml": text}, ""), &made)
	return made.ID
}

func filesBody(files map[string]string, more string) string {
	var parts []string
	for path, text := range files {
		parts = append(parts, fmt.Sprintf("%q: %q", path, base64.StdEncoding.EncodeToString([]byte(text))))
	}
	return `{"files": {` + strings.Join(parts, ",") + `}` + more + `}`
}

// until asks until the answer is as it should be. What the loop does takes a
// moment that nobody knows.
func (s *site) until(who, path string, good func(data []byte) bool) []byte {
	s.Helper()
	end := time.Now().Add(20 * time.Second)
	hints := s.ledger.Hints(s.Context())
	for {
		resp := s.request(who, "GET", path, "", nil)
		data, _ := io.ReadAll(resp.Body)
		if resp.StatusCode == 200 && good(data) {
			return data
		}
		if time.Now().After(end) {
			s.Fatalf("GET %s stays %s", path, data)
		}
		select {
		case <-hints:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ended waits until an operation has succeeded.
func (s *site) ended(who string, resp *http.Response) {
	s.Helper()
	s.phase(who, "/api/v1/operations/"+resp.Header.Get("Drover-Operation"), "succeeded")
}

// phase waits until an object has one.
func (s *site) phase(who, path, phase string) v1.Object {
	s.Helper()
	var o v1.Object
	s.until(who, path, func(data []byte) bool {
		o = v1.Object{}
		return json.Unmarshal(data, &o) == nil && o.Phase == phase
	})
	return o
}

// plan has one made.
func (s *site) plan(who, name, body string) v1.Plan {
	s.Helper()
	var p v1.Plan
	s.want(202, who, "POST", "/api/v1/environments/"+name+"/plan", body, &p)
	s.until(who, "/api/v1/plans/"+p.ID+"/changes", func(data []byte) bool {
		p = v1.Plan{}
		return json.Unmarshal(data, &p) == nil && p.Phase != "planning"
	})
	return p
}

// deploy makes an environment of a template and waits for it.
func (s *site) deploy(who, name, template string) v1.Object {
	s.Helper()
	var o v1.Object
	s.want(202, who, "POST", "/api/v1/environments", fmt.Sprintf(`{"name": %q, "template": %q}`, name, template), &o)
	return s.phase(who, "/api/v1/environments/"+o.ID, "Deployed-OK")
}
