package argocd

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
)

// forbidden are kinds that nobody may deploy into the cluster of Argo CD itself,
// which workspaces share: what bounds a workspace there is the operator's, and
// Argo CD's own objects would be a way around its project.
var forbidden = []string{
	"/ResourceQuota", "/LimitRange",
	"argoproj.io/Application", "argoproj.io/ApplicationSet", "argoproj.io/AppProject",
	"managed-gitops.redhat.com/Operation",
}

// scope is what deployments of one project share.
type scope struct {
	project *unstructured.Unstructured
	secrets map[string]*unstructured.Unstructured // by name
}

// derive works out what deployments of one project share: those that are wanted, and
// those that were made. What is wanted says what a credential or a target is, before
// what was. Of two that were told different things of one, it is what is so since later:
// one that cannot be told anything any more would keep others from a new password. It is
// pure; of two credentials for one repository the first is taken.
func derive(cfg Config, project string, wanted, made []runtime.Deployment) scope {
	all := slices.Concat(wanted, made)
	repos, places := map[string]bool{}, map[[2]string]bool{}
	out := scope{secrets: map[string]*unstructured.Unstructured{}}
	shared, everything := false, false
	logins, clusters := keysFor(wanted)
	were, past := keysFor(made)
	for repo, c := range were {
		if logins[repo] == nil {
			logins[repo] = c
		}
	}
	for id, t := range past {
		if clusters[id] == nil {
			clusters[id] = t
		}
	}
	for _, d := range all {
		repos[d.Repository] = true
		everything = everything || wide(d)
		switch {
		case d.Target != nil:
			t := d.Target
			for _, ns := range t.Namespaces {
				places[[2]string{clusterName(t.ID), ns}] = true
			}
			if len(t.Namespaces) == 0 {
				places[[2]string{clusterName(t.ID), "*"}] = true
			}
		case own(d):
			// Where it goes is no leave to go there: a workspace that may not any
			// more keeps what it has, and changes nothing of it.
			shared = true
			for _, ns := range d.Namespaces {
				if cfg.reserved(ns) && !strings.HasSuffix(d.Workspace, operators) {
					continue
				}
				for _, pattern := range cfg.besides(ns) {
					places[[2]string{inCluster, pattern}] = true
				}
			}
		}
	}
	for id, t := range clusters {
		out.secrets[clusterName(id)] = clusterSecret(cfg.ArgoCD, project, *t)
	}
	for _, repo := range slices.Sorted(maps.Keys(logins)) {
		name := repositorySecretName(all[0].Workspace, project, logins[repo].ID)
		if out.secrets[name] != nil {
			name += "-" + digest(object{"url": repo})[:8]
		}
		out.secrets[name] = repositorySecret(cfg.ArgoCD, project, name, repo, *logins[repo])
	}
	spec := object{
		"description": "Deployments of one workspace. Drover keeps it as it is.",
		"sourceRepos": texts(slices.Sorted(maps.Keys(repos))), "destinations": destinations(places),
	}
	if everything {
		spec["clusterResourceWhitelist"] = []any{object{"group": "*", "kind": "*"}}
	}
	if shared {
		spec["namespaceResourceBlacklist"] = denied(cfg.Deny)
	} else {
		// With a deployment into Argo CD's own cluster, which has no Secret, this
		// would refuse it.
		spec["permitOnlyProjectScopedClusters"] = true
	}
	out.project = projects.make(cfg.ArgoCD, project, nil, object{"spec": spec})
	return out
}

// keysFor are the credentials of repositories and the targets, by their ids, that some
// deployments were told. Argo CD would take either of two credentials for one repository.
func keysFor(all []runtime.Deployment) (logins map[string]*runtime.RepositoryCredential, clusters map[string]*runtime.Target) {
	logins, clusters = map[string]*runtime.RepositoryCredential{}, map[string]*runtime.Target{}
	for _, d := range all {
		if t := d.Target; t != nil {
			if is := clusters[t.ID]; is == nil || t.Since.After(is.Since) {
				clusters[t.ID] = t
			}
		}
		if c := d.Credential; c != nil {
			if is := logins[d.Repository]; is == nil || is.ID == c.ID && c.Since.After(is.Since) {
				logins[d.Repository] = c
			}
		}
	}
	return logins, clusters
}

// repositorySecretName is the same credential's other name in the other projects
// of the workspace: a Secret has one project.
func repositorySecretName(workspace, project, credential string) string {
	name := repositoryName(credential)
	if strings.HasSuffix(workspace, operators) {
		name += operators
	}
	if strings.HasSuffix(project, "-cluster") {
		name += "-cluster"
	}
	return name
}

// operators is how the name of a workspace ends in which operators deploy on its
// behalf where it may not itself.
const operators = "-operators"

// reserved are the namespaces of Argo CD and of the agent, and the one where another agent
// of this cluster most likely is. Whoever can run anything
// there has the credentials of all workspaces, so that a namespace of the same name
// elsewhere is no leave.
func (c Config) reserved(namespace string) bool {
	return namespace == c.ArgoCD || namespace == c.Namespace || namespace == agents
}

func texts(all []string) []any {
	out := make([]any, len(all))
	for i, s := range all {
		out[i] = s
	}
	return out
}

func destinations(places map[[2]string]bool) []any {
	all := slices.Collect(maps.Keys(places))
	sort.Slice(all, func(i, j int) bool { return slices.Compare(all[i][:], all[j][:]) < 0 })
	out := make([]any, len(all))
	for i, p := range all {
		// The server is left out: of name and server one match is enough.
		out[i] = object{"name": p[0], "namespace": p[1]}
	}
	return out
}

func denied(more []string) []any {
	out := []any{}
	for _, text := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(forbidden, more)))) {
		group, name, _ := strings.Cut(text, "/")
		out = append(out, object{"group": group, "kind": name})
	}
	return out
}

func secret(namespace, name, kind, id string, data map[string]string) *unstructured.Unstructured {
	encoded := object{}
	for k, v := range data {
		if v != "" {
			encoded[k] = base64.StdEncoding.EncodeToString([]byte(v))
		}
	}
	return secrets.make(namespace, name, object{secretLabel: kind, databaseLabel: label(id)}, object{"type": "Opaque", "data": encoded})
}

func repositorySecret(namespace, project, name, repo string, c runtime.RepositoryCredential) *unstructured.Unstructured {
	data := map[string]string{"name": name, "type": "git", "url": repo, "project": project}
	if c.SSHKey != "" {
		data["sshPrivateKey"] = c.SSHKey
	} else {
		data["username"], data["password"] = c.Username, c.Password
	}
	return secret(namespace, name, "repository", c.ID, data)
}

// clusterSecret lets Argo CD reach a target. Its server has the target's id in
// it: two accounts of one cluster are two clusters then.
func clusterSecret(namespace, project string, t runtime.Target) *unstructured.Unstructured {
	tls := object{"insecure": t.Insecure}
	if t.CA != "" && !t.Insecure {
		tls["caData"] = base64.StdEncoding.EncodeToString([]byte(t.CA))
	}
	config, _ := json.Marshal(object{"bearerToken": t.Token, "tlsClientConfig": tls})
	data := map[string]string{
		"name": clusterName(t.ID), "server": t.Server + "?managedEnvironment=" + url.QueryEscape(t.ID), "config": string(config), "project": project,
	}
	if len(t.Namespaces) > 0 {
		data["namespaces"] = strings.Join(slices.Sorted(slices.Values(t.Namespaces)), ",")
		data["clusterResources"] = "false"
		if t.ClusterResources {
			data["clusterResources"] = "true"
		}
	}
	return secret(namespace, clusterName(t.ID), "cluster", t.ID, data)
}
