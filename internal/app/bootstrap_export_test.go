package app

import (
	"context"

	"github.com/droverhq/drover/internal/environment"
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
