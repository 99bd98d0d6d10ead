package ledger

import "context"

// Paged returns one page and the total, asked at the same time. A page of size
// zero is only counted.
func Paged(ctx context.Context, r Reader, q Query) ([]Object, int64, error) {
	type counted struct {
		n   int64
		err error
	}
	total := make(chan counted, 1) // one goroutine, which ends with the query
	go func() {
		n, err := r.Total(ctx, q)
		total <- counted{n, err}
	}()
	objects, err := r.List(ctx, q)
	t := <-total
	if err != nil {
		return nil, 0, err
	}
	return objects, t.n, t.err
}
