// Command fetch brings the servers that it is told to into the cache, before the
// tests that need them start:
//
//	go run ./test/servers/fetch keycloak
//	go run ./test/servers/fetch all
//
// It owns nothing but the list of names.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/droverhq/drover/test/keycloak"
	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/built"
)

// server is something that can be brought.
type server struct {
	name  string
	bring func(context.Context) (string, error)
}

func known() []server {
	list := []server{{keycloak.Archive.Name, func(ctx context.Context) (string, error) {
		return servers.Fetch(ctx, keycloak.Archive, os.Stderr)
	}}}
	for _, b := range built.All {
		list = append(list, server{b.Name, func(ctx context.Context) (string, error) {
			return servers.Build(ctx, b, os.Stderr)
		}})
	}
	return list
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	names, all := os.Args[1:], known()
	for _, name := range names {
		if name != "all" && !slices.ContainsFunc(all, func(s server) bool { return s.name == name }) {
			fmt.Fprintf(os.Stderr, "fetch: no server is called %q\n", name)
			os.Exit(2)
		}
	}
	// One after the other: each compile takes every core, and the linkers' memory
	// would add up.
	failed := false
	for _, s := range all {
		if !slices.Contains(names, s.name) && !slices.Contains(names, "all") {
			continue
		}
		if _, err := s.bring(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "fetch:", err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}
