package httpapi

import (
	"testing"
	"time"
)

// What the tests of this package look at from outside.
var (
	ParseSearch = parseSearch
	EachMember  = eachMember
	DrawGraph   = drawGraph
	Address     = compareAddress
	Without     = without
	WireRow     = wireRow
	Problem     = func(err error) answer { return answerTo(err, nil) }
)

// Of most tests entries of refused calls are written before the answer: what they find
// in the ledger afterwards is what there is to find.
func init() { maxBehind = 0 }

// WriteBehind has servers that are made until the test's end write them as they do.
func WriteBehind(t testing.TB) {
	before := maxBehind
	maxBehind = 1024
	t.Cleanup(func() { maxBehind = before })
}

// Status, Code and Reason of an answer.
func (a answer) Status() int    { return a.status }
func (a answer) Code() int      { return a.code }
func (a answer) Reason() string { return a.reason }

// Codes lists the catalogue as code to HTTP status.
func Codes() map[int]int {
	m := map[int]int{}
	for _, c := range catalogue {
		m[c.id] = c.status
	}
	return m
}

// NewTurns returns what admits agents.
func NewTurns(perSecond int) func(id string, now time.Time) time.Duration {
	return newTurns(perSecond).take
}

// Paces is what keeps answers to an agent apart.
type Paces struct{ p pace }

func (p *Paces) Answered(now time.Time, said uint64, most time.Duration) {
	p.p.answered(now, said, 0, most)
}

func (p *Paces) Wait(now time.Time, said uint64) (time.Duration, bool) { return p.p.wait(now, said) }
