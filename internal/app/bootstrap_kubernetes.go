package app

import "github.com/droverhq/drover/internal/fault"

func (b *bootstrap) kubernetesSite() (site, error) {
	return site{}, fault.New(fault.Invalid, "--location %s: not yet", b.Location)
}
