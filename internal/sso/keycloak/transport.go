package keycloak

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// transport sees the answers before the library does. That one takes an answer
// which it cannot read for an empty one, and an error without a body for a
// failure of the network: "not there" and "not asked" must not be mixed up.
type transport struct{ next http.RoundTripper }

type statusKey struct{}

// watched returns a context whose requests leave the status of their answer.
func watched(ctx context.Context) (context.Context, *int) {
	status := new(int)
	return context.WithValue(ctx, statusKey{}, status), status
}

var errNotKeycloak = errors.New("the answer is not Keycloak's")

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if status, ok := r.Context().Value(statusKey{}).(*int); ok {
		*status = res.StatusCode
	}
	kind := res.Header.Get("Content-Type")
	strange := kind != "" && !strings.Contains(kind, "json")
	empty := r.Method == http.MethodGet && (kind == "" || res.ContentLength == 0)
	if res.StatusCode < 300 && (strange || empty) {
		res.Body.Close()
		return nil, errNotKeycloak
	}
	return res, nil
}
