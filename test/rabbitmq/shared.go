package rabbitmq

import (
	"context"
	"os"
	"sync"
	"testing"
)

// Shared returns the URL of a broker that other tests use too: keep apart by
// names, and leave it running.
func Shared(t testing.TB) string {
	t.Helper()
	if url := os.Getenv("DROVER_TEST_RABBITMQ"); url != "" {
		return url
	}
	bin := find(t)
	s, err := shared(bin)
	if err != nil {
		t.Fatalf("cannot run RabbitMQ: %v", err)
	}
	return s.URL
}

// Own returns this test process's one node. Tests that kill it, or have it raise
// an alarm, leave it as they found it and do not run in parallel.
func Own(t testing.TB) *Server {
	t.Helper()
	s, err := shared(find(t))
	if err != nil {
		t.Fatalf("cannot run RabbitMQ: %v", err)
	}
	return s
}

// shared ends with the process, by its leash.
var shared = func() func(bin string) (*Server, error) {
	var once sync.Once
	var s *Server
	var err error
	return func(bin string) (*Server, error) {
		once.Do(func() { s, err = New(context.Background(), bin) })
		return s, err
	}
}()
