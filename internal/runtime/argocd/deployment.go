package argocd

import (
	"encoding/json"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

var (
	labelText  = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	reachText  = regexp.MustCompile(`^[a-z0-9]?[-a-z0-9]{0,62}\*$`) // what operators let workspaces reach
	optionText = regexp.MustCompile(`^[A-Za-z]+=[A-Za-z0-9]+$`)
)

// read parses a body and refuses what could be taken for anything but data. Its
// errors are shown to users, so they quote no secrets.
func read(body json.RawMessage) (runtime.Deployment, error) {
	var d runtime.Deployment
	if err := json.Unmarshal(body, &d); err != nil {
		return d, fault.New(fault.Invalid, "the desired document is not one that the argocd runtime can read")
	}
	if d.UID == "" || d.Workspace == "" {
		return d, fault.New(fault.Invalid, "the desired document names no deployment, or no workspace")
	}
	for _, check := range []func(runtime.Deployment) error{source, places, credentials} {
		if err := check(d); err != nil {
			return d, err
		}
	}
	return d, nil
}

// source refuses repositories that AppProjects would take for patterns, and
// directories outside of the repository.
func source(d runtime.Deployment) error {
	switch {
	case d.Repository == "" || odd(d.Repository) || strings.ContainsAny(d.Repository, `*?[]{}!\`) || strings.HasPrefix(d.Repository, "-"):
		return fault.New(fault.Invalid, "the repository's address is not one that Argo CD can be given: use https://host/path or ssh://user@host/path, without a query or patterns")
	case d.Path == "":
		return fault.New(fault.Invalid, "spec.source.path is a required field and it cannot be empty")
	case strings.HasPrefix(d.Path, "/") || strings.Contains(d.Path, `\`):
		return fault.New(fault.Invalid, "the path is a directory of the repository, relative to its root: it does not begin with '/'")
	case odd(d.Path) || climbs(d.Path):
		return fault.New(fault.Invalid, "the path leads out of the repository: use one without '..'")
	case odd(d.Revision) || strings.HasPrefix(d.Revision, "-") || strings.ContainsAny(d.Revision, " \t"):
		return fault.New(fault.Invalid, "the revision is no branch, tag or commit")
	}
	if s := d.Sync; s != nil && (s.ID == "" || odd(s.ID) || odd(s.Revision) || strings.HasPrefix(s.Revision, "-") || s.Retries < 0) {
		return fault.New(fault.Invalid, "the sync that is asked for has no id, or a revision that is no branch, tag or commit")
	}
	return nil
}

// climbs reports whether a path has a part that leads upwards.
func climbs(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return true
		}
	}
	return strings.HasPrefix(path.Clean(p), "..")
}

// odd reports whether a text has what no name or address has.
func odd(s string) bool {
	return len(s) > 4096 || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar })
}

func places(d runtime.Deployment) error {
	if !labelText.MatchString(d.Namespace) {
		return fault.New(fault.Invalid, "the namespace specified in the destination field is invalid")
	}
	for _, ns := range d.Namespaces {
		if !reachText.MatchString(ns) && !labelText.MatchString(ns) {
			return fault.New(fault.Invalid, "a namespace of the workspace is not one that Kubernetes can have")
		}
	}
	for _, o := range d.SyncOptions {
		if !optionText.MatchString(o) {
			return fault.New(fault.Invalid, "the specified sync option in .spec.syncPolicy.syncOptions is either mispelled or is not supported by GitOpsDeployment")
		}
	}
	t := d.Target
	if t == nil {
		return nil
	}
	for _, ns := range t.Namespaces {
		if !labelText.MatchString(ns) {
			return fault.New(fault.Invalid, "a namespace of the managed environment is not one that Kubernetes can have")
		}
	}
	if t.ID == "" || !strings.HasPrefix(t.Server, "https://") || odd(t.Server) || strings.ContainsAny(t.Server, "?&#*[]{}! ") && !strings.Contains(t.Server, "://[") {
		return fault.New(fault.Invalid, "the managed environment's address is not one that Argo CD can be given: it begins with https:// and has no query")
	}
	return nil
}

func credentials(d runtime.Deployment) error {
	if d.Credential != nil && d.Credential.ID == "" {
		return fault.New(fault.Invalid, "the repository's credential has no id")
	}
	return nil
}

// Names of what there is in Argo CD.

func applicationName(uid string) string { return keep.Named("gitopsdepl-", uid) }

func clusterName(target string) string { return keep.Named("managed-env-", target) }

func repositoryName(credential string) string { return keep.Named("repo-cred-", credential) }

// projectName of a deployment. Deployments that may have objects without a
// namespace are in a project of their own: what a project allows it allows on
// every cluster that it reaches.
func projectName(d runtime.Deployment) string {
	name := keep.Named("app-project-", d.Workspace)
	if wide(d) {
		name += "-cluster"
	}
	return name
}

// wide reports whether a deployment may have objects without a namespace.
func wide(d runtime.Deployment) bool {
	switch {
	case d.Target != nil:
		return d.Target.ClusterResources || len(d.Target.Namespaces) == 0
	case d.Detached:
		return false
	}
	return d.ClusterResources
}

// own reports whether a deployment is for the cluster of Argo CD itself.
func own(d runtime.Deployment) bool { return d.Target == nil && !d.Detached }
