//go:build e2e && linux

package chart_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/droverhq/drover/test/buildah"
	"github.com/droverhq/drover/test/drover"
)

// inImage starts the image's program with nothing else around it.
func inImage(t *testing.T, i *buildah.Image, args ...string) *exec.Cmd {
	t.Helper()
	user, group, _ := strings.Cut(i.User, ":")
	u, err := strconv.ParseUint(user, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	g, err := strconv.ParseUint(group, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	line := append(slices.Clone(i.Entrypoint), args...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir, cmd.Env = "/", i.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: i.Root, Credential: &syscall.Credential{Uid: uint32(u), Gid: uint32(g)}, Pdeathsig: syscall.SIGKILL}
	return cmd
}

func TestTheImageHasAllThatTheServerNeeds(t *testing.T) {
	engine := buildah.New(t, containerfile)
	const name = "localhost/drover:v1.2.3"
	engine.Run(t, "build", "--quiet", "-f", containerfile, "-t", name, "--build-arg", "VERSION=v1.2.3", "../..")
	i := engine.Image(t, name)

	for path, want := range map[string]struct {
		mode  fs.FileMode
		owner uint32
	}{
		"tmp":            {fs.ModeDir | fs.ModeSticky | 0o777, 0}, // for whatever user it is run as
		"var/lib":        {fs.ModeDir | 0o755, 0},
		"var/lib/drover": {fs.ModeDir | 0o755, 65532},
		"drover":         {0o755, 0},
	} {
		info, err := os.Stat(filepath.Join(i.Root, path))
		if err != nil {
			t.Fatal(err)
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; info.Mode() != want.mode || owner != want.owner {
			t.Errorf("/%s is %s of %d, want %s of %d", path, info.Mode(), owner, want.mode, want.owner)
		}
	}

	runtime.LockOSThread() // whose end would be taken for ours
	defer runtime.UnlockOSThread()
	// For that user; no further up than the test's own directories.
	for dir := i.Root; strings.Contains(dir, t.Name()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := inImage(t, i, "version").CombinedOutput(); err != nil || !strings.Contains(string(said), "v1.2.3") {
		t.Errorf("it is %q: %v", said, err)
	}
	address := drover.FreeAddress(t)
	server := inImage(t, i, "server", "--listen", address)
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
	issue := inImage(t, i, "token", "--user", "you", "--org", "yours", "--admin")
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
	if info, err := os.Stat(filepath.Join(i.Root, "var/lib/drover/drover.db")); err != nil || info.Sys().(*syscall.Stat_t).Uid != 65532 {
		t.Errorf("the data is not where a volume would be: %v", err)
	}
}
