// Package template is the provider of clusters that a template makes: a
// directory of OpenTofu files, for any cloud that has a module. OpenTofu is run
// as a program, and what it remembers is encrypted wherever it lies.
//
// The template is told of the cluster by variables (cluster_id, cloud, region,
// multi_az, nodes, labels) and by those of the profile ("var.size"); it declares
// the ones that it uses. It tells by outputs: kubeconfig, domain, external_id,
// nodes, each where there is one.
package template

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/provider"
	"github.com/droverhq/drover/internal/tofu"
)

// Provider runs OpenTofu.
type Provider struct {
	binary string
	work   string // one directory per cluster
}

var _ provider.Provider = (*Provider)(nil)

// New takes the options "binary" (default: tofu, as PATH has it) and "work",
// the directory for its files, which has no default. A missing binary is not an
// error before a cluster is to be made.
func New(options map[string]string) (provider.Provider, error) {
	p := &Provider{binary: options["binary"], work: options["work"]}
	for name := range options {
		if name != "binary" && name != "work" {
			return nil, fault.New(fault.Invalid, "the provider template has no option %q; it has binary and work", name)
		}
	}
	if p.work == "" {
		return nil, fault.New(fault.Invalid, "the provider template needs a directory for its work")
	}
	return p, nil
}

// Ensure implements provider.Provider. It returns when the cluster is made; a
// caller that ends interrupts OpenTofu, which then writes down how far it came.
func (p *Provider) Ensure(ctx context.Context, c provider.Cluster) (provider.Progress, error) {
	r, err := p.begin(ctx, c)
	if err != nil {
		return provider.Progress{}, err
	}
	if err := r.plan(ctx); err != nil {
		return provider.Progress{}, err
	}
	if err := r.keeping(ctx, func() error { return r.work(ctx, "apply") }); err != nil {
		return busy(c.ID, trouble(ctx, c.ID, "make", err))
	}
	return r.outputs(ctx)
}

// Remove implements provider.Provider.
func (p *Provider) Remove(ctx context.Context, c provider.Cluster) (provider.Progress, error) {
	dir := filepath.Join(p.work, c.ID)
	if _, err := os.Stat(dir); c.State == nil && errors.Is(err, os.ErrNotExist) {
		return provider.Progress{Done: true}, ctx.Err() // nothing was ever begun
	}
	r, err := p.begin(ctx, c)
	if err != nil {
		return provider.Progress{}, err
	}
	if err := r.plan(ctx); err != nil {
		return provider.Progress{}, err
	}
	if err := r.keeping(ctx, func() error { return r.work(ctx, "destroy") }); err != nil {
		return busy(c.ID, trouble(ctx, c.ID, "remove", err))
	}
	if err := os.RemoveAll(r.dir); err != nil {
		return provider.Progress{}, fault.New(fault.Unavailable, "cannot clean up after cluster %s: %w", c.ID, err)
	}
	return provider.Progress{Done: true}, nil
}

// run is one run of OpenTofu for one cluster.
type run struct {
	cluster provider.Cluster
	binary  string
	dir     string
	memory  memory
	tofu    *tfexec.Terraform
}

// stopWithin is how long OpenTofu may take to write down how far it came.
const stopWithin = 20 * time.Second

// begin lays out the directory of a cluster: module/ is a copy of the template,
// terraform.tfstate is what OpenTofu remembers.
func (p *Provider) begin(ctx context.Context, c provider.Cluster) (*run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	binary, err := p.find()
	if err != nil {
		return nil, err
	}
	if c.ID == "" || c.ID != filepath.Base(c.ID) || strings.HasPrefix(c.ID, ".") {
		return nil, fault.New(fault.Invalid, "%.64q cannot be the id of a cluster", c.ID)
	}
	r := &run{cluster: c, binary: binary, dir: filepath.Join(p.work, c.ID)}
	module := filepath.Join(r.dir, "module")
	if err := os.MkdirAll(module, 0o700); err != nil {
		return nil, fault.New(fault.Unavailable, "cannot use the directory for clusters: %w", err)
	}
	if err := lay(c, module); err != nil {
		return nil, err
	}
	if err := r.remember(ctx); err != nil {
		return nil, err
	}
	r.tofu, err = tofu.Open(module, binary, r.environment())
	return r, err
}

func (p *Provider) find() (string, error) {
	binary, err := tofu.Find(p.binary, "--provider-options template.binary=...")
	if err != nil {
		return "", fmt.Errorf("cannot make clusters from templates: %w", err)
	}
	return binary, nil
}

// plan readies the template. What is wrong with it does not mend itself.
func (r *run) plan(ctx context.Context) error {
	if err := r.tofu.Init(ctx, tfexec.Upgrade(false)); err != nil {
		return trouble(ctx, r.cluster.ID, "prepare the template of", err)
	}
	if len(r.memory.State) > 0 {
		return nil // it has been carried out before
	}
	checked, err := r.tofu.Validate(ctx)
	if err != nil {
		return trouble(ctx, r.cluster.ID, "check the template of", err)
	}
	if !checked.Valid {
		return fault.New(fault.Invalid, "the template of cluster %s has mistakes: %s", r.cluster.ID, tofu.Mistakes(checked))
	}
	return nil
}

// trouble is what people read of a failed run.
func trouble(ctx context.Context, id, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fault.New(fault.Unavailable, "cannot %s cluster %s: %s", what, id, tofu.Words(err))
}
