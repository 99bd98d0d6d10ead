package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Source is the Go module that a server's package is of, for a server that takes
// more from it than the package.
type Source struct {
	Path    string   // of the module
	Files   []string // and directories in it that are put beside the binary, under the same names
	Changes []Change // made before it is compiled
}

// Change is made in a file where the server has no flag for it.
type Change struct{ File, Old, New string }

// find returns the directory that Go keeps the source in, and fetches it there.
func (s Source) find(ctx context.Context, module string) (string, error) {
	var said bytes.Buffer
	fetch := exec.CommandContext(ctx, "go", "mod", "download", s.Path)
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", s.Path)
	for _, cmd := range []*exec.Cmd{fetch, list} {
		cmd.Dir, cmd.Stderr, cmd.Env = module, &said, environment()
	}
	if err := fetch.Run(); err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	dir, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, bytes.TrimSpace(said.Bytes()))
	}
	return strings.TrimSpace(string(dir)), nil
}

// bring copies the files.
func (s Source) bring(from, to string) error {
	for _, name := range s.Files {
		source, target := filepath.Join(from, filepath.FromSlash(name)), filepath.Join(to, filepath.FromSlash(name))
		info, err := os.Stat(source)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := os.CopyFS(target, os.DirFS(source)); err != nil {
				return err
			}
			continue
		}
		data, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		// Modules keep no permissions, and programs that are texts are among them.
		if err := os.WriteFile(target, data, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// change copies the source into a directory, changes it there, and returns a
// go.mod that has the changed one in the place of the other.
func (s Source) change(ctx context.Context, module, from, dir string) (modfile string, err error) {
	changed := filepath.Join(dir, "source")
	if err := os.CopyFS(changed, os.DirFS(from)); err != nil {
		return "", err
	}
	for _, c := range s.Changes {
		path := filepath.Join(changed, filepath.FromSlash(c.File))
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if n := bytes.Count(data, []byte(c.Old)); n != 1 {
			return "", fmt.Errorf("%s has %q %d times, and a change wants one", c.File, c.Old, n)
		}
		if err := os.WriteFile(path, bytes.Replace(data, []byte(c.Old), []byte(c.New), 1), 0o644); err != nil {
			return "", err
		}
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			return "", err
		}
	}
	modfile = filepath.Join(dir, "go.mod")
	cmd := exec.CommandContext(ctx, "go", "mod", "edit", "-replace="+s.Path+"="+changed, modfile)
	cmd.Env = environment()
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(err, errors.New(string(said)))
	}
	return modfile, nil
}

// environment makes servers for the machine that the tests run on, whatever the
// product is being built for.
func environment() []string {
	return append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS=", "GOARCH=")
}
