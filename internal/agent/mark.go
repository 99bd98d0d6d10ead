package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// mark is the newest life of the ledger that the agent has followed. It
// outlives the agent, so that an old copy of the ledger is never obeyed.
type mark struct {
	Ledger string `json:"ledger"`
	Epoch  int64  `json:"epoch"`
}

const markFile = "epoch.json"

func readMark(dir string) (mark, error) {
	var m mark
	path := filepath.Join(dir, markFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err == nil && m.Ledger == "" {
		err = errors.New("it names no ledger")
	}
	if err != nil {
		return m, fmt.Errorf("cannot tell which ledger this agent follows from %s (remove the file to follow whichever answers): %w", path, err)
	}
	return m, nil
}

func writeMark(dir string, m mark) (err error) {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".epoch-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, markFile))
	}
	return err
}
