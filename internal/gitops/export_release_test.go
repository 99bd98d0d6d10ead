package gitops

// Released is released.
func Released(kind string, raw []byte) ([]byte, error) { return released(kind, raw) }
