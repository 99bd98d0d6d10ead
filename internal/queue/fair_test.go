package queue_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/queue"
)

func tenantOf(k string) string { t, _, _ := strings.Cut(k, "/"); return t }

// TestTurns shows the point: one among a thousand of somebody else's is second.
func TestTurns(t *testing.T) {
	q := queue.NewFair(tenantOf, nil)
	for i := range 1000 {
		q.Push(fmt.Sprintf("loud/%d", i))
	}
	q.Push("quiet/0")
	if first, second := q.Pop(), q.Pop(); first != "loud/0" || second != "quiet/0" {
		t.Fatalf("first came %s, then %s", first, second)
	}
	if next := q.Pop(); next != "loud/1" || q.Len() != 998 {
		t.Fatalf("then came %s, and %d wait", next, q.Len())
	}
}

// model is a queue as simple as it can be: a list of those that wait, and when each
// tenant had its last turn or began to wait.
type model struct {
	waits []*waiting
	turns []string // tenants, the next one first
}

type waiting struct {
	key    string
	rank   int
	ticket int
}

func (m *model) pop() string {
	tenant := m.turns[0]
	m.turns = m.turns[1:]
	var of []*waiting
	for _, w := range m.waits {
		if tenantOf(w.key) == tenant {
			of = append(of, w)
		}
	}
	slices.SortFunc(of, func(a, b *waiting) int { return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(a.ticket, b.ticket)) })
	m.waits = slices.DeleteFunc(m.waits, func(w *waiting) bool { return w == of[0] })
	if len(of) > 1 {
		m.turns = append(m.turns, tenant)
	}
	return of[0].key
}

// TestFair compares with the model, whatever is pushed, touched and popped, and
// holds what the model does not say: nothing is lost or handed out twice, and
// between two turns of a tenant nobody else has two.
func TestFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ranks := map[string]int{}
		q, m, tickets := queue.NewFair(tenantOf, func(k string) int { return ranks[k] }), &model{}, 0
		keys := rapid.SampledFrom([]string{"a/1", "a/2", "a/3", "a/4", "b/1", "b/2", "c/1", "d/1", "d/2"})
		rank := rapid.IntRange(-2, 2)
		find := func(k string) *waiting {
			for _, w := range m.waits {
				if w.key == k {
					return w
				}
			}
			return nil
		}
		var since []string // tenants that had a turn
		add := func(t *rapid.T) {
			k := keys.Draw(t, "key")
			ranks[k] = rank.Draw(t, "rank")
			tickets++
			if w := find(k); w != nil {
				q.Touch(k)
				if ranks[k] > w.rank {
					w.rank, w.ticket = ranks[k], tickets
				}
				return
			}
			q.Push(k)
			if !slices.ContainsFunc(m.waits, func(w *waiting) bool { return tenantOf(w.key) == tenantOf(k) }) {
				m.turns = append(m.turns, tenantOf(k))
			}
			m.waits = append(m.waits, &waiting{k, ranks[k], tickets})
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": add, "add more": add, // more than are taken, so that they wait
			"pop": func(t *rapid.T) {
				if q.Len() == 0 {
					t.Skip("nobody waits")
				}
				others := map[string]bool{}
				for _, w := range m.waits {
					others[tenantOf(w.key)] = true
				}
				want, got := m.pop(), q.Pop()
				if got != want {
					t.Fatalf("%s came, and it was %s's turn", got, want)
				}
				if i := slices.Index(since, tenantOf(got)); i >= 0 {
					seen := map[string]bool{}
					for _, tenant := range since[i+1:] {
						if seen[tenant] {
							t.Fatalf("%s had two turns before %s had its next: %v", tenant, tenantOf(got), since)
						}
						seen[tenant] = true
					}
					since = since[i+1:]
				}
				since = append(since, tenantOf(got))
				for tenant := range others { // who has nothing to do has no claim to a turn
					if !slices.ContainsFunc(m.waits, func(w *waiting) bool { return tenantOf(w.key) == tenant }) {
						since = slices.DeleteFunc(since, func(s string) bool { return s == tenant })
					}
				}
			},
			"": func(t *rapid.T) {
				if q.Len() != len(m.waits) {
					t.Fatalf("%d wait, and should be %d", q.Len(), len(m.waits))
				}
			},
		})
		for range len(m.waits) {
			if got, want := q.Pop(), m.pop(); got != want {
				t.Fatalf("at the end %s came instead of %s", got, want)
			}
		}
		if q.Len() != 0 {
			t.Fatalf("%d are left", q.Len())
		}
	})
}

// TestRisenIsNotKept has a tenant that is never idle raise keys again and again:
// what they leave behind is not kept.
func TestRisenIsNotKept(t *testing.T) {
	rank := 0
	q := queue.NewFair(tenantOf, func(string) int { return rank })
	q.Push("a/stays")
	for range 100_000 {
		rank = 0
		q.Push("a/rises")
		rank = 1
		q.Touch("a/rises")
		if got := q.Pop(); got != "a/rises" {
			t.Fatalf("%s came first", got)
		}
	}
	if n := queue.Spots(q); n > 100 {
		t.Fatalf("%d spots are kept for one that waits", n)
	}
}

func BenchmarkFair(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			q := queue.NewFair(func(k int) string { return fmt.Sprint(k % 7) }, nil)
			for i := range n {
				q.Push(i)
			}
			for b.Loop() {
				q.Push(q.Pop())
			}
		})
	}
}
