package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/droverhq/drover/internal/site"
)

// Serve runs a control plane without a data plane until ctx ends.
func Serve(ctx context.Context, c Config) error {
	if c.role() != site.Standalone {
		return serveSite(ctx, c)
	}
	if err := c.alone(); err != nil {
		return err
	}
	s, err := New(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.cfg.Out, "drover %s serves %s (%s)\n", c.Version, s.URL(), databaseName(s.cfg.Database))
	return s.Run(ctx)
}

func databaseName(url string) string {
	if strings.HasPrefix(url, "postgres") {
		return "PostgreSQL"
	}
	return "SQLite"
}
