//go:build e2e

package dataplane_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
)

// objects is everything on a cluster, by kind and name, with the identity that it
// has: what is removed and made again is another object.
type objects map[string]string

// look lists every kind that the cluster serves, once what controllers add to
// namespaces by themselves is there. What passes by itself (events, leases) and what
// the agent keeps for itself is left out.
func look(t *testing.T, k *kubernetes.Cluster) (out objects) {
	t.Helper()
	var err error
	defer func() {
		if err != nil {
			t.Log(err)
		}
	}()
	drover.Until(t, "the cluster to tell what it has", func() bool {
		out, err = glance(t, k)
		return err == nil
	})
	return out
}

func glance(t *testing.T, k *kubernetes.Cluster) (objects, error) {
	t.Helper()
	config := k.Admin()
	config.WarningHandler = rest.NoWarnings{} // of kinds that are going out of use
	found, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := found.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	out := objects{}
	var namespaces []string
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			passing := r.Name == "events" || r.Name == "leases" || r.Name == "componentstatuses" || r.Name == "ipaddresses"
			if passing || !slices.Contains(r.Verbs, "list") || strings.Contains(r.Name, "/") {
				continue
			}
			all, err := dyn.Resource(gv.WithResource(r.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("cannot list %s: %w", r.Name, err)
			}
			for _, o := range all.Items {
				if r.Kind == "Secret" && o.GetNamespace() == cluster.AgentNamespace {
					continue
				}
				out[r.Kind+" "+o.GetNamespace()+"/"+o.GetName()] = string(o.GetUID())
				if r.Kind == "Namespace" && o.GetDeletionTimestamp() == nil {
					namespaces = append(namespaces, o.GetName())
				}
			}
		}
	}
	for _, name := range namespaces {
		if out["ServiceAccount "+name+"/default"] == "" {
			return nil, fmt.Errorf("the namespace %s has no account yet", name)
		}
	}
	return out, nil
}

// same waits until exactly the objects from before are there, and no other.
func (w *world) same(k *kubernetes.Cluster, before objects) {
	w.t.Helper()
	var now objects
	defer func() {
		if diff := cmp.Diff(before, now); diff != "" {
			w.t.Logf("the cluster has other objects (-before +now):\n%s", diff)
		}
	}()
	w.until("the cluster to have the objects from before and no other", func() bool {
		now = look(w.t, k)
		return maps.Equal(before, now)
	})
}

// unharmed checks that everything from before is there still and has not been
// made anew.
func unharmed(t *testing.T, k *kubernetes.Cluster, before objects) {
	t.Helper()
	now := look(t, k)
	for name, id := range before {
		if now[name] != id {
			t.Errorf("%s is %q, before %q", name, now[name], id)
		}
	}
}

// of are the objects of a namespace.
func (o objects) of(namespace string) (out []string) {
	for name := range o {
		if strings.Contains(name, " "+namespace+"/") {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}
