package kubeapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

// What a status turns out to be when it is seen.
const (
	told    = "told"    // written by a replica of ours, and as it was written
	empty   = "empty"   // nobody wrote one yet, or somebody cleared it
	damaged = "damaged" // somebody else changed it
)

// verdictKey is where a cached object has the verdict on its status in place of the
// status. The API takes no annotation of such a name, so it cannot be somebody's.
const verdictKey = "\x00verdict"

// phaseKey is likewise where it has the phase of a sync run, as we have told it.
const phaseKey = "\x00phase"

// statusOf returns the status of a custom resource and its digest, for changing;
// nil for other objects.
func statusOf(o client.Object) (status any, digest *string) {
	switch o := o.(type) {
	case *v1alpha1.GitOpsDeployment:
		return &o.Status, &o.Status.Digest
	case *v1alpha1.GitOpsDeploymentSyncRun:
		return &o.Status, &o.Status.Digest
	case *v1alpha1.GitOpsDeploymentRepositoryCredential:
		return &o.Status, &o.Status.Digest
	case *v1alpha1.GitOpsDeploymentManagedEnvironment:
		return &o.Status, &o.Status.Digest
	}
	return nil, nil
}

// seal writes the digest of a status into it and returns it.
func seal(o client.Object) (string, error) {
	status, digest := statusOf(o)
	*digest = ""
	data, err := json.Marshal(status)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	*digest = hex.EncodeToString(sum[:16])
	return *digest, nil
}

// judge looks at a status without changing it. Every replica comes to the same
// verdict, whoever wrote it.
func judge(o client.Object) string {
	_, digest := statusOf(o)
	if digest == nil {
		return told
	}
	was := *digest
	defer func() { *digest = was }()
	now, err := seal(o)
	switch {
	case err == nil && was == now:
		return told
	case was == "" && now == nothing(o):
		return empty
	}
	return damaged
}

// nothing is the digest of an empty status.
func nothing(o client.Object) string {
	fresh := o.DeepCopyObject().(client.Object)
	clearStatus(fresh)
	d, _ := seal(fresh)
	return d
}

func clearStatus(o client.Object) {
	switch o := o.(type) {
	case *v1alpha1.GitOpsDeployment:
		o.Status = v1alpha1.GitOpsDeploymentStatus{}
	case *v1alpha1.GitOpsDeploymentSyncRun:
		o.Status = v1alpha1.GitOpsDeploymentSyncRunStatus{}
	case *v1alpha1.GitOpsDeploymentRepositoryCredential:
		o.Status = v1alpha1.GitOpsDeploymentRepositoryCredentialStatus{}
	case *v1alpha1.GitOpsDeploymentManagedEnvironment:
		o.Status = v1alpha1.GitOpsDeploymentManagedEnvironmentStatus{}
	}
}

// slim is what is kept of a custom resource in memory: its spec, and of its status
// the verdict alone, and the phase of a sync run. It may be handed what it made itself.
func slim(in any) (any, error) {
	o, ok := in.(client.Object)
	if !ok {
		return in, nil
	}
	if _, done := o.GetAnnotations()[verdictKey]; done {
		return o, nil
	}
	kept := map[string]string{verdictKey: judge(o)}
	if run, ok := o.(*v1alpha1.GitOpsDeploymentSyncRun); ok && kept[verdictKey] == told {
		kept[phaseKey] = run.Status.Phase
	}
	clearStatus(o)
	o.SetManagedFields(nil)
	o.SetAnnotations(kept)
	return o, nil
}

func verdictOf(o client.Object) string { return o.GetAnnotations()[verdictKey] }
