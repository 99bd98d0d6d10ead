// Package program is how processes of this machine are known that outlive whoever
// has started them: by pid, start time and a nonce that they carry.
//
// It owns recognising, finding and ending them. It must not know what they are
// for, nor where that is written down.
package program

import "strings"

// NonceVar carries "<nonce>.<run>" in a child's environment.
const NonceVar = "DROVER_NONCE"

// Found is a process that carries a nonce of ours.
type Found struct {
	PID    int
	Birth  string // start time, such that no two processes of one pid share it
	Nonce  string // of whom it was started for
	Run    string // which start it was
	Leader bool   // of its session: it is the process that was started, not a child of it
}

func splitNonce(value string) (nonce, run string) {
	nonce, run, _ = strings.Cut(value, ".")
	return nonce, run
}

// Proof is how one process is told from all others that had or will have its pid.
type Proof struct {
	PID   int
	Birth string
	Nonce string
	Log   string // the file that its output goes to
	Own   bool   // a child that we have not reaped: nobody else can have its pid
}

// Verdict of a proof. Only a match may be signalled; only a process that is
// gone may be replaced.
type Verdict int

// Verdicts.
const (
	Gone     Verdict = iota // no such process, or another one under its pid
	Match                   // pid, start time and nonce agree
	Unproven                // pid and start time agree, the nonce cannot be seen
)

// Verdict looks at the process.
func (p Proof) Verdict() Verdict {
	b, alive := Birth(p.PID)
	switch {
	case !alive || p.PID <= 1 || p.Birth == "" || b != p.Birth:
		return Gone
	case p.Own || carries(p):
		return Match
	}
	// It may have ended between the two looks.
	if b, alive = Birth(p.PID); !alive || b != p.Birth {
		return Gone
	}
	return Unproven
}
