package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/provider"
)

// watching sees what is applied.
type watching struct {
	hands
	applied []cluster.StepItem
}

func (w *watching) Apply(ctx context.Context, kubeconfig []byte, step cluster.StepItem, inventory []string) (cluster.StepResult, error) {
	w.applied = append(w.applied, step)
	return w.hands.Apply(ctx, kubeconfig, step, inventory)
}

func (w *watching) of(id string) (out []cluster.StepItem) {
	for _, s := range w.applied {
		if s.ID == id {
			out = append(out, s)
		}
	}
	return out
}

// installing is a fleet that puts agents on its clusters, and counts their tokens.
func installing(t *testing.T) (*fleet, *watching, *int) {
	f := newFleet(t)
	w, tokens := &watching{hands: hands{f.cloud}}, 0
	f.Terraformer = w
	f.Installs = &cluster.Installs{Server: "https://drover.example.org", Image: "drover:1", Trace: "https://collector.example.org", Token: func(_ context.Context, id string) (string, error) {
		tokens++
		return fmt.Sprintf("token-%d-of-%s", tokens, id), nil
	}}
	return f, w, &tokens
}

func (f *fleet) create(t *testing.T, id, agent, steps string) {
	t.Helper()
	file := fmt.Sprintf(profileOf, "small", steps) + "  agent: " + agent + "\n"
	if _, _, err := f.ApplyProfile(byOps(), "p.yaml", []byte(file)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Create(byOps(), cluster.Request{ID: id, Profile: "small"}); err != nil {
		t.Fatal(err)
	}
}

func stepNames(c cluster.Cluster) (out []string) {
	for _, s := range c.Status.Steps {
		out = append(out, s.Name+" "+s.State)
	}
	return out
}

func TestTheAgentIsTheFirstStep(t *testing.T) {
	f, w, tokens := installing(t)
	f.create(t, "edge", "drover", steps("one"))
	c := f.rest(t, "edge")
	want := []string{"drover.agent/join ready", "drover.agent/agent ready", "profile.small/one ready"}
	if got := stepNames(c); c.Phase != cluster.Waiting || !slices.Equal(got, want) {
		t.Fatalf("it is %s with %v", c.Phase, got)
	}
	if got := w.applied[0]; got.ID != "drover.agent.join" || !strings.Contains(string(got.Body), `"token":"token-1-of-edge"`) || !got.Adopt || !got.Unwatched {
		t.Errorf("first of all it applies %+v", got)
	}
	agent := w.of("drover.agent.agent")
	if len(agent) == 0 || strings.Contains(string(agent[0].Body), "token-1") || !strings.Contains(string(agent[0].Body), `"--server=https://drover.example.org"`) ||
		!strings.Contains(string(agent[0].Body), "/readyz") || !strings.Contains(string(agent[0].Body), `"--trace-endpoint=https://collector.example.org"`) {
		t.Errorf("the agent is %+v", agent)
	}
	// What is kept in the ledger has no token in it.
	kept, err := f.l.Blob(t.Context(), "sha256:"+c.Status.Steps[0].Digest)
	if err != nil || strings.Contains(string(kept), "token-1") {
		t.Errorf("%s, %v", kept, err)
	}

	// Looked at again and again, the token stays the one that was put there.
	for range 3 {
		f.clock = f.clock.Add(time.Hour)
		f.rest(t, "edge")
	}
	if n := len(w.of("drover.agent.join")); *tokens != 1 || n != 1 {
		t.Errorf("%d tokens were made, applied %d times", *tokens, n)
	}
	if n := len(w.of("drover.agent.agent")); n < 4 {
		t.Errorf("the agent itself was looked at %d times", n)
	}
	delete(f.cloud.objects, "drover-join")
	f.clock = f.clock.Add(time.Hour)
	if f.rest(t, "edge"); *tokens != 2 || !f.cloud.objects["drover-join"] {
		t.Errorf("lost, it was not made again: %d tokens", *tokens)
	}
}

func TestTheAgentsRightsFollowTheOfferings(t *testing.T) {
	f, w, _ := installing(t)
	f.create(t, "edge", "drover", "[]")
	f.rest(t, "edge")
	before := len(w.of("drover.agent.agent"))
	sold := dinosaur(t, "")
	sold.Spec.Providers[0].Name, sold.Spec.Providers[0].Regions[0].Name = "aws", "east"
	sold.Spec.Desired = map[string]any{"apiVersion": "eggs.example.org/v1", "kind": "Egg", "metadata": map[string]any{"name": "e"}}
	f.Offerings = shelf{sold}
	f.rest(t, "edge")
	now := w.of("drover.agent.agent")
	if len(now) != before+1 || !strings.Contains(string(now[len(now)-1].Body), `"eggs"`) {
		t.Errorf("applied %d times, then %d", before, len(now))
	}
	// What cannot be told takes nothing away.
	sold.Spec.Desired = map[string]any{"manifests": "${all}"}
	c := f.rest(t, "edge")
	if got := stepNames(c); len(got) != 2 || slices.ContainsFunc(c.Status.Steps, func(s cluster.Step) bool { return s.State == cluster.StepRemoving }) {
		t.Errorf("there are %v", got)
	}
}

func TestAnOutsideAgentIsNotInstalled(t *testing.T) {
	f, w, tokens := installing(t)
	f.create(t, "edge", "outside", steps("one"))
	if c := f.rest(t, "edge"); c.Phase != cluster.Waiting || !slices.Equal(stepNames(c), []string{"profile.small/one ready"}) || *tokens != 0 {
		t.Fatalf("it is %s with %v", c.Phase, stepNames(c))
	}
	// Without its profile nobody can tell whose agent it is.
	if _, err := f.DeleteProfile(byOps(), "small"); err != nil {
		t.Fatal(err)
	}
	f.clock = f.clock.Add(time.Hour)
	if f.rest(t, "edge"); len(w.of("drover.agent.join")) != 0 {
		t.Error("an agent was installed because the profile is gone")
	}
}

// A cluster that is only described with a kubeconfig gets the agent as well; one
// that only an agent reaches does not.
func TestWhoeverIsReachedGetsTheAgent(t *testing.T) {
	f, _, tokens := installing(t)
	f.Makers["standalone"] = there{}
	if _, err := f.Create(byOps(), cluster.Request{ID: "near", Provider: "aws", Region: "east", Kubeconfig: []byte("kubeconfig of near")}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Register(byOps(), "far", cluster.Spec{Provider: "aws", Region: "east"}); err != nil {
		t.Fatal(err)
	}
	if got := stepNames(f.rest(t, "near")); len(got) != 2 || *tokens != 1 {
		t.Errorf("near has %v", got)
	}
	if got := stepNames(f.rest(t, "far")); len(got) != 0 || *tokens != 1 {
		t.Errorf("far has %v", got)
	}
}

// there makes nothing.
type there struct{}

func (there) Ensure(_ context.Context, c provider.Cluster) (provider.Progress, error) {
	return provider.Progress{Done: true, Kubeconfig: c.Kubeconfig}, nil
}

func (there) Remove(context.Context, provider.Cluster) (provider.Progress, error) {
	return provider.Progress{Done: true}, nil
}
