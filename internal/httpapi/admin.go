package httpapi

// adminRoute returns the template and the handlers of a path of an offering's
// API for operators, nil if there is nothing.
func (s *server) adminRoute(p *compatPath) (string, verbs) { return "", nil }

// verificationRoute is the same for what checks the tokens of agents.
func (s *server) verificationRoute(p *compatPath) (string, verbs) { return "", nil }
