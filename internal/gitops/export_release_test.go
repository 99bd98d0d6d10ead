package gitops

// Released is released.
func Released(kind string, raw []byte) ([]byte, bool, error) { return released(kind, raw) }

// TakesBack is takesBack.
func (d *Deployment) TakesBack() bool { return d.takesBack() }
