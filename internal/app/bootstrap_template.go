package app

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/droverhq/drover/deploy/meta"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/template"
)

var wholeCommit = regexp.MustCompile(`^[0-9a-f]{40}$|^[0-9a-f]{64}$`)

// template keeps the meta template in the state's ledger: the one that ships, or that
// of a repository which was asked for by name. was is the version that a bootstrap that was begun
// has: one of a repository stays, unless another commit is named.
func (b *bootstrap) template(ctx context.Context, s *Server, was string) (string, error) {
	name, commit := b.metaRepository()
	if commit != "" && !wholeCommit.MatchString(commit) {
		return "", fault.New(fault.Invalid, "--meta-repository %s: behind the @ is a whole commit, not a branch or a part of one", b.MetaRepository).Because("commit")
	}
	if name != "" && b.Organisation == "" && !strings.Contains(name, "://") {
		return "", fault.New(fault.Invalid, "--meta-repository %s: name its organisation, with --github-organisation, or its whole URL", name).Because("organisation")
	}
	if was != "" {
		sum, err := versionOf(ctx, s, was)
		if err != nil {
			return "", err
		}
		if pinned := wholeCommit.MatchString(sum.Commit); pinned && (name == "" || commit == "" && sum.Source == b.metaOrigin(name) || commit == sum.Commit) {
			b.tell("plan", metaName, "pinned", fmt.Sprintf("its template is that of %s at commit %s, as when it was begun", sum.Source, sum.Commit))
			return was, nil
		}
	}
	if name == "" {
		if was == "" {
			b.hint(ctx, s)
		}
		o, _, err := s.templates.Add(ctx, template.Addition{Files: b.where.shipped(), Origin: path.Join("deploy/meta", b.where.kind)})
		if err == nil {
			b.tell("plan", metaName, "template", "it is the one that ships with this drover, "+path.Join("deploy/meta", b.where.kind))
		}
		return o.ID, err
	}
	tree, err := b.read(ctx, s, source.Location{Repository: b.repositoryURL(name), Revision: commit})
	if err != nil {
		return "", fmt.Errorf("the meta template of %s: %w", name, err)
	}
	part := source.Tree{Commit: tree.Commit, Files: below(tree, b.where.kind), Author: tree.Author, Time: tree.Time, Message: tree.Message}
	if _, ok := part.Files["template.yaml"]; !ok {
		return "", fault.New(fault.Invalid, "%s has no %s/template.yaml at commit %s", name, b.where.kind, tree.Commit).Because("template")
	}
	o, _, err := s.templates.AddTree(ctx, part, b.metaOrigin(name))
	if err == nil {
		b.tell("plan", metaName, "template", fmt.Sprintf("it is that of %s at commit %s, not the one that ships: whoever may push there says what runs here, with all rights of whoever bootstraps", b.metaOrigin(name), tree.Commit))
	}
	return o.ID, err
}

// hint names a repository that has a meta template which nobody has asked for.
func (b *bootstrap) hint(ctx context.Context, s *Server) {
	name := b.Prefix + "meta"
	if b.Organisation == "" {
		return
	}
	tree, err := b.read(ctx, s, source.Location{Repository: b.repositoryURL(name)})
	if _, has := tree.Files[b.where.kind+"/template.yaml"]; err != nil || !has {
		return
	}
	b.report.Left = append(b.report.Left, fmt.Sprintf("the meta template of %s: it is used only when asked for, with --meta-repository %s@%s", name, name, tree.Commit))
}

// metaRepository is where the meta template was asked to come from; empty: from here.
func (b *bootstrap) metaRepository() (name, commit string) {
	i := strings.LastIndexByte(b.MetaRepository, '@')
	if i <= 0 || strings.ContainsRune(b.MetaRepository[i:], '/') { // that of a user in a URL
		return b.MetaRepository, ""
	}
	return b.MetaRepository[:i], b.MetaRepository[i+1:]
}

func (b *bootstrap) metaOrigin(name string) string {
	return b.repositoryURL(name) + "//" + b.where.kind
}

// shipped are the files of the template that is in this binary.
func (w metaSite) shipped() map[string][]byte {
	files := map[string][]byte{}
	_ = fs.WalkDir(meta.FS, w.kind, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[strings.TrimPrefix(name, w.kind+"/")], err = fs.ReadFile(meta.FS, name)
		}
		return err // never: it is in memory
	})
	return files
}

// versionOf is what is known of a version of a template.
func versionOf(ctx context.Context, s *Server, id string) (sum template.Summary, err error) {
	o, err := s.ledger.Get(ctx, ledger.Ref{Kind: template.KindVersion.Name, ID: id})
	if err == nil {
		err = json.Unmarshal(o.Spec, &sum)
	}
	return sum, err
}
