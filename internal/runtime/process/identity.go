package process

import "strings"

// nonceVar carries "<nonce of the instance>.<run>" in a child's environment.
const nonceVar = "DROVER_NONCE"

// found is a process that carries a nonce of ours.
type found struct {
	pid    int
	birth  string
	nonce  string // of the instance
	run    string
	leader bool // of its session: it is the process that was started, not a child of it
}

func splitNonce(value string) (nonce, run string) {
	nonce, run, _ = strings.Cut(value, ".")
	return nonce, run
}

// proof is how one process is told from all others that had or will have its pid.
type proof struct {
	pid   int
	birth string
	nonce string
	log   string // the file that its output goes to
	own   bool   // a child that we have not reaped: nobody else can have its pid
}

// verdict of a proof. Only a match may be signalled; only a process that is
// gone may be replaced.
type verdict int

const (
	gone     verdict = iota // no such process, or another one under its pid
	match                   // pid, start time and nonce agree
	unproven                // pid and start time agree, the nonce cannot be seen
)

func (p proof) verdict() verdict {
	b, alive := birth(p.pid)
	switch {
	case !alive || p.pid <= 1 || p.birth == "" || b != p.birth:
		return gone
	case p.own || carries(p):
		return match
	}
	// It may have ended between the two looks.
	if b, alive = birth(p.pid); !alive || b != p.birth {
		return gone
	}
	return unproven
}
