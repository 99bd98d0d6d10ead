package argocd

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
)

// syncError is how Argo CD calls a sync that has failed, once it tries no more.
const syncError = "SyncError"

// retrying stands between why a sync has failed and when it is tried again.
const retrying = ". Retrying attempt #"

// trouble is why an automated sync fails that is tried again and again, which Argo
// CD tells in no condition; empty: it does not. While it is being tried again that
// is what was known before, or the condition would come and go. What fails of a
// sync that was asked for is told in that.
func trouble(st argocdState, before string) string {
	o := st.OperationState
	if o == nil || o.Phase != "Running" || o.RetryCount == 0 || o.Operation.sync() != "" {
		return ""
	}
	if why, _, waits := strings.Cut(o.Message, retrying); waits { // without the time of the next one
		return short(why, 4000)
	}
	return before
}

// overtaken reports whether an automated sync is tried again and again that nobody
// wants any more: Git has another commit by now, the deployment reads elsewhere, or
// waits to be asked. Argo CD holds to the first one until that is out of tries,
// which has no end. What is just being tried is let be.
func overtaken(st argocdState, automated bool) bool {
	o := st.OperationState
	if o == nil || o.Phase != "Running" || o.RetryCount == 0 || !o.Operation.InitiatedBy.Automated || !strings.Contains(o.Message, retrying) {
		return false
	}
	is, tried := st.Sync, o.Operation.Sync
	known := is.Revision != "" && is.Status != "Unknown"
	moved := tried.Source.RepoURL != "" && is.ComparedTo.Source != tried.Source
	return !automated || known && (is.Revision != tried.Revision || moved)
}

// refit gives an automated sync that waits to be tried again the options that the
// Application has by now; false: it has them. Argo CD holds to those that it began with,
// so that what was changed for its sake would never come to it.
func refit(app *unstructured.Unstructured) bool {
	o := view(app).Status.OperationState
	if o == nil || o.Phase != "Running" || o.RetryCount == 0 || !o.Operation.InitiatedBy.Automated || !strings.Contains(o.Message, retrying) {
		return false
	}
	want, _, err := unstructured.NestedStringSlice(app.Object, "spec", "syncPolicy", "syncOptions")
	if err != nil || slices.Equal(want, o.Operation.Sync.SyncOptions) {
		return false
	}
	return unstructured.SetNestedStringSlice(app.Object, want, "status", "operationState", "operation", "sync", "syncOptions") == nil
}

// beset adds the trouble to the conditions, unless Argo CD tells it itself.
func beset(conditions []runtime.DeployedCondition, why string) []runtime.DeployedCondition {
	if why == "" || slices.ContainsFunc(conditions, func(c runtime.DeployedCondition) bool { return c.Type == syncError }) {
		return conditions
	}
	return append(conditions, runtime.DeployedCondition{Type: syncError, Message: why})
}

// unheard reports whether a condition is of a moment in which Argo CD has heard of
// an Application and not yet of its project, which is made before it and kept:
// nobody is to take that for a failure.
func unheard(c runtime.DeployedCondition) bool {
	return c.Type == "InvalidSpecError" && strings.HasPrefix(c.Message, "Application referencing project app-project-") && strings.HasSuffix(c.Message, " which does not exist")
}
