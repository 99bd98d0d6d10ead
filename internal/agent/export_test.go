package agent

import "github.com/droverhq/drover/internal/runtime"

// Turns is in which order one worker applies items that were put while it was busy
// with another, by id.
func Turns(items ...runtime.Item) (ids []string) {
	busy, done := make(chan struct{}), make(chan struct{})
	left := len(items)
	q := newLine(1, func(f func()) { go f() }, func(e entry) {
		if e.item.ID == "" {
			<-busy
			return
		}
		if ids = append(ids, e.item.ID); len(ids) == left {
			close(done)
		}
	})
	q.put(entry{})
	for _, it := range items {
		k := &known{}
		k.item.ID, k.item.Kind, k.item.Body, k.item.Delete = it.ID, it.Kind, it.Body, it.Delete
		q.put(k.entry())
	}
	close(busy)
	<-done
	return ids
}
