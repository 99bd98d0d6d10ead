package template

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/tofu"
)

// memory is what the caller keeps of a cluster: OpenTofu's state, which lies on
// disk besides, and the key that both are encrypted with.
type memory struct {
	Key   string `json:"key"`
	State []byte `json:"state,omitempty"` // as OpenTofu encrypted it
}

const stateFile = "terraform.tfstate"

// remember finds what is known of the cluster's making: the newer of what the
// caller kept and of what lies on this machine, from a run that was killed. The
// key is kept before anything is made.
func (r *run) remember(ctx context.Context) error {
	if r.cluster.State != nil {
		if err := json.Unmarshal(r.cluster.State, &r.memory); err != nil || r.memory.Key == "" {
			return fault.New(fault.Internal, "what was kept of cluster %s cannot be read", r.cluster.ID)
		}
	}
	if r.memory.Key == "" {
		var key [32]byte
		_, _ = rand.Read(key[:]) // never fails
		r.memory.Key = hex.EncodeToString(key[:])
		if err := r.save(ctx); err != nil {
			return err
		}
	}
	path := filepath.Join(r.dir, stateFile)
	here, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fault.New(fault.Unavailable, "cannot read the state of cluster %s: %w", r.cluster.ID, err)
	}
	if len(here) > 0 && newer(here, r.memory.State) {
		r.memory.State = here
		return r.save(ctx)
	}
	if len(r.memory.State) == 0 {
		return nil
	}
	if err := os.WriteFile(path, r.memory.State, 0o600); err != nil {
		return fault.New(fault.Unavailable, "cannot write the state of cluster %s: %w", r.cluster.ID, err)
	}
	return nil
}

// newer reports whether a state on disk goes on from the kept one.
func newer(here, kept []byte) bool {
	type head struct {
		Lineage string `json:"lineage"`
		Serial  int64  `json:"serial"`
	}
	var a, b head
	if json.Unmarshal(here, &a) != nil || a.Lineage == "" {
		return false
	}
	if len(kept) == 0 {
		return true
	}
	return json.Unmarshal(kept, &b) == nil && a.Lineage == b.Lineage && a.Serial > b.Serial
}

func (r *run) save(ctx context.Context) error {
	data, err := json.Marshal(r.memory)
	if err != nil {
		return err
	}
	if err := r.cluster.Save(ctx, data); err != nil {
		return fault.New(fault.Unavailable, "cannot keep the state of cluster %s: %w", r.cluster.ID, err)
	}
	return nil
}

// saveEvery is how old the kept state may be while OpenTofu runs.
const saveEvery = time.Second

// keeping keeps the state whenever it has changed while work goes on, and after
// it, however it ended. One goroutine, which ends before keeping returns.
func (r *run) keeping(ctx context.Context, work func() error) error {
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(saveEvery)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				_ = r.keep(ctx) // tried again in a second, and at the end
			}
		}
	}()
	worked := work()
	close(done)
	<-ended
	// A caller that has ended still has to know what was made.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	return errors.Join(worked, r.keep(last))
}

func (r *run) keep(ctx context.Context) error {
	here, err := os.ReadFile(filepath.Join(r.dir, stateFile))
	if errors.Is(err, os.ErrNotExist) || err == nil && (bytes.Equal(here, r.memory.State) || !json.Valid(here)) {
		return nil // half written: the next look sees all of it
	}
	if err != nil {
		return err
	}
	r.memory.State = here
	return r.save(ctx)
}

// environment of OpenTofu: the server's own, with the encryption of everything
// that it writes.
func (r *run) environment() map[string]string {
	env := tofu.Environment()
	env["TF_ENCRYPTION"] = tofu.Encryption(r.memory.Key, "state", "plan")
	return env
}
