// Package connection owns the server's connections: where executors work, with
// which credentials, and for whom.
//
// They are in files of an operator's, and never in the ledger: a secret is named
// by the file or the variable that holds it, and is read when it is needed. It
// must not know what an executor does with a connection.
package connection

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
)

// Connection is one as an operator wrote it.
type Connection struct {
	Name     string
	Executor string
	Options  map[string]string // as written: tokenFile, not token
	For      For
	folder   string // that names of files begin in
}

// For says who may use a connection.
type For struct {
	Orgs      []string `json:"orgs"`      // "*": all; none: operators alone
	Templates []string `json:"templates"` // none: all
}

// Whose is on whose behalf a connection is opened.
type Whose struct {
	Org, Template string
	Operator      bool // what is made belongs to an operator of this control plane
}

func (f For) admits(w Whose) bool {
	if len(f.Templates) > 0 && !slices.Contains(f.Templates, w.Template) {
		return false
	}
	return w.Operator || slices.Contains(f.Orgs, "*") || w.Org != "" && slices.Contains(f.Orgs, w.Org)
}

// Config of a Book.
type Config struct {
	// Paths of files, and of directories of files; none: only Own.
	Paths []string
	// Own connections are the server's, unless a file has one of the same name.
	Own []Connection
	Log *slog.Logger // default slog.Default()
}

// Book has all connections. It is safe for concurrent use.
type Book struct {
	cfg Config

	mu    sync.RWMutex
	files map[string][]Connection // by file
}

// New makes a book that has the server's own connections.
func New(c Config) *Book {
	c.Log = cmp.Or(c.Log, slog.Default())
	return &Book{cfg: c, files: map[string][]Connection{}}
}

// Load reads all files once. What is wrong with any of them is the error; those
// that are right are in force.
func (b *Book) Load() error {
	var wrong []error
	for _, p := range b.cfg.Paths {
		names := []string{p}
		if entries, err := os.ReadDir(p); err == nil {
			names = nil
			for _, e := range entries {
				if !e.IsDir() && document.Named(e.Name()) {
					names = append(names, filepath.Join(p, e.Name()))
				}
			}
		}
		for _, name := range names {
			data, err := readFile(name, maxFile)
			if err != nil {
				wrong = append(wrong, fault.New(fault.Invalid, "the file of connections cannot be read: %w", err))
				continue
			}
			if err := b.apply(name, data); err != nil {
				wrong = append(wrong, err)
			}
		}
	}
	if len(wrong) > 0 {
		return wrong[0]
	}
	return nil
}

// Watch follows the files until ctx ends. A file that is gone or broken takes
// nothing away; one that no longer has a connection does.
func (b *Book) Watch(ctx context.Context) error {
	return document.Watch{
		Paths: b.cfg.Paths, Bytes: maxFile, Log: b.cfg.Log,
		All: "connections", One: "file of connections", Stay: "its connections stay until the server is started again",
		Apply: func(_ context.Context, file string, data []byte) error { return b.apply(file, data) },
	}.Run(ctx)
}

func (b *Book) apply(file string, data []byte) error {
	all, err := Parse(file, data)
	if err != nil {
		return err
	}
	for i := range all {
		all[i].folder = filepath.Dir(file)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files[file] = all
	return nil
}

// List returns all connections, by executor and name.
func (b *Book) List() []Connection {
	b.mu.RLock()
	defer b.mu.RUnlock()
	known := map[[2]string]Connection{}
	add := func(list []Connection) {
		for _, c := range list {
			known[[2]string{c.Executor, c.Name}] = c
		}
	}
	add(b.cfg.Own)
	for _, file := range slices.Sorted(maps.Keys(b.files)) {
		add(b.files[file])
	}
	return slices.SortedFunc(maps.Values(known), func(x, y Connection) int {
		return cmp.Or(cmp.Compare(x.Executor, y.Executor), cmp.Compare(x.Name, y.Name))
	})
}

// Open returns a connection with its secrets, read now.
func (b *Book) Open(_ context.Context, kind, name string, whose Whose) (executor.Connection, error) {
	name = cmp.Or(name, "default")
	for _, c := range b.List() {
		if c.Executor != kind || c.Name != name {
			continue
		}
		if !c.For.admits(whose) {
			return nil, fault.New(fault.Denied, "connection %q of executor %s is not for this organisation and template; an operator can add them to what it is for", name, kind).Because("not-for-you")
		}
		return c.open()
	}
	return nil, fault.New(fault.Invalid, "there is no connection %q of executor %s; an operator adds it to the server's file of connections", name, kind).Because("no-connection")
}

// open reads what options refer to.
func (c Connection) open() (executor.Connection, error) {
	out := executor.Connection{}
	for option, value := range c.Options {
		if name, ok := strings.CutSuffix(option, "File"); ok && name != "" {
			if !filepath.IsAbs(value) {
				value = filepath.Join(c.folder, value)
			}
			data, err := readFile(value, maxSecret)
			if err != nil {
				// It may be mounted, or written, in a moment.
				return nil, fault.New(fault.Unavailable, "%s of connection %q cannot be read; see that the server may read the file", option, c.Name)
			}
			if out[name] = strings.TrimSpace(string(data)); out[name] == "" {
				return nil, fault.New(fault.Unavailable, "%s of connection %q is empty; write the secret into the file", option, c.Name)
			}
			continue
		}
		if name, ok := strings.CutSuffix(option, "Env"); ok && name != "" {
			if out[name] = strings.TrimSpace(os.Getenv(value)); out[name] == "" {
				return nil, fault.New(fault.Invalid, "%s of connection %q names a variable that is empty; set it for the server", option, c.Name)
			}
			continue
		}
		out[option] = value
	}
	return out, nil
}

const (
	maxFile   = 1 << 20
	maxSecret = 256 << 10
)

func readFile(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fault.New(fault.Invalid, "%s has more than %d bytes", name, most)
	}
	return data, err
}
