package gitops

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/droverhq/drover/internal/document"
)

const (
	maxKubeconfig = 256 << 10
	maxAuthority  = 64 << 10 // it stands in objects
)

// kubeAccess is what a kubeconfig says of one cluster, as far as it may be used: a
// stranger wrote it, so it starts no program, reads no file and sends nothing
// through somebody's proxy.
type kubeAccess struct {
	Context    string
	Server     string
	ServerName string
	CA         []byte // PEM
	Token      string
	Username   string
	Password   string
	Cert, Key  []byte // PEM
}

// flaw is why something cannot be used, with the reason of the condition that says
// so. It quotes nothing that may be a secret.
type flaw struct{ reason, message string }

func flawed(reason, format string, args ...any) *flaw {
	return &flaw{reason, fmt.Sprintf(format, args...)}
}

// readKubeconfig finds the cluster with the URL, a context for it, and how to log in
// there. With token only a token will do.
func readKubeconfig(data []byte, apiURL string, token bool) (kubeAccess, *flaw) {
	f := document.Open("kubeconfig", data, document.Form{Kind: "kubeconfig", Bytes: maxKubeconfig})
	root, _ := f.Root().Plain().(map[string]any)
	if !f.Sound() || root == nil {
		return kubeAccess{}, flawed(unableToParseKubeconfig, "unable to parse kubeconfig data: it is no YAML document, or has anchors or keys that are there twice")
	}
	k := kubeDocument(root)
	cluster, named := k.clusters(apiURL)
	if len(cluster) == 0 {
		return kubeAccess{}, flawed(unableToLocateContext, "the kubeconfig did not have a cluster entry that matched the API URL '%s'", cut(apiURL, maxURL))
	}
	context, user, ok := k.context(cluster)
	if !ok {
		return kubeAccess{}, flawed(unableToLocateContext, "the kubeconfig did not have a context that matched the cluster specified in the API URL of the GitOpsDeploymentManagedEnvironment")
	}
	a := kubeAccess{Context: context.name}
	if bad := a.cluster(named[context.cluster]); bad != nil {
		return kubeAccess{}, bad
	}
	if user == nil {
		return kubeAccess{}, flawed(unableToParseKubeconfig, "unable to extract remote cluster configuration from kubeconfig, missing auth info for %q", cut(context.name, 128))
	}
	if bad := a.user(user); bad != nil {
		return kubeAccess{}, bad
	}
	if token && a.Token == "" {
		return kubeAccess{}, flawed(unableToParseKubeconfig, "kubeconfig must have a service account token for the user in context %q. client-certificate is not supported at this time.", cut(context.name, 128))
	}
	if a.Token == "" && (len(a.Cert) == 0 || len(a.Key) == 0) && (a.Username == "" || a.Password == "") {
		return kubeAccess{}, flawed(unableToRetrieveConfig, "the user of the kubeconfig has nothing to log in with: give it a token")
	}
	return a, nil
}

// kubeDocument is a kubeconfig as it was written.
type kubeDocument map[string]any

type kubeContext struct{ name, cluster string }

// named are the entries of a list by their names, and their names in order.
func (k kubeDocument) named(list, member string) (map[string]map[string]any, []string) {
	out := map[string]map[string]any{}
	var order []string
	entries, _ := k[list].([]any)
	for _, e := range entries {
		entry, _ := e.(map[string]any)
		name, _ := entry["name"].(string)
		body, _ := entry[member].(map[string]any)
		if name == "" || out[name] != nil || body == nil {
			continue
		}
		out[name] = body
		order = append(order, name)
	}
	return out, order
}

// clusters are those whose server has the URL.
func (k kubeDocument) clusters(apiURL string) (map[string]bool, map[string]map[string]any) {
	all, order := k.named("clusters", "cluster")
	fit := map[string]bool{}
	for _, name := range order {
		if server, _ := all[name]["server"].(string); strings.EqualFold(strings.TrimRight(server, "/"), strings.TrimRight(apiURL, "/")) {
			fit[name] = true
		}
	}
	return fit, all
}

// context is the current one if it leads to any of the clusters, otherwise the
// first that does.
func (k kubeDocument) context(to map[string]bool) (kubeContext, map[string]any, bool) {
	all, order := k.named("contexts", "context")
	users, _ := k.named("users", "user")
	if current, _ := k["current-context"].(string); all[current] != nil {
		order = append([]string{current}, order...)
	}
	for _, name := range order {
		if cluster, _ := all[name]["cluster"].(string); to[cluster] {
			user, _ := all[name]["user"].(string)
			return kubeContext{name, cluster}, users[user], true
		}
	}
	return kubeContext{}, nil, false
}

func (a *kubeAccess) cluster(c map[string]any) *flaw {
	for _, banned := range []string{"certificate-authority", "proxy-url"} {
		if text, _ := c[banned].(string); text != "" {
			return flawed(unableToRetrieveConfig, "the cluster of the kubeconfig has %s, which is not followed from here: give certificate-authority-data, and no proxy", banned)
		}
	}
	a.Server, _ = c["server"].(string)
	a.ServerName, _ = c["tls-server-name"].(string)
	bad := decoded(c, map[string]*[]byte{"certificate-authority-data": &a.CA})
	if bad == nil && len(a.CA) > maxAuthority {
		bad = flawed(unableToParseKubeconfig, "certificate-authority-data of the kubeconfig has more than %d KiB", maxAuthority>>10)
	}
	return bad
}

func (a *kubeAccess) user(u map[string]any) *flaw {
	for _, banned := range []string{"exec", "auth-provider", "tokenFile", "client-certificate", "client-key", "as", "as-groups", "as-uid", "as-user-extra"} {
		if v, there := u[banned]; there && v != nil && v != "" {
			return flawed(unableToRetrieveConfig, "the user of the kubeconfig has %s, which is not followed from here: give it a token", banned)
		}
	}
	a.Token, _ = u["token"].(string)
	a.Username, _ = u["username"].(string)
	a.Password, _ = u["password"].(string)
	if hidden(a.Token) || strings.ContainsAny(a.Token, " \t") {
		return flawed(unableToParseKubeconfig, "the token of the kubeconfig holds blanks or characters that no token has")
	}
	return decoded(u, map[string]*[]byte{"client-certificate-data": &a.Cert, "client-key-data": &a.Key})
}

func decoded(from map[string]any, into map[string]*[]byte) *flaw {
	for name, to := range into {
		text, _ := from[name].(string)
		plain, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return flawed(unableToParseKubeconfig, "%s of the kubeconfig is no base64", name)
		}
		*to = plain
	}
	return nil
}

// kubeconfig is one that has nothing but what was understood.
func (a kubeAccess) kubeconfig() ([]byte, error) {
	type object = map[string]any
	cluster, user := object{"server": a.Server}, object{}
	put := func(to object, name string, data []byte) {
		if len(data) > 0 {
			to[name] = base64.StdEncoding.EncodeToString(data)
		}
	}
	put(cluster, "certificate-authority-data", a.CA)
	put(user, "client-certificate-data", a.Cert)
	put(user, "client-key-data", a.Key)
	for name, text := range map[string]string{"token": a.Token, "username": a.Username, "password": a.Password} {
		if text != "" {
			user[name] = text
		}
	}
	if a.ServerName != "" {
		cluster["tls-server-name"] = a.ServerName
	}
	return json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "target",
		"clusters": []object{{"name": "target", "cluster": cluster}},
		"users":    []object{{"name": "target", "user": user}},
		"contexts": []object{{"name": "target", "context": object{"cluster": "target", "user": "target"}}},
	})
}
