package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/program"
	"github.com/droverhq/drover/internal/runtime"
)

// item is what is wanted of one instance: <dir>/<id>/item.json, flushed to disk
// before Apply returns. After the removal it moves to <dir>/.deleted/<id>.json.
type item struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind,omitempty"`
	Epoch      int64           `json:"epoch,omitempty"`
	Generation int64           `json:"generation"`
	Token      int64           `json:"token"`
	Nonce      string          `json:"nonce"`
	Delete     bool            `json:"delete,omitempty"`
	Rejected   bool            `json:"rejected,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"`
	Proof      string          `json:"proof,omitempty"`
	Cause      string          `json:"cause,omitempty"`
	Org        string          `json:"org,omitempty"`

	buried bool // nothing but the tombstone is left
}

// step is the kind of what makes a cluster fit: here, nothing.
const step = "step"

// document is what the item says of a process; a step says nothing.
func (it item) document() (document, error) {
	if it.Kind == step {
		return document{}, nil
	}
	return parse(it.Body)
}

// seen is the item in a state.
func (it item) seen(state runtime.State, message string) runtime.Observed {
	return runtime.Observed{ID: it.ID, Kind: it.Kind, Generation: it.Generation, State: state, Message: message}
}

// child is the process of one instance: <dir>/<id>/process.json. It is written
// before the start without a pid and after it with one. It is not flushed: a
// crash of the machine that loses it has ended the process too.
type child struct {
	Run    int64  `json:"run"` // counts the starts; part of the nonce that the process carries
	Port   int    `json:"port"`
	Digest string `json:"digest"`
	PID    int    `json:"pid,omitempty"`
	Birth  string `json:"birth,omitempty"`
	Ready  bool   `json:"ready,omitempty"`
}

const deletedDir = ".deleted"

// Ids become names of directories.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func checkID(id string) error {
	if !idPattern.MatchString(id) {
		return fault.New(fault.Invalid, "an id must be 1 to 128 letters, digits, dots, dashes or underscores")
	}
	return nil
}

func (r *Runtime) home(id string) string { return filepath.Join(r.cfg.Dir, id) }

func (r *Runtime) tombstone(id string) string {
	return filepath.Join(r.cfg.Dir, deletedDir, id+".json")
}

// load reads all items and tombstones of the directory.
func (r *Runtime) load() ([]item, error) {
	entries, err := os.ReadDir(r.cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list instances: %w", err)
	}
	var items []item
	held := map[string]bool{}
	for _, e := range entries {
		if !e.IsDir() || !idPattern.MatchString(e.Name()) {
			continue
		}
		var it item
		switch err := readJSON(filepath.Join(r.home(e.Name()), "item.json"), &it); {
		case errors.Is(err, fs.ErrNotExist):
			continue // died before the first write: nothing was started
		case err != nil:
			return nil, fmt.Errorf("cannot read instance %s: %w", e.Name(), err)
		case it.ID != e.Name():
			return nil, fault.New(fault.Internal, "the directory %s holds the instance %s", e.Name(), it.ID)
		}
		held[it.ID] = true
		items = append(items, it)
	}
	graves, err := os.ReadDir(filepath.Join(r.cfg.Dir, deletedDir))
	if err != nil {
		return nil, fmt.Errorf("cannot list removed instances: %w", err)
	}
	for _, e := range graves {
		id, isJSON := cutJSON(e.Name())
		if !isJSON || held[id] {
			continue // a directory that is still there: the removal is finished first
		}
		var it item
		if err := readJSON(r.tombstone(id), &it); err != nil {
			return nil, fmt.Errorf("cannot read removed instance %s: %w", id, err)
		}
		// A removal that was cut short may have lost its item first.
		if err := os.RemoveAll(r.home(id)); err != nil {
			return nil, fmt.Errorf("cannot finish the removal of %s: %w", id, err)
		}
		it.Delete, it.buried = true, true
		items = append(items, it)
	}
	return items, nil
}

func cutJSON(name string) (string, bool) {
	if filepath.Ext(name) != ".json" {
		return "", false
	}
	id := name[:len(name)-len(".json")]
	return id, idPattern.MatchString(id)
}

func readJSON(path string, v any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// writeJSON replaces a file as a whole; with flush it survives a power cut.
func writeJSON(path string, v any, flush bool) (err error) {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b); err == nil && flush {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil && flush {
		err = program.SyncDir(filepath.Dir(path))
	}
	return err
}
