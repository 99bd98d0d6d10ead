package remote_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/kubeapi/remote"
	"github.com/droverhq/drover/internal/resilience"
)

// quick gives up soon, and after one try.
func quick() *remote.Clients {
	return remote.New(remote.Config{Resilience: resilience.Config{Timeout: 5 * time.Second, Retries: -1}, Patience: time.Second})
}

func authority(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func status(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"t0k3n, as the server has it","reason":%q,"code":%d}`, reason, code)
}

func TestCheck(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	cases := []struct {
		reason string
		answer http.HandlerFunc
		change func(at *gitops.RemoteCluster)
		kind   fault.Kind
		says   string
	}{
		{"it lists namespaces", nil, nil, 0, ""},
		{"it reads the first namespace", nil, func(at *gitops.RemoteCluster) { at.Namespaces = []string{"shop", "x"} }, 0, ""},
		{"without comparing certificates", nil, func(at *gitops.RemoteCluster) { at.CA, at.Insecure = nil, true }, 0, ""},
		{"with an authority that does not matter then", nil, func(at *gitops.RemoteCluster) { at.Insecure = true }, 0, ""},
		{"an unknown authority", nil, func(at *gitops.RemoteCluster) { at.CA = nil }, fault.Invalid, gitops.TargetUnknownCA},
		{"forbidden", func(w http.ResponseWriter, _ *http.Request) { answer(w, 403, status(403, "Forbidden")) }, nil, fault.Denied, gitops.TargetForbidden},
		{"a token that is none", func(w http.ResponseWriter, _ *http.Request) { answer(w, 401, status(401, "Unauthorized")) }, nil, fault.Denied, gitops.TargetUnverified},
		{"no such namespace", func(w http.ResponseWriter, _ *http.Request) { answer(w, 404, status(404, "NotFound")) }, nil, fault.Invalid, gitops.TargetUnverified},
		{"a server in trouble", func(w http.ResponseWriter, _ *http.Request) { answer(w, 503, status(503, "ServiceUnavailable")) }, nil, fault.Unavailable, "at the moment"},
		{"a gateway in front of nothing", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, nil, fault.Unavailable, "at the moment"},
		{"no Kubernetes", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>welcome") }, nil, fault.Invalid, "no Kubernetes API"},
		{"sent on", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, nil, fault.Invalid, gitops.TargetUnverified},
		{"without end", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for {
				if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
					return
				}
			}
		}, nil, fault.Invalid, "no Kubernetes API"},
		{"nobody there", nil, func(at *gitops.RemoteCluster) { at.Server = "https://127.0.0.1:1" }, fault.Unavailable, "cannot be reached"},
		{"a link-local address", nil, func(at *gitops.RemoteCluster) { at.Server = "https://169.254.169.254" }, fault.Invalid, "link-local"},
		{"without encryption", nil, func(at *gitops.RemoteCluster) { at.Server = "http://127.0.0.1:1" }, fault.Invalid, "https://"},
		{"an authority that is none", nil, func(at *gitops.RemoteCluster) { at.CA = []byte("t0k3n") }, fault.Invalid, "certificates"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if c.answer != nil {
					c.answer(w, r)
					return
				}
				switch {
				case r.Header.Get("Authorization") != "Bearer t0k3n":
					answer(w, 401, status(401, "Unauthorized"))
				case r.URL.Path == "/api/v1/namespaces":
					answer(w, 200, `{"kind":"NamespaceList","apiVersion":"v1","items":[]}`)
				case r.URL.Path == "/api/v1/namespaces/shop":
					answer(w, 200, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop"}}`)
				default:
					answer(w, 404, status(404, "NotFound"))
				}
			}))
			defer s.Close()
			at := gitops.RemoteCluster{Server: s.URL, Token: "t0k3n", CA: authority(s)}
			if c.change != nil {
				c.change(&at)
			}
			err := quick().Check(t.Context(), at)
			if c.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "t0k3n") || fault.Reason(err) == "" {
				t.Errorf("%v (%v, %s)", err, fault.Of(err), fault.Reason(err))
			}
		})
	}
	if elsewhere.Load() > 0 {
		t.Error("a server sent us on with the token")
	}
}

func answer(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	io.WriteString(w, body)
}

// A kubeconfig that would start a program or read a file is none.
func TestNoPrograms(t *testing.T) {
	config := func(cluster, user string) []byte {
		return []byte("apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'" + cluster +
			"}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {" + user + "}}]\n")
	}
	for _, c := range []struct {
		reason string
		config []byte
	}{
		{"a program", config("", "exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: [/tmp/pwned], interactiveMode: Never}")},
		{"a plugin", config("", "auth-provider: {name: oidc}")},
		{"a file with a token", config("", "tokenFile: /etc/hostname")},
		{"a file with a certificate", config("", "client-certificate: /etc/hostname, client-key: /etc/hostname")},
		{"a file with an authority", config(", certificate-authority: /etc/hostname", "token: x")},
		{"a proxy", config(", proxy-url: 'http://127.0.0.1:2'", "token: x")},
		{"somebody else", config("", "token: x, as: root")},
		{"nothing", []byte("t0k3n: [")},
	} {
		_, err := quick().Install(t.Context(), gitops.RemoteCluster{Server: "https://127.0.0.1:1", Kubeconfig: c.config}, "a")
		if !fault.Is(err, fault.Invalid) || fault.Reason(err) != "UnableToRetrieveRestConfig" || strings.Contains(err.Error(), "t0k3n") {
			t.Errorf("%s: %v (%s)", c.reason, err, fault.Reason(err))
		}
	}
}

// A host that does not answer is left alone for a while, and others are not.
func TestBreakerPerHost(t *testing.T) {
	var calls atomic.Int32
	down := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(503)
	}))
	defer down.Close()
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, 200, `{"kind":"NamespaceList","apiVersion":"v1","items":[]}`)
	}))
	defer up.Close()
	c := remote.New(remote.Config{Resilience: resilience.Config{Retries: -1, Failures: 3, Rest: time.Hour}})
	for range 10 {
		if err := c.Check(t.Context(), gitops.RemoteCluster{Server: down.URL, CA: authority(down)}); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("it was asked %d times", n)
	}
	if err := c.Check(t.Context(), gitops.RemoteCluster{Server: up.URL, CA: authority(up)}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Check(ctx, gitops.RemoteCluster{Server: up.URL, CA: authority(up)}); err == nil {
		t.Error("a caller who left was answered")
	}
}

// open counts breakers that are, as the observer hears of them.
type open struct{ n atomic.Int32 }

func (o *open) Called(string, string, time.Duration) {}
func (o *open) Retried(string, bool)                 {}
func (o *open) Breaker(_, from, to string) {
	if from == "open" {
		o.n.Add(-1)
	}
	if to == "open" {
		o.n.Add(1)
	}
}

type away struct{}

func (away) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, fault.New(fault.Unavailable, "away")
}

// Tenants may name very many hosts that are away: of those that are forgotten no breaker
// stays open in the metrics for ever.
func TestForgottenHostsAreNotOpenForEver(t *testing.T) {
	o := &open{}
	c := remote.New(remote.Config{Resilience: resilience.Config{Retries: -1, Failures: 1, Rest: time.Hour, Observer: o},
		Wrap: func(http.RoundTripper) http.RoundTripper { return away{} }})
	check := func(host string) {
		if err := c.Check(t.Context(), gitops.RemoteCluster{Server: "https://" + host, Insecure: true}); !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		check(fmt.Sprintf("h%d.example", i))
	}
	if n := o.n.Load(); n != 1000 {
		t.Errorf("%d are open", n)
	}
	check("H999.example") // it is known
	if n := o.n.Load(); n != 1000 {
		t.Errorf("one host by two spellings: %d are open", n)
	}
	check("one-more.example")
	if n := o.n.Load(); n != 1 {
		t.Errorf("with one more, %d are open", n)
	}
}

// That an account can be made and its token cannot is told apart.
func TestNoTokenForANewAccount(t *testing.T) {
	lists := map[string]string{"roles": "RoleList", "rolebindings": "RoleBindingList", "clusterroles": "ClusterRoleList", "clusterrolebindings": "ClusterRoleBindingList"}
	for _, c := range []struct{ reason, refused, want string }{
		{"the account", "serviceaccounts", "UnableToInstallServiceAccount"},
		{"its rights", "clusterrolebindings", "UnableToInstallServiceAccount"},
		{"its token", "secrets", "UnableToCreateClusterCredentials"},
	} {
		t.Run(c.reason, func(t *testing.T) {
			s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				what := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
				switch {
				case r.Method == http.MethodPost && what == c.refused:
					answer(w, 403, status(403, "Forbidden"))
				case r.Method == http.MethodPost:
					made := map[string]string{"serviceaccounts": "ServiceAccount", "clusterroles": "ClusterRole", "clusterrolebindings": "ClusterRoleBinding"}[what]
					group := "rbac.authorization.k8s.io/v1"
					if what == "serviceaccounts" {
						group = "v1"
					}
					answer(w, 201, fmt.Sprintf(`{"kind":%q,"apiVersion":%q,"metadata":{"name":"a"}}`, made, group))
				case lists[what] == "":
					answer(w, 404, status(404, "NotFound"))
				default:
					answer(w, 200, fmt.Sprintf(`{"kind":%q,"apiVersion":"rbac.authorization.k8s.io/v1","items":[]}`, lists[what]))
				}
			}))
			defer s.Close()
			clients := quick()
			_, err := clients.Install(t.Context(), gitops.RemoteCluster{Server: s.URL, CA: authority(s), Kubeconfig: []byte(fmt.Sprintf(
				`{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],"clusters":[{"name":"a","cluster":{"server":%q,"certificate-authority-data":%q}}],"users":[{"name":"a","user":{"token":"t"}}]}`,
				s.URL, base64.StdEncoding.EncodeToString(authority(s))))}, "argocd-manager-a")
			if fault.Reason(err) != c.want || !fault.Is(err, fault.Denied) {
				t.Errorf("%v, because of %s", err, fault.Reason(err))
			}
		})
	}
}
