package argocd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

var (
	applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}
	projects     = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "appprojects"}
	namespaces   = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets      = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	definitions  = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// The names of its settings.
const (
	settingsMap  = "argocd-cm"
	authorities  = "argocd-tls-certs-cm"
	hostKeys     = "argocd-ssh-known-hosts-cm"
	fieldManager = "drover-test"
)

// install applies what an installation begins with, out of Argo CD's own files.
// What is there already stays as it is.
func (s *Server) install(ctx context.Context, dir string, o options) error {
	for _, list := range []string{"manifests/crds/*-crd.yaml", "manifests/base/config/argocd-*.yaml"} {
		files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(list)))
		if err != nil || len(files) == 0 {
			return errors.Join(err, fmt.Errorf("there are no %s", list))
		}
		for _, file := range files {
			if err := s.apply(ctx, file, o); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(file), err)
			}
		}
		if err := s.established(ctx); err != nil {
			return err
		}
	}
	// argocd-server makes it, which there is none of.
	return s.create(ctx, projects, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
		"metadata": map[string]any{"name": "default", "namespace": s.Namespace},
		"spec": map[string]any{
			"sourceRepos":              []any{"*"},
			"destinations":             []any{map[string]any{"server": "*", "namespace": "*"}},
			"clusterResourceWhitelist": []any{map[string]any{"group": "*", "kind": "*"}},
		},
	}})
}

func (s *Server) apply(ctx context.Context, file string, o options) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(bytes.TrimPrefix(data, []byte("---\n")), &object.Object); err != nil {
		return err
	}
	switch kind := object.GetKind(); kind {
	case "CustomResourceDefinition":
		return s.create(ctx, definitions, object)
	case "ConfigMap", "Secret":
		if err := s.namespace(ctx); err != nil {
			return err
		}
		object.SetNamespace(s.Namespace)
		if kind == "Secret" {
			return s.create(ctx, secrets, object)
		}
		if object.GetName() == settingsMap {
			set, _, _ := unstructured.NestedStringMap(object.Object, "data")
			maps.Copy(set, o.settings)
			if _, is := set["installationID"]; !is && s.Namespace != "argocd" {
				// Else it takes objects of another one in the same cluster for its own,
				// where their Applications have one name.
				set["installationID"] = s.Namespace
			}
			if err := unstructured.SetNestedStringMap(object.Object, set, "data"); err != nil {
				return err
			}
		}
		return s.create(ctx, configMaps, object)
	default:
		return fmt.Errorf("nobody knows what to do with a %s", kind)
	}
}

func (s *Server) namespace(ctx context.Context) error {
	return s.create(ctx, namespaces, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": s.Namespace},
	}})
}

func (s *Server) create(ctx context.Context, kind schema.GroupVersionResource, object *unstructured.Unstructured) error {
	_, err := s.client.Resource(kind).Namespace(object.GetNamespace()).Create(ctx, object, metav1.CreateOptions{FieldManager: fieldManager})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// established waits until the custom resources can be used.
func (s *Server) established(ctx context.Context) error {
	for {
		_, err := s.client.Resource(applications).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			_, err = s.client.Resource(projects).List(ctx, metav1.ListOptions{Limit: 1})
		}
		if err == nil || !apierrors.IsNotFound(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(50 * time.Millisecond): // the server offers no signal to wait for
		}
	}
}
