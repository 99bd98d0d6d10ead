package remote

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/gitops"
)

// everything is what an account may do that is bound to no namespaces, and within
// the namespaces that it is bound to.
var everything = []rbac.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}}}

// grant gives an account what it is to have, and takes away all else: everything
// where no namespaces are named; otherwise all within them, and what has no
// namespace only if that is asked for.
func (s *session) grant(ctx context.Context, at gitops.RemoteCluster, account string) error {
	subjects := []rbac.Subject{{Kind: rbac.ServiceAccountKind, Name: account, Namespace: accountNamespace}}
	namespaces := map[string]bool{}
	for _, n := range at.Namespaces {
		namespaces[n] = true
		role := &rbac.Role{ObjectMeta: named(account, n), Rules: everything}
		if err := s.put(ctx, role, func(o client.Object) { o.(*rbac.Role).Rules = everything }); err != nil {
			return err
		}
		binding := &rbac.RoleBinding{ObjectMeta: named(account, n), Subjects: subjects, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: account}}
		if err := s.put(ctx, binding, func(o client.Object) { o.(*rbac.RoleBinding).Subjects = subjects }); err != nil {
			return err
		}
	}
	everywhere := len(at.Namespaces) == 0 || at.ClusterResources
	if everywhere {
		rules := append(slices.Clone(everything), rbac.PolicyRule{NonResourceURLs: []string{"*"}, Verbs: []string{"*"}})
		if len(at.Namespaces) > 0 {
			var err error
			if rules, err = s.unspaced(ctx); err != nil {
				return err
			}
		}
		role := &rbac.ClusterRole{ObjectMeta: named(account, ""), Rules: rules}
		if err := s.put(ctx, role, func(o client.Object) { o.(*rbac.ClusterRole).Rules = rules }); err != nil {
			return err
		}
		binding := &rbac.ClusterRoleBinding{ObjectMeta: named(account, ""), Subjects: subjects, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: account}}
		if err := s.put(ctx, binding, func(o client.Object) { o.(*rbac.ClusterRoleBinding).Subjects = subjects }); err != nil {
			return err
		}
	}
	return s.revoke(ctx, account, namespaces, everywhere)
}

// put makes an object, or makes the one there is say the same.
func (s *session) put(ctx context.Context, o client.Object, set func(client.Object)) error {
	return s.do(ctx, func(ctx context.Context) error {
		err := s.Create(ctx, o.DeepCopyObject().(client.Object))
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		there := o.DeepCopyObject().(client.Object)
		if err := s.Get(ctx, client.ObjectKeyFromObject(o), there); err != nil {
			return err
		}
		before := there.DeepCopyObject().(client.Object)
		set(there)
		labels := there.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		for k, v := range o.GetLabels() {
			labels[k] = v
		}
		there.SetLabels(labels)
		return s.Patch(ctx, there, client.MergeFrom(before))
	})
}

// plainVerbs leave out those by which an account could give itself more.
var plainVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// unspaced are the rules for everything that has no namespace: roles cannot say so,
// therefore each kind is named. New kinds are added when the target is next checked.
func (s *session) unspaced(ctx context.Context) ([]rbac.PolicyRule, error) {
	groups := metav1.APIGroupList{}
	if err := s.read(ctx, "/apis", &groups); err != nil {
		return nil, err
	}
	paths := map[string]string{"/api/v1": ""}
	order := []string{"/api/v1"}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			if gv, err := schema.ParseGroupVersion(v.GroupVersion); err == nil && gv.Group == g.Name {
				paths["/apis/"+v.GroupVersion] = g.Name
				order = append(order, "/apis/"+v.GroupVersion)
			}
		}
	}
	byGroup := map[string][]string{}
	var names []string
	for _, path := range order {
		var list metav1.APIResourceList
		if err := s.read(ctx, path, &list); err != nil {
			if path == "/api/v1" {
				return nil, err
			}
			continue // an aggregated one that is away grants nothing
		}
		group := paths[path]
		for _, r := range list.APIResources {
			if r.Namespaced || strings.Contains(r.Name, "/") || slices.Contains(byGroup[group], r.Name) || !slices.Contains([]string(r.Verbs), "list") {
				continue
			}
			if byGroup[group] == nil {
				names = append(names, group)
			}
			byGroup[group] = append(byGroup[group], r.Name)
		}
	}
	slices.Sort(names)
	var out []rbac.PolicyRule
	for _, group := range names {
		slices.Sort(byGroup[group])
		out = append(out, rbac.PolicyRule{APIGroups: []string{group}, Resources: byGroup[group], Verbs: plainVerbs})
	}
	return out, nil
}

// read gets one document of the API's own description.
func (s *session) read(ctx context.Context, path string, into any) error {
	return s.do(ctx, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host+path, nil)
		if err != nil {
			return err
		}
		req.Header.Set("Accept", "application/json")
		res, err := s.http.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return apierrors.NewGenericServerResponse(res.StatusCode, "get", schema.GroupResource{}, path, "", 0, true)
		}
		data, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		return json.Unmarshal(data, into)
	})
}
