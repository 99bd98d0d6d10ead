package agent

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

func writeMark(dir string, m mark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return keep(dir, markFile, b)
}

// installationFile names the agent itself, over all its lives.
const installationFile = "installation"

var installationText = regexp.MustCompile(`^i[0-9a-f]{32}$`)

// installation returns the identity that Dir holds, and makes one the first
// time. A cluster belongs to one installation, so a broken one is not replaced.
func installation(dir string) (string, error) {
	path := filepath.Join(dir, installationFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		id := "i" + random() // never a number, on whichever command line it is put
		if err := keep(dir, installationFile, []byte(id+"\n")); err != nil {
			return "", fmt.Errorf("cannot write down the installation: %w", err)
		}
		return id, nil
	}
	id := strings.TrimSpace(string(b))
	if err == nil && !installationText.MatchString(id) {
		err = errors.New("it holds no installation")
	}
	if err != nil {
		return "", fmt.Errorf("cannot tell which installation this agent is from %s (restore it, or remove the file and hand the cluster over to the new one): %w", path, err)
	}
	return id, nil
}

func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// keep writes a file as a whole or not at all, readable by its owner alone.
func keep(dir, name string, b []byte) (err error) {
	f, err := os.CreateTemp(dir, "."+name+"-*")
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
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err == nil {
		syncDir(dir)
	}
	return err
}

// syncDir makes the file's name outlive a power cut. Not every system can; the
// file itself is safe.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
