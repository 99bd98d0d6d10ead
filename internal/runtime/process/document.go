package process

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

// document is the part of an item's body that this runtime reads.
type document struct {
	Spec struct {
		Suspended bool              `json:"suspended"`
		Versions  map[string]string `json:"versions"`
		Endpoint  struct {
			Host string `json:"host"`
		} `json:"endpoint"`
		Process command `json:"process"`
	} `json:"spec"`
}

// command is what to run. A change of any of it restarts the process.
type command struct {
	Command []string          `json:"command"` // the first word "drover" means this executable
	Env     map[string]string `json:"env,omitempty"`
	Health  string            `json:"health,omitempty"` // path; default "/"
}

// parse reads a body. Its errors are shown to users, so they quote none of it.
func parse(body json.RawMessage) (document, error) {
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		return d, fault.New(fault.Invalid, "the desired document is not one that the process runtime can read")
	}
	p := &d.Spec.Process
	if d.Spec.Suspended {
		return d, nil
	}
	if len(p.Command) == 0 || p.Command[0] == "" {
		return d, fault.New(fault.Invalid, "the desired document has no spec.process.command: nothing to run")
	}
	for _, word := range p.Command {
		if strings.ContainsRune(word, 0) {
			return d, fault.New(fault.Invalid, "spec.process.command holds a NUL character")
		}
	}
	for k, v := range p.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return d, fault.New(fault.Invalid, "spec.process.env holds a name or value that no environment can carry")
		}
	}
	if p.Health == "" {
		p.Health = "/"
	}
	if !strings.HasPrefix(p.Health, "/") {
		return d, fault.New(fault.Invalid, "spec.process.health must be a path that starts with /")
	}
	return d, nil
}

// digest names the command, so that only a change of it restarts the process.
func (c command) digest() string {
	b, _ := json.Marshal(c) // maps are sorted; texts and maps always encode
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// host of the route, as the Host header is compared: lower case, no port.
func (d document) host() string { return canonical(d.Spec.Endpoint.Host) }
