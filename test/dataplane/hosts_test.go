//go:build e2e

package dataplane_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/kubernetes"
)

// definition of a kind that carries hosts.
const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[1]s, annotations: {api-approved.kubernetes.io: "unapproved, for a test"}}
spec:
  group: %[1]s
  names: {kind: %[3]s, listKind: %[3]sList, plural: %[2]s, singular: %[4]s}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, subresources: {status: {}}, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// Hosts are carried by the best that the cluster has, with the rights that the
// printed line gives: an agent that starts on a cluster that has got more uses it.
func TestHostsOfWhatTheClusterHas(t *testing.T) {
	t.Parallel()
	k := kubernetes.Start(t, kubernetes.WithControllers())
	k.Node(t, "n1", "8", "32Gi")
	kubelet(t, k)
	w := start(t)
	p := w.register("edge", "north", k)
	before := look(t, k)
	for i, of := range []struct{ kind, word, group, plural string }{
		{"Ingress", "ingress", "", ""},
		{"HTTPRoute", "gateway", "gateway.networking.k8s.io", "httproutes"},
		{"Route", "route", "route.openshift.io", "routes"},
	} {
		if of.group != "" {
			p.agent.Stop()
			if err := applier(t, k.Admin()).apply(t.Context(), object(t, fmt.Sprintf(definition, of.group, of.plural, of.kind, strings.ToLower(of.kind))), ""); err != nil {
				t.Fatal(err)
			}
			w.until(of.kind+" to be served", func() bool { return served(t, k, of.kind) })
			p.agent.Start(t)
			before = look(t, k)
		}
		w.says("cluster", "edge", "routes by "+of.word)
		name := fmt.Sprintf("shop-%d", i)
		ns := w.order(name, "north", nil)
		w.is("shops", name, "ready")
		var carries []string
		for _, o := range look(t, k).of(ns) {
			for _, kind := range []string{"Ingress ", "HTTPRoute ", "Route "} {
				if strings.HasPrefix(o, kind) {
					carries = append(carries, kind)
				}
			}
		}
		if len(carries) != 1 || carries[0] != of.kind+" " {
			t.Errorf("its host is carried by %q, want %s", carries, of.kind)
		}
		w.remove("shops", name)
		w.is("shops", name, "gone")
		w.same(k, before)
	}
}

func served(t *testing.T, k *kubernetes.Cluster, kind string) bool {
	t.Helper()
	_, lists, err := k.Client(t).Discovery().ServerGroupsAndResources()
	if err != nil {
		return false
	}
	for _, list := range lists {
		for _, r := range list.APIResources {
			if r.Kind == kind {
				return true
			}
		}
	}
	return false
}
