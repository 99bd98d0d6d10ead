package app

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

// What the command line needs to find a local server: local.json names the
// server and the file with its admin's token. Both are readable by their owner
// alone. The token lives a week and is renewed every day.
const (
	localFile    = "local.json"
	tokenFile    = "admin.token"
	adminTTL     = 7 * 24 * time.Hour
	adminRefresh = 24 * time.Hour
)

type local struct {
	Server    string `json:"server"`
	TokenFile string `json:"token_file"`
	Routes    string `json:"routes,omitempty"`
	// Of a server with a certificate: what vouches for it, and the name it is for.
	CAFile     string `json:"ca_file,omitempty"`
	ServerName string `json:"server_name,omitempty"`
}

func (s *Server) writeAccess(ctx context.Context) error {
	token, _, err := s.issuer.Issue(ctx, access.Claims{User: "admin", Org: "local", OrgAdmin: true, Admin: true}, adminTTL)
	if err != nil {
		return fault.New(fault.Of(err), "cannot make the admin's token: %w", err)
	}
	if err := writePrivate(filepath.Join(s.cfg.DataDir, tokenFile), []byte(token+"\n")); err != nil {
		return err
	}
	here := local{Server: s.URL(), TokenFile: tokenFile, Routes: s.routes}
	if err := s.trust(&here); err != nil {
		return err
	}
	data, err := json.MarshalIndent(here, "", "  ")
	if err != nil {
		return err
	}
	return writePrivate(filepath.Join(s.cfg.DataDir, localFile), append(data, '\n'))
}

// refreshAccess renews the admin's token until ctx ends.
func (s *Server) refreshAccess(ctx context.Context) error {
	timer := time.NewTicker(adminRefresh)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			if err := s.writeAccess(ctx); err != nil {
				s.log.Warn("cannot renew the admin's token; the old one is good for some days", "error", err)
			}
		}
	}
}

// writePrivate replaces a file at once, so that a reader sees the old or the new.
func writePrivate(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already where all went well
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
