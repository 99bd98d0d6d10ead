package kubernetes

import (
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// Runtime applies items to one cluster. It implements runtime.Runtime.
type Runtime struct {
	*keep.Desk
	cfg     Config
	cluster *manifest.Client
	facts   facts
}

var _ runtime.Runtime = (*Runtime)(nil)

// New prepares a runtime. Without a lease it starts to work with the first call;
// with one the work is done inside Lead.
func New(cfg Config) (*Runtime, error) {
	r := &Runtime{cfg: cfg.defaults()}
	desk, err := keep.Open(keep.Config{
		Kubeconfig: cfg.Kubeconfig, Namespace: cfg.Namespace, Lease: cfg.Lease, LeaseTime: cfg.LeaseTime, Identity: cfg.Identity,
		Resync: cfg.Resync, Workers: cfg.Workers, Logger: cfg.Logger, Now: cfg.Now, Wrap: cfg.Wrap, Vigil: cfg.Vigil,
	}, r.begin)
	if err != nil {
		return nil, err
	}
	r.Desk, r.cluster = desk, desk.Cluster()
	return r, nil
}
