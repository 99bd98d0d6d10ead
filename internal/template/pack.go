package template

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
)

// packed is a tree as it is kept.
type packed struct {
	Files map[string]source.File `json:"files"`
}

func pack(tree source.Tree) ([]byte, error) {
	data, err := json.Marshal(packed{tree.Files})
	if err != nil {
		return nil, fmt.Errorf("cannot encode the files: %w", err)
	}
	return data, nil
}

// tree reads the files of a version back.
func (s *Service) tree(ctx context.Context, sum Summary) (source.Tree, error) {
	data, err := s.Files.Blob(ctx, sum.Files)
	if err != nil {
		return source.Tree{}, fmt.Errorf("cannot read the files of template %s: %w", sum.ID, err)
	}
	var p packed
	if err := json.Unmarshal(data, &p); err != nil {
		return source.Tree{}, fault.New(fault.Internal, "cannot decode the files of template %s: %w", sum.ID, err)
	}
	return source.Tree{Commit: sum.Commit, Files: p.Files, Author: sum.Author, Time: sum.Time}, nil
}

// read gets the files of an addition, and what they are called.
func (s *Service) read(ctx context.Context, a Addition) (source.Tree, string, error) {
	if a.Repository == "" {
		tree, err := loose(a.Files)
		return tree, a.Origin, err
	}
	if s.Source == nil {
		return source.Tree{}, "", fault.New(fault.Denied, "this server reads no repositories: send the files").Because("source")
	}
	at := source.Location{Repository: a.Repository, Revision: a.Revision, Path: a.Path}
	if a.Revision == "" && a.Path == "" {
		parsed, err := source.Parse(a.Repository)
		if err != nil {
			return source.Tree{}, "", err
		}
		at = parsed
	}
	tree, err := s.Source.Read(ctx, at, source.Credential{Username: a.Username, Password: a.Password, SSHKey: a.SSHKey, KnownHosts: a.KnownHosts}, source.Limits{})
	return tree, at.String(), err
}

// loose makes a tree of files that came along, within the bounds of any other.
func loose(files map[string][]byte) (source.Tree, error) {
	budget := source.Budget{Limits: source.Limits{}.Filled()}
	out := source.Tree{Files: make(map[string]source.File, len(files))}
	folds := map[string]string{}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := source.CheckPath(name); err != nil {
			return source.Tree{}, err
		}
		if other, twice := folds[source.Fold(name)]; twice {
			return source.Tree{}, fault.New(fault.Invalid, "%.128q and %.128q are one file where case does not matter: rename one", other, name).Because("path")
		}
		folds[source.Fold(name)] = name
		if err := budget.Take(name, int64(len(files[name]))); err != nil {
			return source.Tree{}, err
		}
		fmt.Fprintf(sum, "%d:%s%d:", len(name), name, len(files[name]))
		sum.Write(files[name])
		out.Files[name] = source.File{Data: files[name]}
	}
	out.Commit = dirPrefix + hex.EncodeToString(sum.Sum(nil))
	return out, nil
}

// summary is what is shown of a version.
func (t *Template) summary(tree source.Tree, files string) Summary {
	out := Summary{
		Template: t.Metadata.Name, Version: t.Spec.Version, ID: t.ID(), Commit: t.Commit, Source: t.Source, Author: tree.Author, Time: tree.Time,
		Description: t.Spec.Description, Tags: t.Spec.Tags, Parameters: t.Spec.Parameters, Permissions: t.Spec.Permissions, Pins: t.Pins, Files: files,
	}
	executors := map[string]bool{}
	for _, r := range t.resources {
		executors[r.Executor] = true
		if len(out.Resources) < 100 {
			out.Resources = append(out.Resources, r.key)
		}
	}
	out.Executors = sortedTrue(executors)
	for _, o := range t.outputs {
		out.Outputs = append(out.Outputs, o.Name)
	}
	for _, a := range t.Spec.Actions {
		out.Actions = append(out.Actions, a.Name)
	}
	return out
}

// object is the version as the ledger has it.
func (s Summary) object() (ledger.Object, error) {
	spec, err := json.Marshal(s)
	return ledger.Object{
		Ref: ledger.Ref{Kind: KindVersion.Name, ID: s.ID}, Name: s.Template + "@" + s.Version, Parent: s.Template, Spec: spec,
		Fields: ledger.Fields{"template": s.Template, "version": s.Version, "commit": s.Commit},
	}, err
}
