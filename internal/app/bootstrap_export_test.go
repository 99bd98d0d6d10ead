package app

import (
	"context"
	"errors"
	"net/url"

	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/template"
)

// What bootstrap reads of strangers.
var (
	ParseIndex       = parseIndex
	ParseEnvironment = parseEnvironment
	GitHubNames      = gitHubNames
	TemplateDirs     = templateDirs
	AsTenant         = asTenant
	MicroK8s         = microk8s
	PublicParameters = publicParameters
)

// BeginMeta has the environment of a bootstrap ordered, which nobody works on.
func BeginMeta(ctx context.Context, s *Server) error {
	ctx = asOperator(ctx)
	o, _, err := s.templates.Add(ctx, template.Addition{Files: map[string][]byte{
		"template.yaml": []byte("apiVersion: drover.dev/v1\nkind: Template\nmetadata: {name: meta-local}\nspec: {version: 1.0.0, resources: [{name: key, executor: secret}]}\n"),
	}})
	if err == nil {
		_, _, err = s.environments.Create(ctx, environment.PlanOrder{Environment: metaName, Template: o.ID})
	}
	return err
}

// AddOfRepository adds a template as one of a repository is.
func AddOfRepository(ctx context.Context, s *Server, files map[string]source.File) error {
	_, err := (&desk{to: s, meta: "meta-local"}).add(asOperator(ctx), source.Tree{Commit: "0123456789abcdef0123456789abcdef01234567", Files: files}, "test")
	return err
}

// Unready is what Consul is told of this replica.
func (s *Server) Unready(ctx context.Context) error { return s.unready(ctx) }

// Crossable is crossable.
var Crossable = crossable

// Settle makes the directories of a state.
func Settle(state string) error {
	return (&bootstrap{BootstrapConfig: BootstrapConfig{BootstrapSettings: BootstrapSettings{State: state}}}).settle()
}

// HasCertManager is hasCertManager.
var HasCertManager = hasCertManager

// MetaTemplate is the version that Drover itself would be made of, with what was left
// out.
func MetaTemplate(ctx context.Context, s *Server, c BootstrapConfig, was string) (string, []string, error) {
	b := &bootstrap{BootstrapConfig: c, where: metaSite{kind: "local"}}
	version, err := b.template(asOperator(ctx), s, was)
	return version, b.report.Left, err
}

// Clone makes a copy and starts it, by the programs of a directory, and removes it.
func Clone(ctx context.Context, bin string, at *url.URL) error {
	d, err := newClone(bin)
	if err == nil {
		err = d.copy(ctx, at)
	}
	if err == nil {
		_, err = d.start(ctx, at)
	}
	if d != nil {
		d.running = false
		err = errors.Join(err, d.remove())
	}
	return err
}

// ServiceOf is serviceOf.
var ServiceOf = serviceOf

// Dig begins a tunnel into a cluster.
func Dig(ctx context.Context, kubeconfig []byte) (at func(string) (string, error), inside context.Context, end func(), err error) {
	cluster, err := manifest.Open(manifest.Config{Kubeconfig: kubeconfig})
	if err != nil {
		return nil, nil, nil, err
	}
	t, inside, end := dig(ctx, cluster)
	return t.at, inside, end, nil
}

// KeysOf writes what a secret of a cluster holds into a directory.
func KeysOf(ctx context.Context, kubeconfig []byte, dir, host, secret string) (map[string]string, error) {
	cluster, err := manifest.Open(manifest.Config{Kubeconfig: kubeconfig})
	if err != nil {
		return nil, err
	}
	t, _, end := dig(ctx, cluster)
	defer end()
	return t.files(dir, host, secret)
}

// Throughout is where an address leads without a tunnel, and with one that knows a way.
func Throughout(address, host, here string) (none, through string, err error) {
	var no *tunnel
	if none, err = no.at(address); err != nil {
		return none, "", err
	}
	through, err = (&tunnel{here: map[string]string{host: here}}).at(address)
	return none, through, err
}
