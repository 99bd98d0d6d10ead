package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/gofrs/flock"
)

// contexts is the file that remembers several servers. It may hold tokens, so
// only its owner can read it.
type contexts struct {
	Current  string                 `yaml:"current,omitempty"`
	Contexts map[string]contextItem `yaml:"contexts,omitempty"`

	path string
}

type contextItem struct {
	Server    string `yaml:"server"`
	Token     string `yaml:"token,omitempty"`
	TokenFile string `yaml:"token-file,omitempty"`
	Files     files  `yaml:",inline"`

	// Of a login, see `drover login`: when the token ends, and what renews it.
	Expires      string `yaml:"expires,omitempty"` // RFC 3339
	RefreshToken string `yaml:"refresh-token,omitempty"`
	ClientID     string `yaml:"client-id,omitempty"`
	TokenURL     string `yaml:"token-url,omitempty"`
	LogoutURL    string `yaml:"logout-url,omitempty"`
}

// nameFor is the context of a server: the current one if it is for that server,
// another that is, or one of the server's own name.
func (f *contexts) nameFor(server string) string {
	for _, name := range append([]string{f.Current}, f.names()...) {
		if item, ok := f.Contexts[name]; ok && sameServer(item.Server, server) {
			return name
		}
	}
	if u, err := url.Parse(server); err == nil && u.Host != "" {
		return u.Host
	}
	return server
}

// contextsPath is $XDG_CONFIG_HOME/drover/contexts.yaml, or where the system
// keeps such files.
func (c *CLI) contextsPath() (string, error) {
	dir := c.cfg.Getenv("XDG_CONFIG_HOME")
	if dir == "" {
		var err error
		if dir, err = os.UserConfigDir(); err != nil {
			return "", fmt.Errorf("cannot find the directory for contexts: %w", err)
		}
	}
	return filepath.Join(dir, "drover", "contexts.yaml"), nil
}

// loadContexts reads the file; one that is not there is empty.
func (c *CLI) loadContexts() (*contexts, error) {
	path, err := c.contextsPath()
	if err != nil {
		return nil, err
	}
	file := &contexts{path: path, Contexts: map[string]contextItem{}}
	data, err := readBounded(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return file, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", path, err)
	}
	if err := yaml.UnmarshalWithOptions(data, file, yaml.Strict()); err != nil {
		return nil, &usageError{text: fmt.Sprintf("cannot read the contexts in %s: %v", path, err), quiet: true}
	}
	if file.Contexts == nil {
		file.Contexts = map[string]contextItem{}
	}
	return file, nil
}

// save replaces the file in one step: a reader sees the old or the new one.
func (f *contexts) save() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("cannot save contexts: %w", err)
	}
	data, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("cannot save contexts: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(f.path), ".contexts-*") // made with mode 0600
	if err != nil {
		return fmt.Errorf("cannot save contexts: %w", err)
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), f.path)
	}
	if err != nil {
		os.Remove(tmp.Name())
		return fmt.Errorf("cannot save contexts: %w", err)
	}
	return nil
}

// editContexts changes the file while no other command does.
func (c *CLI) editContexts(ctx context.Context, edit func(*contexts) error) error {
	path, err := c.contextsPath()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot save contexts: %w", err)
	}
	lock := flock.New(path + ".lock")
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return fmt.Errorf("cannot lock the contexts: %w", err)
	}
	defer lock.Unlock()
	file, err := c.loadContexts()
	if err != nil {
		return err
	}
	if err := edit(file); err != nil {
		return err
	}
	return file.save()
}

func (f *contexts) names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// get returns a context by name, or what to do about its absence.
func (f *contexts) get(name string) (contextItem, error) {
	if item, ok := f.Contexts[name]; ok {
		return item, nil
	}
	hint := didYouMean(name, f.names())
	if hint == "" {
		hint = "; `drover config set-context NAME --server URL` makes one"
	}
	return contextItem{}, &notFoundError{"no context " + quoted(name) + hint}
}
