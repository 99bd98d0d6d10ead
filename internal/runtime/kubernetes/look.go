package kubernetes

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// look tells what has become of an item.
func (s *shift) look(ctx context.Context, rec keep.Record, doc document, p plan) (runtime.Observed, error) {
	check := manifest.Checking{Inventory: p.own, Ready: doc.Ready, Versions: map[string]string{}}
	for _, m := range doc.Manifests {
		u := unstructured.Unstructured{Object: m}
		gvk := u.GroupVersionKind()
		check.Versions[gvk.Group+"/"+gvk.Kind] = gvk.Version
	}
	health, err := s.r.cluster.Health(ctx, check)
	if err != nil {
		return runtime.Observed{}, err
	}
	seen := assess(rec, doc, health)
	if seen.State == runtime.Ready || seen.State == runtime.Installing {
		if err := s.r.locate(ctx, p.routes, &seen); err != nil {
			return runtime.Observed{}, err
		}
	}
	if seen.State == runtime.Installing || seen.State == runtime.Error {
		if event := s.event(ctx, p); event != "" {
			seen.Message = strings.TrimSuffix(seen.Message, ".") + "; newest warning: " + event
		}
	}
	if rec.Kind == runtime.KindDeployment {
		m := remember(rec.Own)
		if doc.manual() && !m.asked(doc) { // how it is doing is nobody's work
			seen.State, seen.Message = runtime.Ready, ""
		}
		seen.Detail, err = deployed(doc, health, s.found(rec.ID), m)
	}
	return seen, err
}

// assess turns the health of an item's objects into its state. It is pure.
func assess(rec keep.Record, doc document, health manifest.Health) runtime.Observed {
	seen := runtime.Observed{ID: rec.ID, Kind: rec.Kind, Generation: rec.Generation, Message: health.Message, Versions: rec.Seen.Versions}
	switch {
	case health.Ready:
		seen.State, seen.Message = runtime.Ready, ""
	case health.Failed:
		seen.State = runtime.Error
	default:
		seen.State = runtime.Installing
	}
	if doc.bare && len(health.Objects) == 1 {
		report(&seen, health.Objects[0].Content)
	} else if doc.Versions != nil && seen.State == runtime.Ready {
		seen.Versions = doc.Versions
	}
	if doc.Suspended && seen.State == runtime.Ready {
		seen.State, seen.Routes = runtime.Suspended, nil
	}
	return seen
}

// report reads what an object of an operator tells about itself: conditions,
// versions and routes of its status.
func report(seen *runtime.Observed, object map[string]any) {
	if object == nil {
		return
	}
	conditions, _, _ := unstructured.NestedSlice(object, "status", "conditions")
	var ready *runtime.Condition
	for _, c := range conditions {
		m, _ := c.(map[string]any)
		cond := runtime.Condition{Type: text(m, "type"), Status: text(m, "status"), Reason: text(m, "reason"), Message: text(m, "message")}
		if cond.Type == "" {
			continue
		}
		seen.Conditions = append(seen.Conditions, cond)
		if cond.Type == "Ready" {
			ready = &cond
		}
	}
	switch {
	case ready != nil && ready.Status != "True":
		seen.State, seen.Message = unready(ready.Reason), firstText(ready.Message, ready.Reason, seen.Message)
	case ready == nil && custom(object) && seen.State == runtime.Ready:
		// Nobody has looked at it yet: its operator tells when it is ready.
		seen.State, seen.Message = runtime.Installing, "its operator has not said yet that it is ready"
	}
	if versions, ok, _ := unstructured.NestedMap(object, "status", "versions"); ok {
		seen.Versions = map[string]string{}
		for name, v := range versions {
			if s, ok := v.(string); ok && s != "" {
				seen.Versions[name] = s
			}
		}
	}
	routes, _, _ := unstructured.NestedSlice(object, "status", "routes")
	for _, r := range routes {
		m, _ := r.(map[string]any)
		host, address := firstText(text(m, "host"), text(m, "domain")), firstText(text(m, "address"), text(m, "router"))
		if host != "" && address != "" {
			if seen.Routes == nil {
				seen.Routes = map[string]string{}
			}
			seen.Routes[host] = address
		}
	}
}

// unready is the state that the reason of a Ready condition means.
func unready(reason string) runtime.State {
	switch {
	case reason == "Error" || reason == "Failed":
		return runtime.Error
	case strings.HasPrefix(reason, "Rejected"):
		return runtime.Rejected
	case reason == "Suspended":
		return runtime.Suspended
	}
	return runtime.Installing
}

// custom reports whether an object is of a kind that Kubernetes itself does not have.
func custom(object map[string]any) bool {
	group, _ := schema.ParseGroupVersion(text(object, "apiVersion"))
	return strings.Contains(group.Group, ".") && !strings.HasSuffix(group.Group, ".k8s.io")
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

func firstText(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

// event returns the newest warning about an item's objects: in a namespace of
// its own about anything, elsewhere about what is called like one of its objects.
func (s *shift) event(ctx context.Context, p plan) string {
	own := slices.Contains(p.inventory, manifest.ID{Kind: "Namespace", Name: p.home}.String())
	names := map[string][]string{}
	for _, line := range p.inventory {
		if id, err := manifest.Parse(line); err == nil && id.Namespace != "" {
			names[id.Namespace] = append(names[id.Namespace], id.Name)
		}
	}
	var newest corev1.Event
	for namespace, mine := range names {
		var events corev1.EventList
		call, stop := context.WithTimeout(ctx, keep.CallTimeout)
		err := s.r.cluster.Kube().List(call, &events, client.InNamespace(namespace), client.MatchingFields{"type": corev1.EventTypeWarning}, client.Limit(500))
		stop()
		if err != nil {
			continue // a message without it is better than none
		}
		for _, ev := range events.Items {
			about := ev.InvolvedObject.Name
			ours := own && namespace == p.home || slices.ContainsFunc(mine, func(n string) bool { return about == n || strings.HasPrefix(about, n+"-") })
			if ours && when(ev).After(when(newest)) {
				newest = ev
			}
		}
	}
	if newest.Message == "" {
		return ""
	}
	words := strings.Join(strings.Fields(newest.Message), " ")
	if r := []rune(words); len(r) > 200 {
		words = string(r[:197]) + "..."
	}
	return newest.InvolvedObject.Kind + " " + newest.InvolvedObject.Name + ": " + words
}

func when(ev corev1.Event) time.Time {
	switch {
	case ev.Series != nil && !ev.Series.LastObservedTime.IsZero():
		return ev.Series.LastObservedTime.Time
	case !ev.LastTimestamp.IsZero():
		return ev.LastTimestamp.Time
	case !ev.EventTime.IsZero():
		return ev.EventTime.Time
	}
	return ev.CreationTimestamp.Time
}
