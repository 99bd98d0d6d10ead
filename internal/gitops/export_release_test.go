package gitops

// Released is released.
func Released(kind string, raw []byte) ([]byte, bool, error) { return released(kind, raw) }
