// Command report turns `go test -json` into what people read: the usual line per
// package, the whole output of tests that failed, and one closing line that counts.
//
// It owns the counting. It must not know any test: what was not run because a
// server is missing, it is told by DROVER_TEST_NO_<server>.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// event is a line of `go test -json`.
type event struct {
	Action, Package, Test, Output, ImportPath string
}

// tally counts top-level tests and packages.
type tally struct {
	passed, failed, skipped int
	packages, broken        int
	names                   []string // of failed tests
}

func main() {
	name := "test"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	start := time.Now()
	t, err := read(os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
	ok := t.failed == 0 && t.broken == 0 && t.packages > 0
	fmt.Print(t.summary(name, time.Since(start), missing(os.Getenv)))
	if path := os.Getenv("DROVER_TEST_COUNTS"); path != "" {
		if err := note(path, t); err != nil {
			fmt.Fprintln(os.Stderr, "report:", err)
			ok = false
		}
	}
	if !ok {
		os.Exit(1)
	}
}

// servers that tests need, and what brings them.
var servers = []struct{ variable, name, brings string }{
	{"DROVER_TEST_NO_POSTGRES", "PostgreSQL", "apt-get install -y postgresql"},
	{"DROVER_TEST_NO_RABBITMQ", "RabbitMQ", "apt-get install -y rabbitmq-server"},
	{"DROVER_TEST_NO_BIND", "BIND", "apt-get install -y bind9"},
	{"DROVER_TEST_NO_KEYCLOAK", "Keycloak", "test/with-keycloak.sh true"},
	{"DROVER_TEST_NO_KUBERNETES", "Kubernetes", "test/with-kubernetes.sh true"},
	{"DROVER_TEST_NO_ARGOCD", "Argo CD", "test/with-kubernetes.sh test/with-argocd.sh true"},
	{"DROVER_TEST_NO_TOFU", "OpenTofu", "test/with-kubernetes.sh true"},
	{"DROVER_TEST_NO_CONSUL", "Consul", "test/with-backends.sh true"},
	{"DROVER_TEST_NO_OPENBAO", "OpenBao", "test/with-backends.sh true"},
	{"DROVER_TEST_NO_PROVIDERS", "providers of OpenTofu", "test/with-backends.sh true"},
	{"DROVER_TEST_NO_TOXIPROXY", "Toxiproxy", "test/with-backends.sh true"},
	{"DROVER_TEST_NO_MOTO", "moto (Route 53)", "test/with-dns.sh true"},
	{"DROVER_TEST_NO_GOSDK", "the Go SDK", "test/with-clients.sh true"},
	{"DROVER_TEST_NO_JSSDK", "the JavaScript SDKs", "test/with-clients.sh true"},
	{"DROVER_TEST_NO_RHOAS", "rhoas", "test/with-clients.sh true"},
	{"DROVER_TEST_NO_SYNC", "the sync module of kas-fleetshard", "DROVER_TEST_SYNC_JAR=.../quarkus-run.jar (docs/clients.md)"},
	{"DROVER_TEST_NO_PROMTOOL", "rules of Prometheus (promtool)", "test/with-promtool.sh true"},
	{"DROVER_TEST_NO_BUILDAH", "images (buildah)", "apt-get install -y --no-install-recommends buildah"},
	{"DROVER_TEST_NO_SCHEMATHESIS", "made-up requests (Schemathesis)", "test/with-schemathesis.sh true"},
}

// missing are the lines about servers that there were none of.
func missing(env func(string) string) []string {
	var out []string
	for _, s := range servers {
		if env(s.variable) == "1" {
			out = append(out, fmt.Sprintf("not run: tests on %s, because there is none. This brings it: %s", s.name, s.brings))
		}
	}
	return out
}

// read passes package lines through at once, and a test's output once it failed.
func read(in io.Reader, out io.Writer) (tally, error) {
	var t tally
	held := map[string]*strings.Builder{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(out, lines.Text()) // not of the stream: the tool itself speaks
			continue
		}
		top, _, sub := strings.Cut(e.Test, "/")
		key := e.Package + " " + top
		switch {
		case e.Action == "build-output":
			io.WriteString(out, e.Output)
		case e.Action == "output" && e.Test == "":
			// "PASS" alone says nothing beside the package's own line.
			if strings.TrimSpace(e.Output) != "PASS" {
				io.WriteString(out, e.Output)
			}
		case e.Action == "output":
			if held[key] == nil {
				held[key] = &strings.Builder{}
			}
			held[key].WriteString(e.Output)
		case e.Test == "" && (e.Action == "pass" || e.Action == "fail"):
			t.packages++
			if e.Action == "fail" {
				t.broken++
			}
		case sub && e.Action == "skip": // its test counts as passed, so nobody would hear of it
			t.skipped++
		case sub || e.Test == "":
		case e.Action == "pass":
			t.passed++
			delete(held, key)
		case e.Action == "skip":
			t.skipped++
			delete(held, key)
		case e.Action == "fail":
			t.failed++
			t.names = append(t.names, key)
			if b := held[key]; b != nil {
				io.WriteString(out, b.String())
			}
			delete(held, key)
		}
	}
	// A test that was running when its process died has no end: show what it said.
	for key, b := range held {
		fmt.Fprintf(out, "--- UNFINISHED: %s\n%s", key, b)
	}
	return t, lines.Err()
}

func (t tally) summary(name string, took time.Duration, missing []string) string {
	var b strings.Builder
	for _, n := range t.names {
		fmt.Fprintf(&b, "failed: %s\n", n)
	}
	for _, m := range missing {
		fmt.Fprintln(&b, m)
	}
	fmt.Fprintf(&b, "%s: %d passed, %d failed, %d skipped in %d packages (%d broken), %.0f s\n",
		name, t.passed, t.failed, t.skipped, t.packages, t.broken, took.Seconds())
	return b.String()
}

// note adds the counts to a file, for whoever runs several of us.
func note(path string, t tally) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, t.passed, t.failed, t.skipped, t.packages)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
