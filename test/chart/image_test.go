//go:build e2e && linux

package chart_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/droverhq/drover/test/drover"
)

// image is what deploy/Containerfile puts into the last stage, read line by line: no
// container engine is needed to see whether that is enough.
type image struct {
	root string
	env  []string
	user uint32
}

func layOut(t *testing.T) *image {
	t.Helper()
	text, err := os.ReadFile("../../deploy/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	i := &image{root: t.TempDir()}
	_, last, found := strings.Cut(string(text), "FROM scratch\n")
	if !found {
		t.Fatal("the last stage is not FROM scratch: this test reads nothing else")
	}
	for _, line := range strings.Split(last, "\n") {
		word := strings.Fields(line)
		switch {
		case len(word) == 0 || strings.HasPrefix(line, "#"):
		case word[0] == "ENV":
			i.env = append(i.env, word[1])
		case word[0] == "USER":
			id, _, _ := strings.Cut(word[1], ":")
			n, err := strconv.ParseUint(id, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			i.user = uint32(n)
		case word[0] == "COPY":
			i.put(t, word[len(word)-2], word[len(word)-1], strings.Contains(line, "--chown="), strings.TrimSpace(string(goroot)))
		case word[0] == "ENTRYPOINT":
			if line != `ENTRYPOINT ["/drover"]` {
				t.Fatalf("the chart's args are those of /drover: %s", line)
			}
		default:
			t.Fatalf("this test does not know what %s does", word[0])
		}
	}
	return i
}

func (i *image) put(t *testing.T, from, to string, own bool, goroot string) {
	t.Helper()
	at := filepath.Join(i.root, to)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	switch {
	case from == "/out/drover":
		from = drover.Binary()
	case strings.HasPrefix(from, "/out/"): // directories that the build makes
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if own {
			if err := os.Chown(at, 65532, 65532); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	source, err := os.Open(strings.Replace(from, "/usr/local/go", goroot, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	target, err := os.OpenFile(at, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(target, source); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
}

// run starts the image's program with nothing else around it.
func (i *image) run(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/drover", args...)
	cmd.Dir, cmd.Env = "/", i.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: i.root, Credential: &syscall.Credential{Uid: i.user, Gid: i.user}, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func TestTheImageHasAllThatTheServerNeeds(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can give a program another root directory")
	}
	runtime.LockOSThread() // whose end would be taken for ours
	defer runtime.UnlockOSThread()
	i := layOut(t)
	if err := os.Chmod(i.root, 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(i.root); dir != os.TempDir() && len(dir) > 1; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	address := drover.FreeAddress(t)
	server := i.run(t, "server", "--listen", address)
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }() // ended below
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		if err := <-ended; err != nil {
			t.Errorf("it ended with %v: %s", err, log.String())
		}
	}()
	drover.Until(t, "the server in its image", func() bool {
		a, err := drover.Ask(drover.Request{Method: "GET", URL: "http://" + address + "/readyz", Timeout: time.Minute})
		return err == nil && a.Status == 200
	})
	// As `kubectl exec` does, by the notes of the chart.
	issue := i.run(t, "token", "--user", "you", "--org", "yours", "--admin")
	var why bytes.Buffer
	issue.Stderr = &why
	token, err := issue.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, why.String())
	}
	a := drover.Must(t, drover.Request{Method: "GET", URL: "http://" + address + "/api/v1/whoami", Token: strings.TrimSpace(string(token))})
	if a.Status != 200 || !bytes.Contains(a.Body, []byte(`"you"`)) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if info, err := os.Stat(filepath.Join(i.root, "var/lib/drover/drover.db")); err != nil || info.Sys().(*syscall.Stat_t).Uid != i.user {
		t.Errorf("the data is not where a volume would be: %v", err)
	}
}
