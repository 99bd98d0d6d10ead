package servers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Built is a server that is compiled from a Go module of its own, so that what
// it depends on is pinned and stays out of the product's dependencies.
type Built struct {
	Name    string // "etcd"
	Version string
	Module  string   // directory with go.mod and go.sum, seen from the repository's root
	Package string   // what is compiled; default: the module itself
	Flags   string   // of the linker
	Binary  string   // the file that is made
	Links   []string // further names of the file, for one that acts by its name
	Source  Source   // default: nothing but the package is wanted of it
}

// Dir is where the server is built to, whether it is there or not. What it is
// made of is part of the name: a changed dependency is another server.
func (b Built) Dir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the cache directory: %w", err)
	}
	module, err := b.module()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, b.Package, b.Flags, b.Binary, b.Links)
	if b.Source.Path != "" {
		fmt.Fprintln(sum, b.Source)
	}
	for _, name := range []string{"go.mod", "go.sum", "main.go"} {
		data, err := os.ReadFile(filepath.Join(module, name))
		if err != nil && !(name == "main.go" && errors.Is(err, os.ErrNotExist)) {
			return "", err
		}
		fmt.Fprintln(sum, name, len(data))
		sum.Write(data)
	}
	return filepath.Join(cache, "drover", b.Name+"-"+b.Version+"-"+hex.EncodeToString(sum.Sum(nil))[:12]), nil
}

// module finds the server's module: tests run in their package's directory,
// commands in the repository's root.
func (b Built) module() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		module := filepath.Join(at, filepath.FromSlash(b.Module))
		if there(filepath.Join(module, "go.mod")) {
			return module, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("there is no %s above the working directory", b.Module)
		}
		at = filepath.Dir(at)
	}
}

// Build returns the directory with the server's files, and compiles them where
// they are missing. Of several processes one compiles and the others wait.
// Progress lines go to out.
func Build(ctx context.Context, b Built, out io.Writer) (string, error) {
	dir, err := b.Dir()
	if err != nil {
		return "", err
	}
	if there(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	stop := tell(out, "building "+b.Name+" "+b.Version)
	defer stop()
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", fmt.Errorf("cannot lock the cache: %w", err)
	}
	defer unlock()
	if there(dir) {
		return dir, nil // another process was first
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "."+b.Name+"-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return "", err
	}
	if err := b.compile(ctx, work); err != nil {
		return "", fmt.Errorf("cannot build %s %s: %w", b.Name, b.Version, err)
	}
	for _, name := range b.Links {
		if err := os.Symlink(b.Binary, filepath.Join(work, name)); err != nil {
			return "", err
		}
	}
	// The directory appears whole or not at all.
	return dir, os.Rename(work, dir)
}

// compile runs with low priority: whoever waits for tests meanwhile goes first.
func (b Built) compile(ctx context.Context, dir string) error {
	module, err := b.module()
	if err != nil {
		return err
	}
	pkg := b.Package
	if pkg == "" {
		pkg = "."
	}
	args := []string{"go", "build", "-trimpath", "-ldflags", b.Flags, "-o", filepath.Join(dir, b.Binary)}
	if b.Source.Path != "" {
		from, err := b.Source.find(ctx, module)
		if err != nil {
			return err
		}
		if err := b.Source.bring(from, dir); err != nil {
			return err
		}
		if len(b.Source.Changes) > 0 {
			work, err := os.MkdirTemp("", "drover-"+b.Name+"-")
			if err != nil {
				return err
			}
			defer os.RemoveAll(work)
			modfile, err := b.Source.change(ctx, module, from, work)
			if err != nil {
				return err
			}
			args = append(args, "-modfile="+modfile)
		}
	}
	args = append(args, pkg)
	if nice, err := exec.LookPath("nice"); err == nil {
		args = append([]string{nice, "-n", "10"}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = module
	cmd.Env = environment()
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(said[max(0, len(said)-2000):]))
	}
	return nil
}

// tell says every few seconds that something still goes on. One goroutine,
// which the returned function ends.
func tell(out io.Writer, what string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	start := time.Now()
	say := func() { fmt.Fprintf(out, "servers: %s, %s\n", what, time.Since(start).Round(time.Second)) }
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say()
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// Have returns a file of a built server that is there already.
func (b Built) Have(name string) (string, error) {
	dir, err := b.Dir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if !there(path) {
		return "", fmt.Errorf("%s %s is not there; this builds it: go run ./test/servers/fetch %s", b.Name, b.Version, b.Name)
	}
	return path, nil
}
