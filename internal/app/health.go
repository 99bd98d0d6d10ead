package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// health tells whoever watches an agent's process, such as Kubernetes, how it is.
type health struct {
	mu sync.Mutex
	// ready of the agent that works now; nil: none does, because another replica
	// has its turn. Whoever waits for its turn is well.
	ready   func() (bool, string)
	metrics http.Handler // nil: there are none
}

func (h *health) set(ready func() (bool, string)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ready = ready
}

// Handler answers /healthz while the process is there, and /readyz by what the
// agent says of itself. Its metrics are at /metrics.
func (h *health) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		h.mu.Lock()
		ready := h.ready
		h.mu.Unlock()
		if ready == nil {
			_, _ = w.Write([]byte("ok: waits for its turn\n"))
			return
		}
		ok, why := ready()
		if !ok {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(map[bool]string{true: "ok", false: why}[ok] + "\n"))
	})
	if h.metrics != nil {
		mux.Handle("GET /metrics", h.metrics)
	}
	return mux
}

// serve answers at the address until the returned function is called. It starts
// one goroutine, which that ends.
func (h *health) serve(ctx context.Context, address string, log *slog.Logger) (end func(), err error) {
	if address == "" {
		return func() {}, nil
	}
	listener, err := listen(ctx, address, "--health", handover)
	if err != nil {
		return nil, err
	}
	web := &http.Server{Handler: h.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	log.Info("tells how it is", "address", listener.Addr().String())
	go func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("nobody can ask any more how the agent is", "error", err)
		}
	}()
	return func() { _ = web.Close() }, nil
}
