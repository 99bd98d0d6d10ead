package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/droverhq/drover/api/client/keypair"
)

// Plain says why settings are refused.
func Plain(s Settings, allowed ...string) error {
	s.Plaintext = allowed
	c := Config{Settings: s}
	c.defaults()
	return c.plain()
}

// Complaint is what the server would tell of its files.
func (s *Server) Complaint(now time.Time) string { return s.secured.complaint(now) }

// Ends is when the certificate does.
func (s *Server) Ends() time.Time { return s.secured.files.Now().Certificate.Leaf.NotAfter }

// Mind has a server tell of files until ctx ends.
func Mind(ctx context.Context, files *keypair.Reader, log *slog.Logger) error {
	return (&Server{secured: secured{files: files}, log: log}).mind(ctx)
}

// StatesURL is where OpenTofu comes.
func (s *Server) StatesURL() string { return s.statesURL() }
