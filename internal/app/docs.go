package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/httpapi"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/offerings"
)

// Docs serves the public, admin and agent specifications of the shipped
// offerings, without a control plane, until ctx ends.
func Docs(ctx context.Context, listen string) error {
	files, err := fs.Glob(offerings.FS, "*.yaml")
	if err != nil {
		return err
	}
	var offs []*offering.Offering
	for _, name := range files {
		data, err := offerings.FS.ReadFile(name)
		if err != nil {
			return err
		}
		off, err := offering.Parse(name, data)
		if err != nil {
			return err
		}
		offs = append(offs, off)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fault.New(fault.Unavailable, "cannot listen on %s: %w", listen, err)
	}
	slog.Info("specifications to read", "url", "http://"+l.Addr().String()+"/docs/")
	web := &http.Server{Handler: httpapi.DocsHandler(offs), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { web.Close() })
	defer stop()
	if err := web.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
