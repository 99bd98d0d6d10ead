package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/fault"
	testkube "github.com/droverhq/drover/test/kubernetes"
)

func TestServiceOf(t *testing.T) {
	for _, tc := range []struct {
		host, namespace, name string
		ok                    bool
		reason                string
	}{
		{"postgres.meta.svc", "meta", "postgres", true, "as templates write it"},
		{"postgres.meta.svc.cluster.local", "meta", "postgres", true, "with the cluster's domain"},
		{"postgres", "", "", false, "it may be any host"},
		{"postgres.meta", "", "", false, "it may be any host"},
		{"db.svc.example.org", "", "", false, "a host of somebody's domain"},
		{".meta.svc", "", "", false, "it has no name"},
		{"127.0.0.1", "", "", false, "an address"},
		{"", "", "", false, "nothing"},
	} {
		if namespace, name, ok := app.ServiceOf(tc.host); namespace != tc.namespace || name != tc.name || ok != tc.ok {
			t.Errorf("%q is %q of %q, %v (%s)", tc.host, name, namespace, ok, tc.reason)
		}
	}
}

// Only what is within the cluster is led through it, and nothing but the host changes.
func TestTunnelLeadsToServices(t *testing.T) {
	for _, tc := range []struct{ address, through, reason string }{
		{"postgres://drover:a%2Fb@postgres.meta.svc:5432/drover?sslmode=disable", "postgres://drover:a%2Fb@127.0.0.1:7/drover?sslmode=disable", "a service"},
		{"postgres://drover@db.example.org:5432/drover", "postgres://drover@db.example.org:5432/drover", "a database elsewhere"},
		{"host=/run/postgresql user=drover", "host=/run/postgresql user=drover", "no URL"},
		{"", "", "no output"},
	} {
		none, through, err := app.Throughout(tc.address, "postgres.meta.svc:5432", "127.0.0.1:7")
		if err != nil || none != tc.address || through != tc.through {
			t.Errorf("%s leads to %s, without a tunnel to %s: %v", tc.reason, through, none, err)
		}
	}
	if _, _, err := app.Throughout("amqp://rabbitmq.meta.svc", "", ""); !fault.Is(err, fault.Invalid) {
		t.Errorf("a service without a port: %v", err)
	}
}

// pods is as much of an API server as a tunnel asks for: the service db of the
// namespace meta, its pods, and the way into them, in SPDY alone.
type pods struct {
	list []map[string]any
	lead testkube.Forwarder
}

func podOf(name, phase, ready string) map[string]any {
	return map[string]any{"metadata": map[string]any{"name": name, "namespace": "meta", "labels": map[string]any{"app": "db"}},
		"spec":   map[string]any{"containers": []any{map[string]any{"name": "db", "ports": []any{map[string]any{"name": "main", "containerPort": 4711}}}}},
		"status": map[string]any{"phase": phase, "conditions": []any{map[string]any{"type": "Ready", "status": ready}}}}
}

func (p pods) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tell := func(kind string, more map[string]any) {
		out := map[string]any{"apiVersion": "v1", "kind": kind}
		for k, v := range more {
			out[k] = v
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
	}
	const room = "/api/v1/namespaces/meta/"
	name, forward := strings.CutSuffix(r.URL.Path, "/portforward")
	switch {
	case forward && r.Method == http.MethodPost:
		p.lead.Lead(w, r, "meta", strings.TrimPrefix(name, room+"pods/"))
	case forward:
		http.Error(w, "no WebSockets", http.StatusBadRequest)
	case r.URL.Path == "/api":
		tell("APIVersions", map[string]any{"versions": []any{"v1"}})
	case r.URL.Path == "/apis":
		tell("APIGroupList", map[string]any{"groups": []any{}})
	case r.URL.Path == "/api/v1":
		tell("APIResourceList", map[string]any{"groupVersion": "v1", "resources": []any{
			map[string]any{"name": "services", "kind": "Service", "namespaced": true, "verbs": []any{"get"}}, map[string]any{"name": "secrets", "kind": "Secret", "namespaced": true, "verbs": []any{"get"}}, map[string]any{"name": "pods", "kind": "Pod", "namespaced": true, "verbs": []any{"list"}}}})
	case r.URL.Path == room+"services/db":
		tell("Service", map[string]any{"metadata": map[string]any{"name": "db", "namespace": "meta"}, "spec": map[string]any{"selector": map[string]any{"app": "db"}, "ports": []any{map[string]any{"port": 5432, "targetPort": "main"}}}})
	case r.URL.Path == room+"secrets/keys":
		tell("Secret", map[string]any{"metadata": map[string]any{"name": "keys", "namespace": "meta"}, "data": map[string]any{"ca.crt": "YQ==", "client.crt": "Yg==", "client.key": "Yw=="}})
	case r.URL.Path == room+"secrets/half":
		tell("Secret", map[string]any{"metadata": map[string]any{"name": "half", "namespace": "meta"}, "data": map[string]any{"ca.crt": "YQ==", "client.crt": "Yg=="}})
	case r.URL.Path == room+"services/hidden" || r.URL.Path == room+"secrets/hidden":
		w.WriteHeader(http.StatusForbidden)
		tell("Status", map[string]any{"status": "Failure", "reason": "Forbidden", "code": 403, "message": "no right"})
	case r.URL.Path == room+"pods" && r.URL.Query().Get("labelSelector") == "app=db":
		tell("PodList", map[string]any{"items": p.list})
	default:
		w.WriteHeader(http.StatusNotFound)
		tell("Status", map[string]any{"status": "Failure", "reason": "NotFound", "code": 404})
	}
}

// dug is a tunnel to an API server that knows no WebSockets.
func dug(t *testing.T, p pods) (at func(string) (string, error), inside context.Context, server *httptest.Server) {
	t.Helper()
	server = httptest.NewServer(p)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	at, inside, end, err := app.Dig(t.Context(), kubeconfigOf(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return at, inside, server
}

func kubeconfigOf(server *httptest.Server) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: {server: %q}}]\nusers: [{name: a, user: {token: t}}]\n", server.URL)
}

// What opens the database is taken out of a secret of its namespace, for nobody else to
// read here.
func TestKeysOfASecret(t *testing.T) {
	server := httptest.NewServer(pods{})
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	dir := filepath.Join(t.TempDir(), "keys")
	files, err := app.KeysOf(t.Context(), kubeconfigOf(server), dir, "db.meta.svc", "keys")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"ca": "a", "certificate": "b", "key": "c"} {
		info, err := os.Stat(files[name])
		data, _ := os.ReadFile(files[name])
		if err != nil || string(data) != want || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %q, %v, %v", name, data, info, err)
		}
	}
	for _, tc := range []struct {
		host, secret string
		want         fault.Kind
		reason       string
	}{
		{"db.meta.svc", "none", fault.NotFound, "there is no such secret"},
		{"db.meta.svc", "hidden", fault.Denied, "it may not be read"},
		{"db.meta.svc", "half", fault.Invalid, "it has no key"},
		{"db.example.org", "keys", fault.Invalid, "the database is elsewhere"},
	} {
		if _, err := app.KeysOf(t.Context(), kubeconfigOf(server), dir, tc.host, tc.secret); !fault.Is(err, tc.want) {
			t.Errorf("%s of %s: %v (%s)", tc.secret, tc.host, err, tc.reason)
		}
	}
}

func TestTunnel(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	go func() { // ends with the listener
		for {
			c, err := inner.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	at, inside, _ := dug(t, pods{list: []map[string]any{podOf("db-0", "Running", "False"), podOf("db-1", "Pending", "True"), podOf("db-2", "Running", "True")},
		lead: func(namespace, pod string, port int) (string, error) {
			if namespace != "meta" || pod != "db-2" || port != 4711 {
				return "", errors.New("refused")
			}
			return inner.Addr().String(), nil
		}})
	through, err := at("postgres://a:b@db.meta.svc:5432/c")
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(through)
	for range 3 { // one tunnel, any number of connections
		c, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "here")
		_ = c.(*net.TCPConn).CloseWrite()
		said, err := io.ReadAll(c)
		if string(said) != "here" || err != nil {
			t.Errorf("through the tunnel: %q, %v", said, err)
		}
		c.Close()
	}
	if again, err := at("postgres://db.meta.svc:5432/other"); err != nil || !strings.Contains(again, u.Host) {
		t.Errorf("the second time it is %s, and was %s: %v", again, u.Host, err)
	}
	for _, tc := range []struct {
		address string
		want    fault.Kind
		reason  string
	}{
		{"postgres://db.meta.svc:5433", fault.Invalid, "the service has no such port"},
		{"postgres://nobody.meta.svc:5432", fault.NotFound, "there is no such service"},
		{"postgres://hidden.meta.svc:5432", fault.Denied, "it may not be looked up"},
	} {
		if _, err := at(tc.address); !fault.Is(err, tc.want) {
			t.Errorf("%s: %v (%s)", tc.address, err, tc.reason)
		}
	}
	if inside.Err() != nil {
		t.Errorf("the tunnel has ended: %v", context.Cause(inside))
	}
}

// What goes through a tunnel does not wait for one that is gone.
func TestTunnelIsLost(t *testing.T) {
	at, _, _ := dug(t, pods{list: []map[string]any{podOf("db-0", "Pending", "False")}})
	if _, err := at("postgres://db.meta.svc:5432"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("no pod is ready: %v", err)
	}
	refused := func(string, string, int) (string, error) { return "", errors.New("connection refused") }
	at, inside, _ := dug(t, pods{list: []map[string]any{podOf("db-0", "Running", "True")}, lead: refused})
	through, err := at("tcp://db.meta.svc:5432")
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(through)
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	<-inside.Done()
	if err := context.Cause(inside); !fault.Is(err, fault.Unavailable) || fault.Reason(err) != "tunnel" {
		t.Errorf("it was lost by %v", err)
	}
}
