package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
)

// AgentHealth is the port where agents on clusters say that they are well.
const AgentHealth = 8081

// Installs is what Drover's own agents are put on clusters with that the control
// plane reaches.
type Installs struct {
	Server string // URL that they connect to
	Image  string
	Trace  string // URL of the collector of their traces; empty: none
	// TLSSecret and Plaintext are those of [InstallConfig].
	TLSSecret string
	Plaintext bool
	// Token makes one that the agent of a cluster connects with first.
	Token func(ctx context.Context, clusterID string) (string, error)
}

// The agent is two steps, before all others. What it connects with is put there
// once and left alone: it is given other tokens by the protocol.
const (
	agentSource = "drover.agent" // no offering can have a name with a dot
	joinStep    = agentSource + "/join"
	agentStep   = agentSource + "/agent"
	secretJoin  = "join"
)

// agentBodies are the bodies of the agent's steps; nil where another speaks for
// the cluster. known is false where that cannot be told: its profile is gone.
func (s *Service) agentBodies(c Cluster, profile *compiled) (out []offering.StepBody, known bool, err error) {
	switch {
	case s.Installs == nil || !s.reaches(c):
		return nil, false, nil
	case profile == nil && c.Spec.Profile != "":
		return nil, false, nil
	case profile != nil && profile.Agent == AgentOutside:
		return nil, true, nil
	}
	var applied []Applied
	if s.Offerings != nil {
		for _, off := range s.Offerings.List() {
			if of := "offering " + off.Metadata.Name; c.Spec.isFor(off) {
				applied = append(applied, Applied{of + ", desired", off.Spec.Desired}, Applied{of + ", reserved", off.Spec.Reserved})
			}
		}
	}
	rules, err := Rules(applied) // steps are not the agent's work here
	if err != nil {
		return nil, false, err
	}
	stream, err := Install(InstallConfig{
		Server: s.Installs.Server, Cluster: c.ID, Token: offering.Secret(secretJoin), Image: s.Installs.Image, Rules: rules, Health: AgentHealth, Trace: s.Installs.Trace,
		TLSSecret: s.Installs.TLSSecret, Plaintext: s.Installs.Plaintext,
	})
	if err != nil {
		return nil, false, err
	}
	var join, rest []map[string]any
	for i, part := range bytes.Split(stream, []byte("\n---\n")) {
		var object map[string]any
		if err := document.Read(fmt.Sprintf("agent %d", i), part, document.Form{Kind: "agent"}, &object, func(*document.File) {}); err != nil {
			return nil, false, fault.New(fault.Internal, "cannot read the agent's manifests: %w", err)
		}
		if kind := object["kind"]; kind == "Namespace" || kind == "Secret" {
			join = append(join, object)
		} else {
			rest = append(rest, object)
		}
	}
	for _, step := range []struct {
		name      string
		needs     []string
		manifests []map[string]any
	}{{"join", nil, join}, {"agent", []string{"join"}, rest}} {
		body, err := json.Marshal(map[string]any{"manifests": step.manifests})
		if err != nil {
			return nil, false, err
		}
		out = append(out, offering.StepBody{Name: step.name, Needs: step.needs, Body: body})
	}
	return out, true, nil
}

// bring puts on a cluster what its agent connects with, where that is missing.
// A token is made only then.
func (r *run) bring(ctx context.Context, kubeconfig []byte, step Step) (StepResult, error) {
	missing, err := r.Terraformer.Missing(ctx, kubeconfig, step.Inventory)
	if err != nil || len(missing) == 0 && len(step.Inventory) > 0 {
		return StepResult{Ready: err == nil, Inventory: step.Inventory}, err
	}
	item, err := r.item(ctx, r.c, step)
	if err != nil {
		return StepResult{}, err
	}
	return r.Terraformer.Apply(ctx, kubeconfig, item, step.Inventory)
}
