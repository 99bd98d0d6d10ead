package drover_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// called is where calls leave the process: each file that makes a client, a dialer or
// a program, and the rows of docs/stability.md that say what bounds it. One that is
// not here is a call that the page does not tell of.
var called = map[string][]string{
	"api/client/client.go":                  {"command line, and everybody who uses the Go client", "agent: its line to the control plane"},
	"internal/access/authenticator.go":      {"keys of an issuer of tokens"},
	"internal/app/agent.go":                 {"agent: its line to the control plane"},
	"internal/app/bootstrap_kubernetes.go":  {"programs of this machine", "bootstrap: its cluster, and through it the new Drover, PostgreSQL and RabbitMQ"},
	"internal/app/bootstrap_tunnel.go":      {"bootstrap: its cluster, and through it the new Drover, PostgreSQL and RabbitMQ"},
	"internal/app/drill.go":                 {"programs of this machine"},
	"internal/app/outward.go":               {"keys of an issuer of tokens", "GitHub's list of repositories, at bootstrap"},
	"internal/app/site_peer.go":             {"the other site", "the witness"},
	"internal/bus/rabbitmq/link.go":         {"broker, connecting"},
	"internal/cli/login.go":                 {"programs of this machine"},
	"internal/app/names.go":                 {"the machine's own resolver"},
	"internal/app/tracing.go":               {"collector of traces"},
	"internal/discovery/consul/consul.go":   {"Consul, for names"},
	"internal/dns/rfc2136/line.go":          {"name servers, writing"},
	"internal/dns/route53/route53.go":       {"name servers, writing"},
	"internal/dns/witness.go":               {"name servers that must show what was written"},
	"internal/discovery/dial.go":            {"Consul, through which hosts are found"},
	"internal/entitlement/remote/remote.go": {"account management service"},
	"internal/environment/probe.go":         {"endpoints of environments that are probed"},
	"internal/executor/action/download.go":  {"executor `action`: downloads of programs"},
	"internal/executor/action/run.go":       {"programs of this machine"},
	"internal/executor/consul/client.go":    {"Consul, Vault", "Consul, what is held until something changes"},
	"internal/executor/process/health.go":   {"executor `process`: health checks"},
	"internal/executor/process/run.go":      {"programs of this machine"},
	"internal/hook/hook.go":                 {"hooks of offerings", "receivers of webhooks"},
	"internal/kubeapi/remote/client.go":     {"clusters that tenants bring along"},
	"internal/manifest/manifest.go": {"Kubernetes APIs of resources", "Kubernetes API of the custom resources", "agent: its cluster's API server",
		"clusters that the control plane reaches by a kubeconfig", "bootstrap: its cluster, and through it the new Drover, PostgreSQL and RabbitMQ"},
	"internal/metric/prometheus/prometheus.go": {"metrics of instances"},
	"internal/program/identity_darwin.go":      {"programs of this machine"},
	"internal/runtime/argocd/redis.go":         {"agent: Argo CD's Redis, for the lines of differences"},
	"internal/runtime/keep/lead.go":            {"agent: its cluster's API server"},
	"internal/runtime/process/health.go":       {"agent: health checks of its processes, and its routes to them"},
	"internal/runtime/process/routes.go":       {"agent: health checks of its processes, and its routes to them"},
	"internal/runtime/process/spawn.go":        {"programs of this machine"},
	"internal/source/git/stream.go":            {"Git", "programs of this machine"},
	"internal/source/git/web.go":               {"Git"},
	"internal/sqlledger/login.go":              {"database, connecting, and the connection that hears of others' changes"},
	"internal/sqlledger/postgres.go":           {"database, the first call", "database, once a first call has failed", "database, connecting, and the connection that hears of others' changes"},
	"internal/sso/keycloak/keycloak.go":        {"identity provider"},
	"internal/tofu/work.go":                    {"programs of this machine"},
	"internal/vault/vault.go":                  {"Consul, Vault", "Vault, for Drover's own credentials"},
	"internal/transport/transport.go":          {"Consul, Vault", "Vault, for Drover's own credentials", "Consul, for names"},
}

// What calls leave by, of the standard library and of each library that has its own:
// types that are made, functions that make or use one, and those that are there.
var (
	ways  = []string{"http.Client", "net.Dialer", "tls.Dialer", "net.Resolver", "dns.Client"}
	makes = []string{
		"exec.Command", "exec.CommandContext", "os.StartProcess", "http.Get", "http.Post", "http.Head", "http.PostForm",
		"net.Dial", "net.DialTimeout", "tls.Dial", "tls.DialWithDialer",
		"net.LookupHost", "net.LookupIP", "net.LookupAddr", "net.LookupSRV", "net.LookupTXT", "net.LookupCNAME",
		"dns.Dial", "dns.DialTimeout", "dns.Exchange", "dns.ExchangeContext", "ssh.Dial", "smtp.Dial", "smtp.SendMail",
		"pgxpool.New", "pgxpool.NewWithConfig", "pgx.Connect", "pgx.ConnectConfig", "pgconn.Connect", "pgconn.ConnectConfig",
		"amqp.Dial", "amqp.DialTLS", "amqp.DialConfig", "gocloak.NewClient",
		"config.LoadDefaultConfig", "route53.New", "route53.NewFromConfig",
		"rest.HTTPClientFor", "rest.RESTClientFor", "kubernetes.NewForConfig", "dynamic.NewForConfig", "metadata.NewForConfig", "spdy.RoundTripperFor",
		"otlptracehttp.New", "otlptracegrpc.New", "api.NewClient",
	}
	there = []string{"http.DefaultClient", "net.DefaultResolver"}
)

// leaves tells whether an expression makes what calls leave by.
func leaves(n ast.Node) bool {
	named := func(e ast.Expr, all ...string) bool {
		s, ok := e.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		of, ok := s.X.(*ast.Ident)
		return ok && slices.Contains(all, of.Name+"."+s.Sel.Name)
	}
	switch n := n.(type) {
	case *ast.CompositeLit:
		return named(n.Type, ways...)
	case *ast.ValueSpec:
		return n.Type != nil && named(n.Type, ways...)
	case *ast.CallExpr:
		if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "new" && len(n.Args) == 1 {
			return named(n.Args[0], ways...)
		}
		return named(n.Fun, makes...)
	case *ast.SelectorExpr:
		return named(n, there...)
	}
	return false
}

func TestLeaves(t *testing.T) {
	for code, want := range map[string]bool{
		"&http.Client{Timeout: 1}": true, "http.Client{}": true, "(&net.Dialer{}).DialContext": true, "new(net.Dialer)": true,
		"exec.Command(a)": true, "exec.CommandContext(ctx, a)": true, "http.DefaultClient.Do(r)": true, "http.Get(u)": true,
		"&dns.Client{Net: a}": true, "net.DefaultResolver.LookupHost(ctx, a)": true, "pgxpool.NewWithConfig(ctx, c)": true, "pgx.ConnectConfig(ctx, c)": true,
		"rest.HTTPClientFor(c)": true, "route53.NewFromConfig(c)": true, "gocloak.NewClient(u)": true, "otlptracehttp.New(ctx, o)": true, "otlptracehttp.WithTimeout(d)": false, "api.NewClient(c)": true, "gocloak.Client{}": false, "pgxpool.ParseConfig(u)": false,
		"http.Request{}": false, "program.Command(a)": false, "net.Listen(a, b)": false, "*http.Client(nil)": false,
	} {
		e, err := parser.ParseExpr(code)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		ast.Inspect(e, func(n ast.Node) bool { found = found || n != nil && leaves(n); return true })
		if found != want {
			t.Errorf("%s: %v", code, found)
		}
	}
}

// rows are the first cells of the tables of calls.
func rows(t *testing.T) (out []string) {
	t.Helper()
	page, err := os.ReadFile("docs/stability.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, found := strings.Cut(string(page), "\n## Every call out")
	if !found {
		t.Fatal("the page has no tables of calls any more")
	}
	for line := range strings.SplitSeq(tables, "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 3 && !strings.HasPrefix(cells[1], "---") && strings.TrimSpace(cells[1]) != "to" {
			out = append(out, strings.TrimSpace(cells[1]))
		}
	}
	return out
}

// Every call that leaves the process is in one of the page's tables.
func TestEveryCallOutIsOnThePage(t *testing.T) {
	all, seen := rows(t), map[string]bool{}
	for _, root := range []string{"cmd", "internal", "api"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(filepath.Dir(path), "test") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if n != nil && leaves(n) {
					seen[path] = true
				}
				return true
			})
			if seen[path] && called[path] == nil {
				t.Errorf("%s calls out: give it a row in docs/stability.md (a policy, or why it has none and what bounds it), and name the row here", path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, names := range called {
		if !seen[path] {
			t.Errorf("%s calls nobody any more", path)
		}
		for _, name := range names {
			if !slices.ContainsFunc(all, func(row string) bool { return row == name || strings.HasPrefix(row, name+" (") }) {
				t.Errorf("%s: no row of docs/stability.md is of %q", path, name)
			}
		}
	}
}
