// Package buildah builds images for tests with the real program and without a registry,
// in a directory of the test's own. What a container file starts from is played by this
// machine: its /usr, its Go, and Go's caches.
//
// It must not know what is in the images.
package buildah

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Engine is a buildah with images of its own.
type Engine struct {
	Program string // takes buildah's arguments, and is called so, for whoever is told of an engine
}

// Image is what somebody who runs an image knows of it.
type Image struct {
	Root       string // directory that its files are in, which is the engine's
	User       string
	Env        []string
	Entrypoint []string
}

// The first stage's base, which a registry would have.
var base = regexp.MustCompile(`(?m)^FROM (\S+) AS `)

// New returns an engine that can build what a container file says. It ends with the test.
func New(t testing.TB, containerfile string) *Engine {
	t.Helper()
	if os.Getenv("DROVER_TEST_NO_BUILDAH") == "1" {
		t.Skip("there is no buildah: `test/with-buildah.sh true` brings it")
	}
	if os.Getuid() != 0 {
		t.Skip("only root can give a program another root directory")
	}
	text, err := os.ReadFile(containerfile)
	if err != nil {
		t.Fatal(err)
	}
	from := base.FindSubmatch(text)
	if from == nil {
		t.Fatalf("%s names no base", containerfile)
	}
	program, err := exec.LookPath("buildah")
	if err != nil {
		t.Fatalf("there is no buildah (apt-get install -y --no-install-recommends buildah): %v", err)
	}
	dir := t.TempDir()
	store := fmt.Sprintf("%s --storage-driver vfs --root %s/store --runroot %[2]s/run", program, dir)
	volumes := "-v /usr:/usr:ro -v " + of(t, "GOROOT") + ":/goroot:ro -v " + of(t, "GOMODCACHE") + ":/modules -v " + of(t, "GOCACHE") + ":/cache"
	script := "#!/bin/sh\ncase $1 in\nbuild) shift; exec " + store + " build --isolation chroot --pull-never " + volumes + " \"$@\" ;;\nesac\nexec " + store + " \"$@\"\n"
	e := &Engine{Program: filepath.Join(dir, "buildah")}
	if err := os.WriteFile(e.Program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	// Those that the image is built with come from here.
	if out, err := exec.Command("go", "mod", "download").CombinedOutput(); err != nil {
		t.Fatalf("cannot fetch modules: %v: %s", err, out)
	}
	e.Run(t, "build", "--quiet", "-t", "localhost/"+string(from[1]), machine(t, filepath.Join(dir, "machine")))
	return e
}

func of(t testing.TB, variable string) string {
	t.Helper()
	out, err := exec.Command("go", "env", variable).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// machine lays out what is an image of this machine, once its directories are mounted.
func machine(t testing.TB, dir string) string {
	t.Helper()
	root := filepath.Join(dir, "root")
	authorities, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Fatalf("there are no authorities (apt-get install -y ca-certificates): %v", err)
	}
	certs := filepath.Join(root, "etc/ssl/certs")
	for _, d := range []string{certs, filepath.Join(root, "tmp")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range map[string][]byte{
		filepath.Join(certs, "ca-certificates.crt"): authorities,
		filepath.Join(dir, "Containerfile"): []byte("FROM scratch\nCOPY root/ /\nENV PATH=/goroot/bin:/usr/bin:/bin\n" +
			"ENV GOMODCACHE=/modules GOCACHE=/cache GOPROXY=off GOTOOLCHAIN=local\n"),
	} {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+name, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Run calls it, and returns what it prints.
func (e *Engine) Run(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command(e.Program, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("buildah %s: %v: %s%s", strings.Join(args, " "), err, said.String(), out)
	}
	return strings.TrimSpace(string(out))
}

// Image returns one that was built.
func (e *Engine) Image(t testing.TB, name string) *Image {
	t.Helper()
	var known struct{ OCIv1 struct{ Config Image } }
	if err := json.Unmarshal([]byte(e.Run(t, "inspect", "--type", "image", name)), &known); err != nil {
		t.Fatal(err)
	}
	i := known.OCIv1.Config
	i.Root = e.Run(t, "mount", e.Run(t, "from", "--pull-never", name))
	return &i
}
