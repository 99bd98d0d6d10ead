package argocd

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
)

// Two deployments of one object take it from each other, and Argo CD warns only the one
// that has just lost it, until that takes it back: each warning comes and goes, and who
// has won for now hears nothing. So both are told for as long as one of them is warned.

const (
	sharedWarning = "SharedResourceWarning"
	sharedWords   = " is part of applications "
	bySharer      = "sharer"
)

// sharing is such a warning: the object, the Application that is warned, as Argo CD
// calls it, and the name of the other one.
type sharing struct{ object, app, other string }

// sharings are the warnings that an Application has. It is pure.
func sharings(app *unstructured.Unstructured) (all []sharing) {
	if app == nil {
		return nil
	}
	conditions, _, _ := unstructured.NestedFieldNoCopy(app.Object, "status", "conditions")
	list, _ := conditions.([]any)
	for _, one := range list {
		c, _ := one.(map[string]any)
		if c["type"] != sharedWarning {
			continue
		}
		text, _ := c["message"].(string)
		object, both, _ := strings.Cut(text, sharedWords)
		is, other, ok := strings.Cut(both, " and ")
		if ok {
			all = append(all, sharing{object, is, other[strings.LastIndexAny(other, "/_")+1:]})
		}
	}
	return all
}

// sharers are the others that an Application is warned of, for the index.
func sharers(obj any) (names []string, _ error) {
	for _, w := range sharings(as(obj)) {
		names = append(names, w.other)
	}
	return names, nil
}

// warnings are those of the others that are about an Application, in the words that it
// would have them in itself. Those of another project are not its business: whoever can
// label an object could write into anybody's status. It is pure.
func warnings(app *unstructured.Unstructured, others []*unstructured.Unstructured) (all []runtime.DeployedCondition) {
	for _, o := range others {
		if o.GetName() == app.GetName() || project(o) != project(app) {
			continue
		}
		for _, w := range sharings(o) {
			if w.other == app.GetName() {
				all = append(all, runtime.DeployedCondition{Type: sharedWarning,
					Message: w.object + sharedWords + app.GetNamespace() + "/" + app.GetName() + " and " + o.GetName()})
			}
		}
	}
	return all
}

func project(app *unstructured.Unstructured) string {
	name, _, _ := unstructured.NestedString(app.Object, "spec", "project")
	return name
}

// warned are the warnings of others about an Application.
func (s *shift) warned(app *unstructured.Unstructured) []runtime.DeployedCondition {
	if app == nil {
		return nil
	}
	found, err := s.caches[applications].GetIndexer().ByIndex(bySharer, app.GetName())
	if err != nil {
		return nil
	}
	others := make([]*unstructured.Unstructured, 0, len(found))
	for _, o := range found {
		others = append(others, as(o))
	}
	return warnings(app, others)
}

// pass has those look whom an Application's warnings were about, or are now.
func (s *shift) pass(before, after *unstructured.Unstructured) {
	was, is := sharings(before), sharings(after)
	if before != nil && after != nil && slices.Equal(was, is) && project(before) == project(after) {
		return
	}
	for _, w := range append(was, is...) {
		if id, ours := s.needs.application(w.other); ours {
			s.lookSoon(id)
		}
	}
}
