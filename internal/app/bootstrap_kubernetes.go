package app

import "github.com/droverhq/drover/internal/fault"

func (b *bootstrap) kubernetesSite() (metaSite, error) {
	return metaSite{}, fault.New(fault.Invalid, "--location %s: not yet", b.Location)
}
