package app

// Plain says why settings are refused.
func Plain(s Settings, allowed ...string) error {
	s.Plaintext = allowed
	c := Config{Settings: s}
	c.defaults()
	return c.plain()
}

// StatesURL is where OpenTofu comes.
func (s *Server) StatesURL() string { return s.statesURL() }
