package kubeapi

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

// Limits of what is written into a status. The API takes objects of one and a half
// megabytes, of which most must be left to everything else.
const (
	maxResources = 600 << 10 // bytes of the list of resources
	maxResults   = 200 << 10 // bytes of the list of what a sync did
	maxMessage   = 8 << 10   // bytes of a text
)

// truncatedType is the condition that says that not all is listed.
const truncatedType = "ResourcesTruncated"

// deploymentStatus is what a GitOpsDeployment shows. What is there already decides
// only since when not all is listed.
func deploymentStatus(v gitops.DeploymentView, was v1alpha1.GitOpsDeploymentStatus, now time.Time) v1alpha1.GitOpsDeploymentStatus {
	s := v1alpha1.GitOpsDeploymentStatus{
		Sync:           v1alpha1.SyncStatus{Status: v.Sync.Status, Revision: v.Sync.Revision},
		Health:         v1alpha1.HealthStatus{Status: v.Health.Status, Message: short(v.Health.Message)},
		OperationState: operationState(v.Operation),
	}
	for _, c := range v.Conditions {
		s.Conditions = append(s.Conditions, v1alpha1.GitOpsDeploymentCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: short(c.Message),
			// Looking again with the same outcome is not worth a write.
			LastProbeTime: stamp(c.Changed), LastTransitionTime: stamp(c.Changed),
		})
	}
	for _, r := range v.Resources {
		out := v1alpha1.ResourceStatus{
			Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Status: r.Status,
		}
		if r.Health != nil {
			out.Health = &v1alpha1.HealthStatus{Status: r.Health.Status, Message: short(r.Health.Message)}
		}
		s.Resources = append(s.Resources, out)
	}
	if c := v.Compared; c != nil {
		s.ReconciledState = v1alpha1.ReconciledState{
			Source:      v1alpha1.ReconciledSource{RepoURL: c.Repository, Path: c.Path, Branch: c.Revision},
			Destination: v1alpha1.ReconciledDestination{Name: c.Target, Namespace: c.Namespace},
		}
	}
	for _, r := range v.History {
		done := stamp(r.Deployed)
		if done == nil {
			continue // it was none
		}
		s.History = append(s.History, v1alpha1.RevisionHistory{
			ID: r.ID, Revision: r.Revision, Path: r.Path, TargetRevision: r.Asked, Author: short(r.Author), Message: short(r.Message),
			StartedAt: stamp(r.Started), DeployedAt: *done, InitiatedBy: r.By,
		})
	}
	all := len(s.Resources) + v.More
	s.Resources = fit(s.Resources, maxResources, troubled)
	if c, ok := truncated(all, len(s.Resources), was.Conditions, now); ok {
		s.Conditions = append(s.Conditions, c)
	}
	return s
}

// troubled are listed before others where not all can be.
func troubled(r v1alpha1.ResourceStatus) bool {
	return r.Status != "Synced" || r.Health != nil && r.Health.Status != "Healthy"
}

// truncated is the condition about what is not listed, if there is or was any.
func truncated(all, listed int, was []v1alpha1.GitOpsDeploymentCondition, now time.Time) (c v1alpha1.GitOpsDeploymentCondition, ok bool) {
	c = v1alpha1.GitOpsDeploymentCondition{Type: truncatedType, Status: "False", Reason: truncatedType + "Resolved"}
	if listed < all {
		c.Status, c.Reason = "True", truncatedType
		c.Message = fmt.Sprintf("there are %d resources, of which %d are listed, those in trouble first: a status cannot hold more", all, listed)
	}
	c.LastProbeTime = stamp(now)
	c.LastTransitionTime = c.LastProbeTime
	ok = listed < all
	for _, before := range was {
		if before.Type != truncatedType {
			continue
		}
		ok = true
		if before.Status == c.Status && before.Message == c.Message {
			c.LastProbeTime, c.LastTransitionTime = before.LastProbeTime, before.LastTransitionTime
		}
	}
	return c, ok
}

// operationState reads Argo CD's words; nothing if they cannot be shown.
func operationState(raw json.RawMessage) *v1alpha1.OperationState {
	var s v1alpha1.OperationState
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil || s.Phase == "" {
		return nil
	}
	if s.StartedAt.IsZero() { // the field must be there
		if s.FinishedAt == nil {
			return nil
		}
		s.StartedAt = *s.FinishedAt
	}
	s.Message = short(s.Message)
	if s.SyncResult != nil {
		for _, r := range s.SyncResult.Resources {
			if r != nil {
				r.Message = short(r.Message)
			}
		}
		s.SyncResult.Resources = fit(s.SyncResult.Resources, maxResults, func(r *v1alpha1.ResourceResult) bool {
			return r != nil && r.Status != "Synced" && r.Status != "Pruned"
		})
	}
	// Manifests that a sync was handed in place of those in Git may be anything.
	if sync := s.Operation.Sync; sync != nil {
		sync.Manifests = nil
		sync.Resources = fit(sync.Resources, maxResults, func(v1alpha1.SyncOperationResource) bool { return false })
	}
	return &s
}

// syncRunStatus is what a GitOpsDeploymentSyncRun shows.
func syncRunStatus(v gitops.SyncRunView) v1alpha1.GitOpsDeploymentSyncRunStatus {
	s := v1alpha1.GitOpsDeploymentSyncRunStatus{Phase: v.Phase, Message: short(v.Message)}
	for _, c := range v.Conditions {
		s.Conditions = append(s.Conditions, v1alpha1.GitOpsDeploymentSyncRunCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: short(c.Message), LastTransitionTime: stamp(c.Changed),
		})
	}
	if v.Run == nil {
		return s
	}
	s.Revision, s.StartedAt, s.FinishedAt = v.Run.Revision, stamp(v.Run.Started), stamp(v.Run.Finished)
	for _, r := range v.Run.Resources {
		s.Resources = append(s.Resources, v1alpha1.SyncRunResource{
			Group: r.Group, Version: r.Version, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Status: r.Status, Message: short(r.Message),
		})
	}
	all := len(s.Resources)
	s.Resources = fit(s.Resources, maxResources, func(r v1alpha1.SyncRunResource) bool {
		return r.Status != "Synced" && r.Status != "Pruned"
	})
	if n := len(s.Resources); n < all {
		s.Message = strings.TrimSpace(fmt.Sprintf("%s (%d of %d resources are listed)", s.Message, n, all))
	}
	return s
}

// conditions are the domain's as Kubernetes has them, which it refuses without a
// reason or a time.
func conditions(in []gitops.Condition, now time.Time) []metav1.Condition {
	var out []metav1.Condition
	for _, c := range in {
		changed := c.Changed
		if changed.IsZero() {
			changed = now
		}
		status := metav1.ConditionStatus(c.Status)
		if status != metav1.ConditionTrue && status != metav1.ConditionFalse {
			status = metav1.ConditionUnknown
		}
		reason := c.Reason
		if !reasons.MatchString(reason) {
			reason = c.Type
		}
		out = append(out, metav1.Condition{
			Type: c.Type, Status: status, Reason: reason, Message: short(c.Message), LastTransitionTime: *stamp(changed),
		})
	}
	return out
}

var reasons = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// stamp is a time as the API keeps it; nil for none.
func stamp(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t.UTC().Truncate(time.Second))
	return &out
}

// short cuts a text between two characters.
func short(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	cut := maxMessage - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// fit leaves of a list what goes into so many bytes of JSON: those that come first
// by preference, in the order that they had.
func fit[T any](list []T, bytes int, first func(T) bool) []T {
	sizes, total := make([]int, len(list)), 0
	for i, item := range list {
		data, err := json.Marshal(item)
		if err != nil {
			continue // of what was made here
		}
		sizes[i] = len(data) + 1
		total += sizes[i]
	}
	if total <= bytes {
		return list
	}
	keep, left := make([]bool, len(list)), bytes
	for _, preferred := range []bool{true, false} {
		for i, item := range list {
			if first(item) == preferred && sizes[i] <= left {
				keep[i] = true
				left -= sizes[i]
			}
		}
	}
	var out []T
	for i, item := range list {
		if keep[i] {
			out = append(out, item)
		}
	}
	return out
}
