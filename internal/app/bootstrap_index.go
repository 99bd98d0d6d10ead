package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

// maxRepositories that one bootstrap reads.
const maxRepositories = 500

var repositoryName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// credential opens repositories.
func (b *bootstrap) credential() (source.Credential, error) {
	if b.GitTokenFile == "" {
		return source.Credential{}, nil
	}
	data, err := os.ReadFile(b.GitTokenFile)
	if err != nil {
		return source.Credential{}, fault.New(fault.Invalid, "cannot read --git-token-file: %w", err)
	}
	return source.Credential{Username: "drover", Password: strings.TrimSpace(string(data))}, nil
}

// names of the repositories: those that were named, those that GitHub has, or those
// that the index of any other server lists.
func (b *bootstrap) names(ctx context.Context, s *Server) ([]string, error) {
	if len(b.Repositories) > 0 {
		return b.Repositories, nil
	}
	at, err := url.Parse(cmp.Or(b.BaseURL, "https://github.com"))
	if err != nil || at.Host == "" {
		return nil, fault.New(fault.Invalid, "--base-url is the URL of a Git server, such as https://git.example.org")
	}
	if at.Hostname() == "github.com" {
		with, err := b.credential()
		if err != nil {
			return nil, err
		}
		return gitHubNames(ctx, "https://api.github.com", b.Organisation, b.Prefix, with.Password)
	}
	name := b.Prefix + "meta"
	tree, err := b.read(ctx, s, source.Location{Repository: b.repositoryURL(name)})
	if err != nil {
		return nil, fmt.Errorf("the repositories are listed in drover.yaml of %s, which cannot be read (or name them with --repositories): %w", name, err)
	}
	f, ok := tree.Files["drover.yaml"]
	if !ok {
		return nil, fault.New(fault.Invalid, "repository %s has no drover.yaml that lists the others: write one, or name them with --repositories", name).Because("index")
	}
	return parseIndex(name+"/drover.yaml", f.Data)
}

// gitHubNames asks GitHub for an organisation's repositories, or a person's.
func gitHubNames(ctx context.Context, api, org, prefix, token string) ([]string, error) {
	client := gitHubClient()
	var out []string
	for _, of := range []string{"orgs", "users"} {
		for page := 1; ; page++ {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/%s/%s/repos?per_page=100&page=%d", api, of, url.PathEscape(org), page), nil)
			if err != nil {
				return nil, err
			}
			req.Header.Set("Accept", "application/vnd.github+json")
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			res, err := client.Do(req)
			if err != nil {
				return nil, fault.New(fault.Unavailable, "GitHub cannot be asked for the repositories of %s; name them with --repositories", org)
			}
			data, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
			_ = res.Body.Close()
			if res.StatusCode == http.StatusNotFound && of == "orgs" {
				break // a person's, perhaps
			}
			var found []struct{ Name string }
			if err != nil || res.StatusCode != http.StatusOK || json.Unmarshal(data, &found) != nil {
				return nil, fault.New(fault.Unavailable, "GitHub answers %d to who asks for the repositories of %s; name them with --repositories", res.StatusCode, org)
			}
			if page > 10 && len(found) > 0 {
				return nil, fault.New(fault.Invalid, "%s has more than 1000 repositories: name those that are meant with --repositories", org).Because("too-many")
			}
			for _, r := range found {
				if strings.HasPrefix(r.Name, prefix) && repositoryName.MatchString(r.Name) {
					out = append(out, r.Name)
				}
			}
			if len(found) < 100 {
				slices.Sort(out)
				return out, nil
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

var bootForm = document.Form{Bytes: 256 << 10, Mistakes: 20}

// head is what every document begins with.
type head struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// parseIndex reads the list of repositories.
func parseIndex(name string, data []byte) ([]string, error) {
	var w struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			Repositories []string `json:"repositories"`
		} `json:"spec"`
	}
	if err := parseOne(name, data, "Repositories", &w, func() head { return head{w.APIVersion, w.Kind} }); err != nil {
		return nil, err
	}
	for _, r := range w.Spec.Repositories {
		if !repositoryName.MatchString(r) {
			return nil, fault.New(fault.Invalid, "%s: %.128q is no name of a repository", name, r)
		}
	}
	if len(w.Spec.Repositories) > maxRepositories {
		return nil, fault.New(fault.Invalid, "%s lists more than %d repositories", name, maxRepositories)
	}
	return w.Spec.Repositories, nil
}

// parseEnvironment reads the description of an environment.
func parseEnvironment(name string, data []byte) (v1.CreateEnvironment, error) {
	var w struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			Template    string         `json:"template"`
			Description string         `json:"description"`
			Tags        []string       `json:"tags"`
			TTL         string         `json:"ttl"`
			Parameters  map[string]any `json:"parameters"`
		} `json:"spec"`
	}
	if err := parseOne(name, data, "Environment", &w, func() head { return head{w.APIVersion, w.Kind} }); err != nil {
		return v1.CreateEnvironment{}, err
	}
	out := v1.CreateEnvironment{Name: w.Metadata.Name}
	out.Template, out.Tags, out.Parameters, out.TTL = w.Spec.Template, w.Spec.Tags, w.Spec.Parameters, w.Spec.TTL
	if w.Spec.Description != "" {
		out.Description = &w.Spec.Description
	}
	if out.Name == "" || out.Template == "" || out.Name == metaName {
		return out, fault.New(fault.Invalid, "%s: an environment has a name, which is not %s, and a template", name, metaName)
	}
	return out, nil
}

// parseOne reads a file of one document.
func parseOne(name string, data []byte, kind string, into any, of func() head) error {
	f := document.Open(name, data, bootForm)
	if len(f.Documents) != 1 && f.Err() == nil {
		return fault.New(fault.Invalid, "%s: want one document", name)
	}
	if f.Err() == nil {
		f.Decode(f.Documents[0], into, nil)
	}
	if err := f.Err(); err != nil {
		return err
	}
	if h := of(); h.APIVersion != "drover.dev/v1" || h.Kind != kind {
		return fault.New(fault.Invalid, "%s: apiVersion is drover.dev/v1, and kind is %s", name, kind)
	}
	return nil
}
