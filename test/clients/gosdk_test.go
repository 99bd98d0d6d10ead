package clients

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

const (
	kafkaSDK   = "github.com/redhat-developer/app-services-sdk-core/app-services-sdk-go/kafkamgmt"
	accountSDK = "github.com/redhat-developer/app-services-sdk-core/app-services-sdk-go/serviceaccountmgmt"
)

// needs ends the test where a client could not be had.
func needs(t *testing.T, name string) {
	t.Helper()
	if os.Getenv("DROVER_TEST_NO_"+name) == "1" {
		t.Skip("this client is not there: `test/with-clients.sh true` brings it")
	}
}

// cached is a file that test/with-clients.sh has brought.
func cached(t *testing.T, path ...string) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(append([]string{dir, "drover"}, path...)...)
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("run the tests by test/with-clients.sh, or set DROVER_TEST_NO_... as it says: %v", err)
	}
	return file
}

// goModule is the directory of a module that the Go SDK's tests use.
func goModule(t *testing.T, module string) string {
	t.Helper()
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = "gosdk"
	out, err := cmd.Output()
	var m struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(out, &m)
	}
	if err != nil || m.Dir == "" {
		t.Fatalf("cannot find %s: %v %s", module, err, out)
	}
	return m.Dir
}

// TestGoSDK runs gosdk, a module of its own: every operation of the SDK's
// services, with typed results. What came over the wire is checked here.
func TestGoSDK(t *testing.T) {
	needs(t, "GOSDK")
	w := newWorld(t)
	w.cluster("c1", "aws", "us-east-1")
	// Built first: it may take longer than a token lasts.
	program := filepath.Join(t.TempDir(), "gosdk.test")
	build := exec.Command("go", "test", "-c", "-o", program, ".")
	build.Dir, build.Env = "gosdk", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "-test.v", "-test.timeout=10m")
	cmd.Dir = "gosdk"
	cmd.Env = append(os.Environ(), "CLIENT_URL="+w.url, "CLIENT_AUTH_URL="+w.url+realm,
		"CLIENT_TOKEN="+w.login("alice"), "CLIENT_TOKEN_TRIAL="+w.login("carol"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	kafkas, accounts := readDocument(t, kafkaSDK, ""), readDocument(t, accountSDK, realm)
	good, deviated := w.check(kafkas, accounts)
	var missing []string
	for path, methods := range kafkas.paths {
		for method := range methods {
			if key := strings.ToUpper(method) + " " + path; !good[key] {
				missing = append(missing, key)
			}
		}
	}
	for path, methods := range accounts.paths {
		for method := range methods {
			// The other paths of that document are not of service accounts.
			if key := strings.ToUpper(method) + " " + path; strings.HasPrefix(path, "/apis/service_accounts/") && !good[key] {
				missing = append(missing, key)
			}
		}
	}
	sort.Strings(missing)
	if len(missing) > 0 {
		t.Errorf("operations that nobody has brought to a good end:\n%s", strings.Join(missing, "\n"))
	}
	for d := range deviations {
		if !deviated[d] {
			t.Errorf("%s does not deviate any more: take it out of the list", d)
		}
	}
	for _, e := range w.exchanges() {
		if _, ok := kafkas.operation(e.path); ok {
			for _, at := range nulls(e.body) {
				t.Errorf("%s %s %d: %s is null; empty means absent", e.method, e.path, e.status, at)
			}
		}
	}
}
