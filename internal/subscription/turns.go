package subscription

import "sync"

const (
	// atATime bounds the deliveries to URLs that one process has under way.
	atATime = 8
	// ofOne bounds those of one organisation: its receivers may all be slow.
	ofOne = atATime / 2
)

// turns are the deliveries to URLs under way.
type turns struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by organisation
	// refused is how many came while it was not their turn, ever.
	refused int64
}

// take tells whether it is an organisation's turn, and since when: that is what
// others asks for. After it, leave is called.
func (t *turns) take(org string) (since int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all >= atATime || t.of[org] >= ofOne {
		t.refused++
		return 0, false
	}
	t.all++
	t.of[org]++
	return t.refused, true
}

// others tells whether somebody else was refused since a turn was taken. Whoever has
// more to tell lets them go first then: he would be back before they are.
func (t *turns) others(since int64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused > since
}

func (t *turns) leave(org string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.of[org]--; t.of[org] == 0 {
		delete(t.of, org)
	}
}
