package gitops

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/runtime"
)

// Runtimes that carry deployments out.
const (
	argocd     = "argocd"
	kubernetes = "kubernetes"
	simulated  = "simulated" // takes whatever argocd does
)

// deploys reports whether a runtime can carry deployments out.
func deploys(kind string) bool { return kind == argocd || kind == kubernetes || kind == simulated }

// Words of Argo CD.
const (
	synced    = "Synced"
	outOfSync = "OutOfSync"
	unknown   = "Unknown"
	healthy   = "Healthy"
	degraded  = "Degraded"
	suspended = "Suspended"

	errorOccurred = "ErrorOccurred"
	agentSilent   = "AgentSilent"
	isTrue        = "True"
	isFalse       = "False"
)

// deployed is what was seen of it, as Argo CD words it.
func (s *Status) deployed() (d runtime.Deployed) {
	if o := s.Observed; o != nil && o.Engine == s.Engine && len(o.Detail) > 0 {
		if json.Unmarshal(o.Detail, &d) != nil {
			d = runtime.Deployed{}
		}
	}
	s.complete(&d)
	return d
}

// complete adds what the control plane knows itself, where it reads the repository:
// what became of that, which commit it is, and how a sync run goes. A runtime that
// words nothing is spoken for by its state.
func (s *Status) complete(d *runtime.Deployed) {
	if s.Unread != "" {
		d.Conditions = append(d.Conditions, runtime.DeployedCondition{Type: "ComparisonError", Message: s.Unread})
	}
	if s.Quiet != "" {
		d.Conditions = append(d.Conditions, runtime.DeployedCondition{Type: agentSilent, Message: s.Quiet})
	}
	if s.Lost != nil && s.Lost.ID == s.Run {
		d.Run = s.Lost
	}
	o := s.Observed
	if s.Runtime != kubernetes || o == nil || o.Engine != s.Engine {
		return
	}
	state, current := runtime.State(o.State), o.Generation == s.Issued
	if len(o.Detail) == 0 {
		d.Sync.Status = outOfSync
		if current && state == runtime.Ready {
			d.Sync.Status = synced
		}
		switch state {
		case runtime.Ready:
			d.Health.Status = healthy
		case runtime.Error:
			d.Health = runtime.HealthStatus{Status: degraded, Message: o.Message}
		case runtime.Suspended:
			d.Health.Status = suspended
		default:
			d.Health = runtime.HealthStatus{Status: "Progressing", Message: o.Message}
		}
	}
	d.Sync.Revision = cmp.Or(d.Sync.Revision, s.Commit)
	if d.Sync.Status == synced && cmp.Or(s.Head, s.Commit) != s.Commit {
		d.Sync.Status = outOfSync
	}
	if told := d.Run != nil && d.Run.ID == s.Run; s.Sync != nil && s.Run == s.Sync.ID && current && s.Lost == nil && !told {
		d.Run = s.ran(state, o.Message)
	}
}

// ran is how a sync run goes where the control plane reads the repository itself, and
// an agent of before says nothing of it: it is over when the data plane has what it made.
func (s *Status) ran(state runtime.State, message string) *runtime.SyncRun {
	if !strings.HasSuffix(s.Made, " "+s.Sync.ID) {
		return nil // the body is of another one
	}
	r := &runtime.SyncRun{ID: s.Sync.ID, Phase: "Running", Revision: s.Commit, Message: message, Started: s.Looked}
	switch state {
	case runtime.Ready, runtime.Suspended:
		r.Phase = "Succeeded"
	case runtime.Error, runtime.Rejected:
		r.Phase = "Failed"
	}
	return r
}

// current reports whether the agent has said something of what it was last told.
func (s *Status) current() bool {
	return s.Observed != nil && s.Issued > 0 && s.Observed.Engine == s.Engine && s.Observed.Generation >= s.Issued
}

// heard reports whether its agent has ever said anything of it.
func (s *Status) heard() bool { return s.Observed != nil && s.Observed.Engine == s.Engine }

// quiet is what is to be said of the agent of the engine that has it.
func (f *Facts) quiet(engine string) string {
	for _, e := range []*Engine{f.Engine, f.Held} {
		if e != nil && e.ID == engine && e.Quiet != "" {
			return fmt.Sprintf("cluster %s: %s. What is told here is from before that", e.ID, e.Quiet)
		}
	}
	return ""
}

// settle draws the conclusions from what is asked for and what was seen:
// conditions, phase and history. It is pure, and changes nothing the second time.
func (d *Deployment) settle(now time.Time) {
	seen := d.Status.deployed()
	d.Status.Conditions = merge(d.Status.Conditions, append(seen.Conditions, d.lingers(now)...), d.errorText(), now)
	before := d.Status.History
	d.Status.History = remember(before, append(seen.History, d.Status.applied(now)...))
	d.Status.ascribe(before)
	if phase := d.phase(seen); phase != d.Phase {
		d.Phase, d.Status.Since = phase, now.UTC()
	}
}

// lingers is what a removal waits for that takes long: the agent's word on it.
func (d *Deployment) lingers(now time.Time) []runtime.DeployedCondition {
	s := &d.Status
	why := ""
	switch {
	case !d.Spec.Deleted || now.Sub(s.Since) < lingerAfter:
	case s.Released && !s.Remove && !s.letGo():
		why = fmt.Sprintf("the agent of cluster %s has not let go of it: it is away, or too old to know how", s.Engine)
		if s.current() && s.Observed.Message != "" {
			why = s.Observed.Message
		}
	case s.Remove && s.current() && !s.removed() && s.Observed.Message != "":
		why = s.Observed.Message
		if strings.HasPrefix(why, runtime.Unremovable) && !d.Spec.Keep {
			why += fmt.Sprintf(". `drover deploy delete %s --keep` forgets it, and leaves what was deployed as it is", d.Name)
		}
	}
	if why == "" {
		return nil
	}
	return []runtime.DeployedCondition{{Type: "DeletionError", Message: why}}
}

// applied is the revision that the data plane has just come to have, where the
// control plane reads the repository itself.
func (s *Status) applied(now time.Time) []runtime.DeployedRevision {
	if s.Runtime != kubernetes || !s.current() || runtime.State(s.Observed.State) != runtime.Ready || s.Commit == "" || s.compares() {
		return nil
	}
	r := runtime.DeployedRevision{ID: 1, Revision: s.Commit, Started: s.Looked, Deployed: now.UTC(), By: automatically}
	if c := s.deployed().Compared; c != nil {
		r.Repository, r.Path, r.Asked = c.Repository, c.Path, c.Revision
	}
	if n := len(s.History); n > 0 {
		if same(s.History[n-1].DeployedRevision, r) {
			return nil
		}
		r.ID = s.History[n-1].ID + 1
	}
	if s.Sync != nil && strings.HasSuffix(s.Made, " "+s.Sync.ID) {
		r.By = s.Sync.ID
	}
	return []runtime.DeployedRevision{r}
}

// same reports whether two revisions are the same manifests, as far as is known of
// where they were read.
func same(a, b runtime.DeployedRevision) bool {
	return a.Revision == b.Revision && (a.Path == b.Path || a.Path == "" || b.Path == "") && (a.Repository == b.Repository || a.Repository == "" || b.Repository == "")
}

// errorText is the trouble on our side and on the agent's, for the user.
func (d *Deployment) errorText() string {
	if d.Spec.Invalid == "" && d.Spec.Origin != nil && d.Status.Told != "" {
		return d.Status.Told
	}
	if text := cmp.Or(d.Spec.Invalid, d.Status.Error); text != "" {
		return text
	}
	o := d.Status.Observed
	told := slices.DeleteFunc(d.Status.deployed().Conditions, func(c runtime.DeployedCondition) bool { return c.Type == agentSilent })
	if d.Status.current() && failed(o) && len(told) == 0 {
		return cmp.Or(o.Message, "the agent reports a failure without a reason")
	}
	return ""
}

func (d *Deployment) phase(seen runtime.Deployed) string {
	switch {
	case !d.Object.Deleted.IsZero():
		return Gone
	case d.Spec.Deleted:
		return Deleting
	case d.Spec.Invalid != "":
		return Failed
	case len(d.Spec.To.Selector) > 0:
		return d.Status.Tally.phase(d.Status.Error != "" && !d.Status.Patient)
	case d.Status.Issued == 0 || d.Status.Engine == "" || d.Status.Remove:
		if d.Status.Unread != "" || d.Status.Error != "" && !d.Status.Patient {
			return Failed
		}
		return Pending
	case d.Status.Error != "" && !d.Status.Patient:
		return Failed
	case !d.Status.current() && !(d.Status.compares() && d.Status.heard()):
		return Deploying
	case failed(d.Status.Observed), seen.Health.Status == degraded, slices.ContainsFunc(seen.Conditions, grave):
		return Failed
	case seen.Sync.Status == outOfSync && !d.Spec.Automated:
		return OutOfSync
	case seen.Sync.Status == synced && (seen.Health.Status == healthy || seen.Health.Status == suspended):
		return Deployed
	}
	return Deploying
}

// phase of a deployment to many clusters.
func (t *Tally) phase(trouble bool) string {
	switch {
	case trouble || t != nil && t.Failed > 0:
		return Failed
	case t == nil || t.Total == 0:
		return Pending
	case t.Deployed == t.Total:
		return Deployed
	}
	return Deploying
}

// failed reports whether the agent cannot, or will not, carry it out.
func failed(o *Observed) bool {
	return runtime.State(o.State) == runtime.Error || runtime.State(o.State) == runtime.Rejected
}

// grave is a condition that stands in the way. Warnings do not; nor does the word
// that one part of Argo CD does not reach another, as whenever one is restarted: it
// says nothing about the deployment, and passes by itself.
func grave(c runtime.DeployedCondition) bool {
	return strings.HasSuffix(c.Type, "Error") && !strings.Contains(c.Message, "rpc error: code = Unavailable desc = connection error")
}

// merge takes over what is so now. What is so no longer is resolved, never removed.
func merge(list []Condition, now []runtime.DeployedCondition, trouble string, at time.Time) []Condition {
	texts, order := map[string]string{}, []string{}
	for _, c := range now {
		if old, ok := texts[c.Type]; !ok {
			order = append(order, c.Type)
			texts[c.Type] = c.Message
		} else if !strings.Contains(old, c.Message) {
			texts[c.Type] = old + "; " + c.Message
		}
	}
	delete(texts, errorOccurred) // is ours
	if trouble != "" {
		texts[errorOccurred] = trouble
	}
	out := slices.Clone(list)
	for i, c := range out {
		want := Condition{Type: c.Type, Status: isFalse, Reason: c.Type + "Resolved"}
		if text, ok := texts[c.Type]; ok {
			want.Status, want.Reason, want.Message = isTrue, c.Type, text
			delete(texts, c.Type)
		}
		if want.Status != c.Status || want.Reason != c.Reason || want.Message != c.Message {
			want.Changed = at.UTC()
			out[i] = want
		}
	}
	for _, kind := range append([]string{errorOccurred}, order...) {
		if text, ok := texts[kind]; ok && len(out) < maxConditions {
			out = append(out, Condition{Type: kind, Status: isTrue, Reason: kind, Message: text, Changed: at.UTC()})
			delete(texts, kind)
		}
	}
	return out
}

const (
	maxConditions = 32
	maxHistory    = 30
	automatically = "automated" // who has synced, where nobody asked for it
)

// is reports whether two are of the same sync.
func (r *Revision) is(other Revision) bool {
	return r.ID == other.ID && r.Revision == other.Revision && r.Deployed.Equal(other.Deployed)
}

// remember adds what is new to the history, and what is known of its commits.
func remember(list []Revision, seen []runtime.DeployedRevision) []Revision {
	out := slices.Clone(list)
	for _, r := range seen {
		if one := (Revision{DeployedRevision: r}); !slices.ContainsFunc(out, one.is) {
			out = append(out, one)
		}
	}
	slices.SortStableFunc(out, func(a, b Revision) int { return a.Deployed.Compare(b.Deployed) })
	return out[max(0, len(out)-maxHistory):]
}
