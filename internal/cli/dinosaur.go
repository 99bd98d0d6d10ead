package cli

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

var dinosaurPage = template.Must(template.New("dinosaur").Parse(`<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Name}}</title>
<style>body{font:18px/1.5 system-ui,sans-serif;max-width:32em;margin:4em auto;padding:0 1em}</style>
<h1>🦖 {{.Name}}</h1>
<p>I am {{.Name}}, a {{.Species}}{{with .Age}}, {{.}} old{{end}}.</p>
</html>
`))

// dinosaurCommand is the service behind the dinosaur offering: what an agent
// runs for each instance. It reads nothing but its environment.
func dinosaurCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "dinosaur",
		Short:  "Be a dinosaur (what an agent runs for each)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			port := os.Getenv("PORT")
			if port == "" {
				return errors.New("a dinosaur needs PORT, the port that it listens on; agents set it")
			}
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
			if err != nil {
				return fmt.Errorf("cannot listen: %w", err)
			}
			return serveDinosaur(ctx, l)
		},
	}
}

// serveDinosaur answers until ctx ends, then finishes what it has begun.
func serveDinosaur(ctx context.Context, l net.Listener) error {
	s := &http.Server{Handler: dinosaurHandler(os.Getenv, time.Now), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }() // ends with Shutdown or Close
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		return s.Close()
	}
	return nil
}

func dinosaurHandler(env func(string) string, now func() time.Time) http.Handler {
	or := func(key, def string) string {
		if v := env(key); v != "" {
			return v
		}
		return def
	}
	born, bornErr := time.Parse(time.RFC3339Nano, env("DINOSAUR_BORN"))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Drover-Instance", env("DROVER_INSTANCE"))
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		page := struct{ Name, Species, Age string }{Name: or("DINOSAUR_NAME", "nameless"), Species: or("DINOSAUR_SPECIES", "dinosaur")}
		if bornErr == nil {
			page.Age = now().Sub(born).Round(time.Second).String()
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		_ = dinosaurPage.Execute(w, page) // the reader has gone
	})
	return mux
}
