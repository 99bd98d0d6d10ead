package httpapi

import "time"

// What the tests of this package look at from outside.
var (
	ParseSearch = parseSearch
	EachMember  = eachMember
	DrawGraph   = drawGraph
	Address     = compareAddress
	Problem     = func(err error) answer { return answerTo(err, nil) }
)

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
