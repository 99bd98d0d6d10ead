package standalone_test

import (
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/provider/providertest"
	"github.com/droverhq/drover/internal/provider/standalone"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: u, user: {token: s3cr3t}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
`

func open(t *testing.T) provider.Provider {
	p, err := standalone.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProvider(t *testing.T) {
	for name, c := range map[string]provider.Cluster{
		"agent only":      {ID: "a"},
		"with kubeconfig": {ID: "a", Kubeconfig: []byte(kubeconfig)},
	} {
		t.Run(name, func(t *testing.T) { providertest.Run(t, providertest.World{Open: open, Cluster: c}) })
	}
}

func TestKubeconfig(t *testing.T) {
	for _, c := range []struct{ reason, text string }{
		{"it is no YAML", "\t- {"},
		{"it is a list", "[1, 2]"},
		{"it names nothing", "apiVersion: v1"},
		{"its kind is another", strings.Replace(kubeconfig, "kind: Config", "kind: s3cr3t", 1)},
		{"its context is none of its contexts", strings.Replace(kubeconfig, "current-context: ", "current-context: s3cr3t", 1)},
		{"it has no server", strings.Replace(kubeconfig, "https://", "s3cr3t://", 1)},
		{"it cannot log in", strings.Replace(kubeconfig, "token: s3cr3t", "tokens: s3cr3t", 1)},
		{"it runs a program here", strings.Replace(kubeconfig, "token: s3cr3t", "exec: {command: sh, token: s3cr3t}", 1)},
		{"it reads a file here", strings.Replace(kubeconfig, "token: s3cr3t", "client-key: /etc/s3cr3t", 1)},
		{"it reads a token here", strings.Replace(kubeconfig, "token: s3cr3t", "tokenFile: /etc/s3cr3t", 1)},
		{"it reads a CA here", strings.Replace(kubeconfig, "server:", "certificate-authority: /etc/s3cr3t, server:", 1)},
	} {
		t.Run(c.reason, func(t *testing.T) {
			_, err := open(t).Ensure(t.Context(), provider.Cluster{ID: "a", Kubeconfig: []byte(c.text)})
			if !fault.Is(err, fault.Invalid) {
				t.Fatalf("got %v, want Invalid", err)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the message holds what the kubeconfig does: %v", err)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	if _, err := standalone.New(map[string]string{"x": "y"}); !fault.Is(err, fault.Invalid) {
		t.Errorf("got %v, want Invalid", err)
	}
}

// Whatever is given for a kubeconfig is taken or refused, and a secret in it is
// never repeated.
func FuzzKubeconfig(f *testing.F) {
	for _, seed := range []string{kubeconfig, "", "\t- {", "[1]", "a: &a [*a]", "current-context: 3", "users: {token: s3cr3t}", strings.Replace(kubeconfig, "token", "exec", 1), "clusters: [{name: c, cluster: s3cr3t}]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := standalone.Provider{}.Check(provider.Cluster{ID: "a", Kubeconfig: append([]byte{}, text...)})
		if err != nil && (!fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "s3cr3t")) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
