package process

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/droverhq/drover/internal/program"
)

// health is how a program is asked whether it works; none of them: it runs.
type health struct {
	TCP     string   `json:"tcp,omitempty"`
	HTTP    string   `json:"http,omitempty"`
	Status  int      `json:"status,omitempty"`
	CA      string   `json:"ca,omitempty"`
	Command []string `json:"command,omitempty"`
	Within  string   `json:"within,omitempty"`
}

func healthSchema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "maxProperties": 4,
		"description": "how it is asked whether it works, one of tcp, http and command; without any, it works while it runs",
		"properties": map[string]any{
			"tcp":     map[string]any{"type": "string", "description": "host:port that takes connections"},
			"http":    map[string]any{"type": "string", "pattern": "^https?://", "description": "URL that answers with status"},
			"status":  map[string]any{"type": "integer", "description": "default: any from 200 to 299"},
			"ca":      map[string]any{"type": "string", "description": "file of its directory with the authorities that its certificate may be of; default: those of the machine"},
			"command": map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "that ends with 0, in the program's directory"},
			"within":  map[string]any{"type": "string", "default": "2m", "description": "how long it may take after a start"},
		}}
}

func readHealth(v any) (h health) {
	m, _ := v.(map[string]any)
	h.TCP, _ = m["tcp"].(string)
	h.HTTP, _ = m["http"].(string)
	h.CA, _ = m["ca"].(string)
	h.Within, _ = m["within"].(string)
	if n, ok := m["status"].(int64); ok {
		h.Status = int(n)
	}
	h.Command = words(m["command"])
	return h
}

// probe keeps no connections: a program that is being stopped is held by none.
func probe(roots *x509.CertPool) *http.Client {
	return &http.Client{
		Timeout:       5 * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// roots are those that a program's certificate may be of; nil: those of the machine.
func (h health) roots(p directory, rec *record) (*x509.CertPool, error) {
	if h.CA == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(p.home(rec.Name)) // links in there lead nowhere
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := root.ReadFile(filepath.FromSlash(h.CA))
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(data) {
		err = errors.New("no certificate")
	}
	return pool, err
}

// ask returns why it does not work; empty: it does.
func (h health) ask(ctx context.Context, p directory, rec *record) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	switch {
	case h.TCP != "":
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", h.TCP)
		if err != nil {
			return "nobody listens on " + h.TCP
		}
		_ = conn.Close()
	case h.HTTP != "":
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.HTTP, nil)
		if err != nil {
			return "its health check is no URL"
		}
		roots, err := h.roots(p, rec)
		if err != nil {
			return "the authorities of its health check cannot be read"
		}
		res, err := probe(roots).Do(req)
		if err != nil {
			return "no answer from " + h.HTTP
		}
		_ = res.Body.Close()
		if h.Status != 0 && res.StatusCode != h.Status || h.Status == 0 && (res.StatusCode < 200 || res.StatusCode > 299) {
			return fmt.Sprintf("%s answers %d", h.HTTP, res.StatusCode)
		}
	case len(h.Command) > 0:
		cmd, err := p.command(rec, h.Command)
		if err != nil {
			return err.Error()
		}
		if err := runBounded(ctx, cmd); err != nil {
			return "its health command does not end with 0"
		}
	}
	for name, port := range rec.Launch.Ports {
		if !program.Listens(p.proof(rec), port) {
			return fmt.Sprintf("another program has its port %d (%s)", port, name)
		}
	}
	return ""
}

// runBounded runs a command in a session of its own, all of which ends with ctx.
func runBounded(ctx context.Context, cmd *exec.Cmd) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }() // one, which ends with the command
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		birth, _ := program.Birth(cmd.Process.Pid)
		_ = program.KillGroup(program.Proof{PID: cmd.Process.Pid, Birth: birth, Own: true})
		<-ended
		return ctx.Err()
	}
}
