package executortest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
)

// Front stands between an executor and a server that speaks HTTP, a real one or a
// fake, and makes its bad days.
type Front struct {
	URL string

	target http.Handler
	mu     sync.Mutex
	down   bool
	hang   chan struct{} // nil: it does not
	left   int           // changes that get through; negative: all
}

// NewFront starts one. It ends with the test.
func NewFront(t testing.TB, target http.Handler) *Front {
	f := &Front{target: target, left: -1}
	server := httptest.NewServer(f)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	f.URL = server.URL
	return f
}

// Before starts one before a server.
func Before(t testing.TB, server string) *Front {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	return NewFront(t, proxy)
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	down, hang, cut := f.down, f.hang, false
	if f.left >= 0 && r.Method != http.MethodGet {
		down = down || f.left == 0
		f.left = max(f.left-1, 0)
		cut = f.left == 0
	} else if f.left == 0 {
		down = true
	}
	f.mu.Unlock()
	if hang != nil {
		select {
		case <-r.Context().Done():
		case <-hang:
		}
		panic(http.ErrAbortHandler)
	}
	if down {
		panic(http.ErrAbortHandler) // the connection is closed without a word
	}
	if cut {
		f.target.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	f.target.ServeHTTP(w, r)
}

// Cut is Config.Cut.
func (f *Front) Cut(_ testing.TB, n int) (mend func()) {
	f.set(func() { f.left = n })
	return func() { f.set(func() { f.left = -1 }) }
}

// Down is Config.Down.
func (f *Front) Down(testing.TB) (up func()) {
	f.set(func() { f.down = true })
	return func() { f.set(func() { f.down = false }) }
}

// Hang is Config.Hang.
func (f *Front) Hang(testing.TB) (back func()) {
	hang := make(chan struct{})
	f.set(func() { f.hang = hang })
	return func() { f.set(func() { f.hang = nil }); close(hang) }
}

func (f *Front) set(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}
