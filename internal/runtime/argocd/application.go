package argocd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

type object = map[string]any

const (
	managedLabel  = "app.kubernetes.io/managed-by"
	managedBy     = "drover"
	databaseLabel = "databaseID"
	secretLabel   = "argocd.argoproj.io/secret-type"
	refreshMark   = "argocd.argoproj.io/refresh"
	digestMark    = "drover.dev/digest"       // of what we wanted when we last wrote it
	nameMark      = "drover.dev/deployment"   // for people who look at it
	refreshedMark = "drover.dev/refresh"      // the last one that was asked for
	comparedMark  = "drover.dev/sync-refresh" // the sync that the repository was last looked at for
	remindedMark  = "drover.dev/reminded"     // when Argo CD was, of what it was asked for
	remindersMark = "drover.dev/reminders"    // how often, since it was asked
	begunMark     = "drover.dev/sync"         // the sync that was last begun
	infoName      = "drover-sync"             // of an operation: the sync that it is
	finalizer     = "resources-finalizer.argocd.argoproj.io"
	inCluster     = "in-cluster"
)

// kind of objects that this runtime makes.
type kind struct {
	schema.GroupVersionResource
	kind string
}

var (
	applications = kind{schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}, "Application"}
	projects     = kind{schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "appprojects"}, "AppProject"}
	secrets      = kind{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret"}
	kinds        = []kind{applications, projects, secrets}
)

// line is how an inventory lists an object.
func (k kind) line(namespace, name string) string {
	return manifest.ID{Group: k.Group, Kind: k.kind, Namespace: namespace, Name: name}.String()
}

// make begins an object of ours.
func (k kind) make(namespace, name string, labels, fields object) *unstructured.Unstructured {
	all := object{managedLabel: managedBy}
	for key, v := range labels {
		all[key] = v
	}
	o := object{"apiVersion": k.GroupVersion().String(), "kind": k.kind,
		"metadata": object{"name": name, "namespace": namespace, "labels": all}}
	for key, v := range fields {
		o[key] = v
	}
	out := &unstructured.Unstructured{Object: o}
	out.SetAnnotations(map[string]string{digestMark: digest(o)})
	return out
}

// digest of what is wanted, so that a change of somebody else is told from one
// of ours.
func digest(o object) string {
	b, _ := json.Marshal(o)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

var labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// label is an id as the value of a label.
func label(id string) string {
	if labelValue.MatchString(id) {
		return id
	}
	return keep.Named("", id)
}

// application is what a deployment comes to in Argo CD. It is pure.
func application(namespace string, d runtime.Deployment) *unstructured.Unstructured {
	src := object{"repoURL": d.Repository, "path": d.Path}
	if d.Revision != "" {
		src["targetRevision"] = d.Revision
	}
	dest := object{"namespace": d.Namespace}
	switch {
	case d.Target != nil:
		dest["name"] = clusterName(d.Target.ID)
	case !d.Detached:
		dest["name"] = inCluster
	}
	spec := object{"project": projectName(d), "source": src, "destination": dest}
	if policy := syncPolicy(d); len(policy) > 0 {
		spec["syncPolicy"] = policy
	}
	app := applications.make(namespace, applicationName(d.UID), object{databaseLabel: label(d.UID)}, object{"spec": spec})
	marks := app.GetAnnotations()
	if d.Name != "" && !odd(d.Name) {
		marks[nameMark] = d.Name
	}
	marks[digestMark] = digest(object{"application": marks[digestMark], "name": marks[nameMark], "detached": d.Detached})
	app.SetAnnotations(marks)
	if !d.Detached {
		app.SetFinalizers([]string{finalizer})
	}
	return app
}

func syncPolicy(d runtime.Deployment) object {
	policy := object{}
	var options []any
	if d.Automated {
		options = append(options, "PrunePropagationPolicy=background")
		policy["automated"] = object{"prune": true, "selfHeal": true, "allowEmpty": true}
		policy["retry"] = object{"limit": int64(-1), "backoff": object{"duration": "5s", "factor": int64(2), "maxDuration": "3m"}}
	}
	for _, o := range d.SyncOptions {
		options = append(options, o)
	}
	if len(options) > 0 {
		policy["syncOptions"] = options
	}
	return policy
}
