package agent

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"strings"

	v1 "github.com/droverhq/drover/api/v1"
)

// mark is the newest life of the ledger that the agent has followed. It
// outlives the agent, so that an old copy of the ledger is never obeyed.
type mark struct {
	Ledger string `json:"ledger"`
	Epoch  int64  `json:"epoch"`
}

const markName = "epoch.json"

func readMark(store Store) (mark, error) {
	var m mark
	b, err := store.Load(markName)
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
		return m, fmt.Errorf("cannot tell which ledger this agent follows from its %s (remove that to follow whichever answers): %w", markName, err)
	}
	return m, nil
}

func writeMark(store Store, m mark) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return store.Save(markName, b)
}

// refuses says why an answer must not be followed, "" if it may.
func (m mark) refuses(s v1.Synced) string {
	switch {
	case m.Ledger == "":
	case s.Ledger != m.Ledger:
		return fmt.Sprintf("the control plane has ledger %s, this agent follows %s", s.Ledger, m.Ledger)
	case s.Epoch < m.Epoch:
		return fmt.Sprintf("the control plane is in epoch %d, this agent has followed %d: it may be an old copy", s.Epoch, m.Epoch)
	}
	return ""
}

// installationName holds the name of the agent itself, over all its lives.
const installationName = "installation"

var installationText = regexp.MustCompile(`^i[0-9a-f]{32}$`)

// Installation returns the identity that the store holds, and makes one the
// first time. A cluster belongs to one installation, so a broken one is not
// replaced.
func Installation(store Store) (string, error) {
	b, err := store.Load(installationName)
	if errors.Is(err, fs.ErrNotExist) {
		id := "i" + random() // never a number, on whichever command line it is put
		if err := store.Save(installationName, []byte(id+"\n")); err != nil {
			return "", fmt.Errorf("cannot write down the installation: %w", err)
		}
		return id, nil
	}
	id := strings.TrimSpace(string(b))
	if err == nil && !installationText.MatchString(id) {
		err = errors.New("it holds no installation")
	}
	if err != nil {
		return "", fmt.Errorf("cannot tell which installation this agent is from its entry %q (restore it, or remove it and hand the cluster over to the new one): %w", installationName, err)
	}
	return id, nil
}

func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
