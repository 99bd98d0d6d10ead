package argocd

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// Applications are those in Argo CD's namespace.
func (s *Server) Applications() dynamic.ResourceInterface {
	return s.client.Resource(applications).Namespace(s.Namespace)
}

// ApplicationsIn are those in another namespace.
func (s *Server) ApplicationsIn(namespace string) dynamic.ResourceInterface {
	return s.client.Resource(applications).Namespace(namespace)
}

// Projects are its AppProjects.
func (s *Server) Projects() dynamic.ResourceInterface {
	return s.client.Resource(projects).Namespace(s.Namespace)
}

// waiting bounds what takes a second or two on a machine that has nothing else to do: it
// is longer than what Argo CD waits before it looks again by itself.
const waiting = 4 * time.Minute

// Wait returns an Application of Argo CD's namespace once it is as the question
// asks; nil is given where there is none. What says what is waited for.
func (s *Server) Wait(t testing.TB, name, what string, is func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	return WaitFor(t, s.Applications(), name, what, is)
}

// WaitFor is Wait for any object.
func WaitFor(t testing.TB, in dynamic.ResourceInterface, name, what string, is func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waiting)
	defer cancel()
	var last *unstructured.Unstructured
	only := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	for ctx.Err() == nil { // a watch ends with its server
		list, err := in.List(ctx, only)
		if err != nil {
			pause(ctx)
			continue
		}
		last = nil
		if len(list.Items) > 0 {
			last = &list.Items[0]
		}
		if is(last) {
			return last
		}
		w, err := in.Watch(ctx, metav1.ListOptions{FieldSelector: only.FieldSelector, ResourceVersion: list.GetResourceVersion()})
		if err != nil {
			pause(ctx)
			continue
		}
		for e := range w.ResultChan() {
			object, known := e.Object.(*unstructured.Unstructured)
			if !known || e.Type == watch.Error {
				break
			}
			if last = object; e.Type == watch.Deleted {
				last = nil
			}
			if is(last) {
				w.Stop()
				return last
			}
		}
		w.Stop()
	}
	seen := "there is none"
	if last != nil {
		unstructured.RemoveNestedField(last.Object, "metadata", "managedFields")
		text, _ := yaml.Marshal(last.Object)
		seen = string(text)
	}
	t.Fatalf("%s: not %s after %s; it is:\n%s", name, what, waiting, seen)
	return nil
}

// pause is between questions to a server that does not answer.
func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(100 * time.Millisecond):
	}
}

// Is is the question whether fields ("status.sync.status") have values.
func Is(want map[string]string) func(*unstructured.Unstructured) bool {
	return func(object *unstructured.Unstructured) bool {
		if object == nil {
			return false
		}
		for path, value := range want {
			if Field(object, path) != value {
				return false
			}
		}
		return true
	}
}

// Field is a text in an object, or empty.
func Field(object *unstructured.Unstructured, path string) string {
	text, _, _ := unstructured.NestedString(object.Object, strings.Split(path, ".")...)
	return text
}

// Synced is the question whether an Application has brought a commit to its
// cluster, and all is well there.
func Synced(commit string) func(*unstructured.Unstructured) bool {
	return Is(map[string]string{"status.sync.status": "Synced", "status.health.status": "Healthy", "status.sync.revision": commit})
}
