package process

import "time"

// WithStep calls f at every step that leaves something on disk or in the
// process table.
func WithStep(cfg Config, f func(string)) Config { cfg.step = f; return cfg }

// Carriers returns the pids of all living processes of the instance's nonce.
func Carriers(nonce string) ([]int, error) {
	all, err := scan()
	var pids []int
	for _, f := range all {
		if f.nonce == nonce {
			pids = append(pids, f.pid)
		}
	}
	return pids, err
}

// Kill ends a process as sweep does: only if birth and nonce prove it.
func Kill(pid int, birth, nonce string) error {
	return killOne(proof{pid: pid, birth: birth, nonce: nonce})
}

// StopGroup ends a group as stop does.
func StopGroup(pid int, birth, nonce string) error {
	return stopGroup(proof{pid: pid, birth: birth, nonce: nonce})
}

// Birth of a process.
func Birth(pid int) (string, bool) { return birth(pid) }

// Bound is bound.
func Bound(path string, limit int64) error { return bound(path, limit) }

// Backoff is backoff.
func Backoff(failures int) time.Duration { return backoff(failures) }
