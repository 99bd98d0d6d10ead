package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestJavaScriptSDK(t *testing.T) {
	needs(t, "JSSDK")
	modules := filepath.Dir(cached(t, "jssdk-1.0.2", "node_modules", "@rhoas"))
	w := newWorld(t)
	w.cluster("c1", "aws", "us-east-1")
	cmd := exec.Command("node", filepath.Join("jssdk", "run.js"))
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules, "CLIENT_URL="+w.url, "CLIENT_AUTH_URL="+w.url+realm, "CLIENT_TOKEN="+w.login("alice"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "all as expected") {
		t.Fatalf("%v\n%s", err, out)
	}
	if os.Getenv("DROVER_TEST_NO_GOSDK") == "1" {
		return // the peer's document comes with it
	}
	w.check(readDocument(t, kafkaSDK, ""), readDocument(t, accountSDK, realm))
}
