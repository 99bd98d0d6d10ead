package standalone

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/goccy/go-yaml"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/provider"
)

var _ provider.Checker = Provider{}

// Check implements provider.Checker.
func (Provider) Check(c provider.Cluster) error {
	if c.Kubeconfig == nil {
		return nil
	}
	if err := check(c.Kubeconfig); err != nil {
		return fault.New(fault.Invalid, "the kubeconfig of cluster %s cannot be used: %w", c.ID, err)
	}
	return nil
}

// kubeconfig is as much of one as has to be looked at.
type kubeconfig struct {
	Kind     string `json:"kind"`
	Current  string `json:"current-context"`
	Contexts []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string         `json:"name"`
		Cluster map[string]any `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string         `json:"name"`
		User map[string]any `json:"user"`
	} `json:"users"`
}

const flatten = "make one that holds everything itself: kubectl config view --flatten --minify --raw"

// check refuses a kubeconfig that leads nowhere, and one that would run a
// program or read a file of the control plane's machine: whoever may register
// clusters is not thereby its administrator. What is wrong is told without what
// it holds: a token may stand anywhere in it.
func check(text []byte) error {
	var raw any
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return fmt.Errorf("it is not YAML")
	}
	if _, ok := raw.(map[string]any); !ok {
		return fmt.Errorf("it is no kubeconfig: it has no fields such as clusters, contexts and users")
	}
	encoded, err := json.Marshal(raw)
	if err != nil {
		return fmt.Errorf("it is not a document")
	}
	var doc kubeconfig
	if err := json.Unmarshal(encoded, &doc); err != nil {
		return fmt.Errorf("it does not look like a kubeconfig: clusters, contexts and users are lists, each with a name")
	}
	if doc.Kind != "" && doc.Kind != "Config" {
		return fmt.Errorf("it is no kubeconfig: its kind is another than Config")
	}
	if err := doc.foreign(); err != nil {
		return err
	}
	return doc.leads()
}

// foreign finds what would be looked for on the control plane's machine.
func (k *kubeconfig) foreign() error {
	for _, u := range k.Users {
		for _, banned := range []string{"exec", "auth-provider", "tokenFile", "client-certificate", "client-key"} {
			if _, there := u.User[banned]; there {
				return fmt.Errorf("its user has %q, which would be looked for on the control plane's machine; %s", banned, flatten)
			}
		}
	}
	for _, c := range k.Clusters {
		if _, there := c.Cluster["certificate-authority"]; there {
			return fmt.Errorf("its cluster has %q, which would be looked for on the control plane's machine; %s", "certificate-authority", flatten)
		}
	}
	return nil
}

// leads follows the current context to a server and to what to log in with.
func (k *kubeconfig) leads() error {
	if k.Current == "" {
		return fmt.Errorf("it names no current-context; %s", flatten)
	}
	for _, c := range k.Contexts {
		if c.Name != k.Current {
			continue
		}
		at := slices.IndexFunc(k.Clusters, func(s struct {
			Name    string         `json:"name"`
			Cluster map[string]any `json:"cluster"`
		}) bool {
			return s.Name == c.Context.Cluster
		})
		if at < 0 {
			return fmt.Errorf("its current context names a cluster that it does not have")
		}
		server, _ := k.Clusters[at].Cluster["server"].(string)
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return fmt.Errorf("its cluster has no server that is a URL")
		}
		for _, u := range k.Users {
			if u.Name == c.Context.User {
				return logsIn(u.User)
			}
		}
		return fmt.Errorf("its current context names a user that it does not have")
	}
	return fmt.Errorf("its current-context is none of its contexts")
}

func logsIn(user map[string]any) error {
	for _, with := range []string{"token", "username", "client-certificate-data"} {
		if text, _ := user[with].(string); text != "" {
			return nil
		}
	}
	return fmt.Errorf("its user has nothing to log in with: no token, and no client-certificate-data; %s", flatten)
}
