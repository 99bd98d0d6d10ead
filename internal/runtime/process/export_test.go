package process

import (
	"time"

	"github.com/droverhq/drover/internal/program"
)

// WithStep calls f at every step that leaves something on disk or in the
// process table.
func WithStep(cfg Config, f func(string)) Config { cfg.step = f; return cfg }

// Carriers returns the pids of all living processes of the instance's nonce.
func Carriers(nonce string) ([]int, error) {
	all, err := program.Scan()
	var pids []int
	for _, f := range all {
		if f.Nonce == nonce {
			pids = append(pids, f.PID)
		}
	}
	return pids, err
}

// Kill ends a process as sweep does: only if birth and nonce prove it.
func Kill(pid int, birth, nonce string) error {
	return program.KillOne(program.Proof{PID: pid, Birth: birth, Nonce: nonce})
}

// StopGroup ends a group as stop does.
func StopGroup(pid int, birth, nonce string) error {
	return program.StopGroup(program.Proof{PID: pid, Birth: birth, Nonce: nonce})
}

// Birth of a process.
func Birth(pid int) (string, bool) { return program.Birth(pid) }

// Bound is bound.
func Bound(path string, limit int64) error { return program.Bound(path, limit) }

// Backoff is backoff.
func Backoff(failures int) time.Duration { return backoff(failures) }
