// Command fetch brings the servers that it is told to into the cache, before the
// tests that need them start:
//
//	go run ./test/servers/fetch keycloak
//
// It owns nothing but the list of names.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/droverhq/drover/test/keycloak"
	"github.com/droverhq/drover/test/servers"
)

var archives = map[string]servers.Archive{
	keycloak.Archive.Name: keycloak.Archive,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for _, name := range os.Args[1:] {
		a, ok := archives[name]
		if !ok {
			fmt.Fprintf(os.Stderr, "fetch: no server is called %q\n", name)
			os.Exit(2)
		}
		if _, err := servers.Fetch(ctx, a, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, "fetch:", err)
			os.Exit(1)
		}
	}
}
