package app

import "time"

// Plain says why settings are refused.
func Plain(s Settings, allowed ...string) error {
	s.Plaintext = allowed
	c := Config{Settings: s}
	c.defaults()
	return c.plain()
}

// Complaint is what the server would tell of its files.
func (s *Server) Complaint(now time.Time) string { return s.secured.complaint(now) }

// StatesURL is where OpenTofu comes.
func (s *Server) StatesURL() string { return s.statesURL() }
