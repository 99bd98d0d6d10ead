package template

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/provider"
)

// Files that are put beside the template's own.
const (
	backendFile   = "drover_override.tf.json"
	variablesFile = "drover.auto.tfvars.json"
)

// lay copies the template into module, in place of an earlier copy, and puts
// the variables and the place of the state beside it. A template that is gone
// leaves the copy in use, so that what it made can be taken away.
func lay(c provider.Cluster, module string) error {
	source := c.Options["directory"]
	if source == "" {
		return fault.New(fault.Invalid, "the profile of cluster %s names no template: set the option directory", c.ID)
	}
	if info, err := os.Stat(source); err != nil || !info.IsDir() {
		if copied, _ := filepath.Glob(filepath.Join(module, "*.t*f*")); len(copied) == 0 {
			return fault.New(fault.Unavailable, "there is no template in %s", source)
		}
	} else if err := replace(module, source); err != nil {
		return fault.New(fault.Unavailable, "cannot copy the template %s: %w", source, err)
	}
	backend := map[string]any{"terraform": map[string]any{"backend": map[string]any{"local": map[string]any{"path": "../" + stateFile}}}}
	return errors.Join(write(filepath.Join(module, backendFile), backend), write(filepath.Join(module, variablesFile), variables(c)))
}

// variables that a template may declare.
func variables(c provider.Cluster) map[string]any {
	vars := map[string]any{}
	for name, value := range c.Options {
		if name, ok := strings.CutPrefix(name, "var."); ok {
			vars[name] = value
		}
	}
	labels := c.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(vars, map[string]any{
		"cluster_id": c.ID, "cloud": c.Cloud, "region": c.Region, "multi_az": c.MultiAZ, "nodes": c.Nodes, "labels": labels,
	})
	return vars
}

func write(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// replace makes the directory a copy of the template's files. What OpenTofu has
// downloaded there stays.
func replace(module, source string) error {
	entries, err := os.ReadDir(module)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == ".terraform" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(module, e.Name())); err != nil {
			return err
		}
	}
	return fs.WalkDir(os.DirFS(source), ".", func(path string, d fs.DirEntry, err error) error {
		to := filepath.Join(module, filepath.FromSlash(path))
		switch {
		case err != nil:
			return err
		case d.Name() == ".terraform" || d.Name() == ".git":
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(to, 0o700)
		case !d.Type().IsRegular() || strings.Contains(d.Name(), ".tfstate"):
			return nil
		}
		data, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(path)))
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o600)
	})
}

// outputs reads what the template tells of the cluster.
func (r *run) outputs(ctx context.Context) (provider.Progress, error) {
	all, err := r.tofu.Output(ctx)
	if err != nil {
		return provider.Progress{}, trouble(ctx, r.cluster.ID, "read the outputs of", err)
	}
	text := func(name string) string {
		var s string
		_ = json.Unmarshal(all[name].Value, &s) // not a text: as if it were not there
		return s
	}
	p := provider.Progress{Done: true, Domain: text("domain"), External: text("external_id")}
	if kubeconfig := text("kubeconfig"); kubeconfig != "" {
		p.Kubeconfig = []byte(kubeconfig)
	}
	if nodes, ok := all["nodes"]; ok {
		_ = json.Unmarshal(nodes.Value, &p.Nodes)
	}
	return p, nil
}
