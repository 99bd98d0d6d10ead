package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/httpapi"
)

// halting holds back one request at its authentication, where it is in flight.
type halting struct {
	httpapi.Authenticator
	path    chan struct{} // a value for every request that came
	release chan struct{}
	hold    string
}

func (h *halting) Authenticate(ctx context.Context, token string) (access.Principal, error) {
	if token == h.hold {
		h.path <- struct{}{}
		<-h.release
		if err := ctx.Err(); err != nil {
			return access.Principal{}, err
		}
		return access.Principal{User: "alice", Org: "acme"}, nil
	}
	return h.Authenticator.Authenticate(ctx, token)
}

// A server that ends says so to those who would listen for ever, and answers
// those who have asked.
func TestTheEndIsForStreamsAlone(t *testing.T) {
	ending, end := context.WithCancel(context.Background())
	defer end()
	gate := &halting{path: make(chan struct{}, 1), release: make(chan struct{}), hold: "held"}
	r := newRig(t, func(c *httpapi.Config) {
		c.Ending = ending
		gate.Authenticator, c.Authenticator = c.Authenticator, gate
	})
	server := httptest.NewServer(r)
	defer server.Close()
	get := func(path, token string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Error(err)
			return nil
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Error(err)
		}
		return resp
	}
	stream := get("/api/v1/watch", r.user(t, "alice", "acme"))
	defer stream.Body.Close()
	answered := make(chan int, 1)
	go func() {
		if resp := get("/api/v1/instances", "held"); resp != nil {
			resp.Body.Close()
			answered <- resp.StatusCode
			return
		}
		answered <- 0
	}()
	<-gate.path
	end()
	if _, err := io.Copy(io.Discard, stream.Body); err != nil { // would last for ever
		t.Errorf("the stream did not end cleanly: %v", err)
	}
	close(gate.release)
	if status := <-answered; status != http.StatusOK {
		t.Errorf("a request in flight was answered with %d", status)
	}
}
