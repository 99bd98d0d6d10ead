package template

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/expr"
	"github.com/droverhq/drover/internal/fault"
)

// compileChecks compiles status endpoints: what they say is shown to everybody.
func (f *file) compileChecks(checks []Check, path []any, index bool) []*expr.Template {
	var out []*expr.Template
	seen := map[string]bool{}
	for i, c := range checks {
		at := under(path, i)
		doc := map[string]any{}
		for kind, text := range map[string]string{"http": c.HTTP, "tcp": c.TCP, "consul": c.Consul} {
			if text != "" {
				doc[kind] = text
			}
		}
		if len(doc) != 1 {
			f.Missing(at, "must have exactly one of http, tcp and consul")
			continue
		}
		if seen[c.Name] {
			f.At(under(at, "name"), "the name %.64q is there twice", c.Name)
		}
		seen[c.Name] = true
		if strings.Contains(c.Name, "${") {
			f.At(under(at, "name"), "is shown as it stands: it cannot hold ${...}")
		}
		if c.Status != 0 && (c.HTTP == "" || c.Status < 100 || c.Status > 599) {
			f.At(under(at, "status"), "must be a status of HTTP, from 100 to 599")
		}
		if c.Passes < 0 || c.Failures < 0 || c.Passes > 1000 || c.Failures > 1000 {
			f.At(at, "passes and failures must be from 1 to 1000")
		}
		if t := f.template(doc, at, place{what: "a check", resources: true, index: index, plain: "a check is shown to everybody"}); t != nil {
			out = append(out, t)
		}
	}
	return out
}

func (f *file) compileLinks(links []Link, path []any, index bool) *expr.Template {
	if len(links) == 0 {
		return nil
	}
	doc := make([]any, len(links))
	for i, l := range links {
		if l.Rel == "" || l.URL == "" {
			f.Missing(under(path, i), "a link has a rel and a url")
		}
		doc[i] = map[string]any{"rel": l.Rel, "url": l.URL}
	}
	return f.template(doc, path, place{what: "a link", resources: true, index: index, plain: "a link is shown to everybody"})
}

// at finds where checks and links of an address are said: "" is the environment,
// then groups that are templates, and resources.
func (l *Layout) at(address string) (s *scope, index int, r *resource, err error) {
	if address == "" {
		return l.root, -1, nil, nil
	}
	if n, ok := l.Node(address); ok {
		return n.scope, n.Index, n.resource, nil
	}
	if s := l.scopes[address]; s != nil {
		return s, -1, nil, nil
	}
	for _, p := range l.Groups {
		if p.Address == address {
			return nil, -1, nil, nil
		}
	}
	return nil, 0, nil, fault.New(fault.NotFound, "there is no %.128s in the layout", address)
}

// Checks are the status endpoints of a resource, of a group that is a template,
// or, of "", those of the environment, evaluated. Faults: NotFound, Invalid,
// Unavailable (something is not known yet).
func (l *Layout) Checks(ctx context.Context, address string, known Lookup) ([]Check, error) {
	s, index, r, err := l.at(address)
	if err != nil || s == nil {
		return nil, err
	}
	said, compiled := s.t.Spec.Checks, s.t.checks
	if r != nil {
		said, compiled = r.Checks, r.checks
	}
	out := make([]Check, 0, len(said))
	for i, c := range said {
		v, err := s.evaluate(ctx, compiled[i], index, known, nil)
		if err == nil {
			err = open(v)
		}
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", c.Name, err)
		}
		doc := v.(map[string]any)
		c.HTTP, c.TCP, c.Consul = text(doc["http"]), text(doc["tcp"]), text(doc["consul"])
		if err := c.valid(); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// valid refuses what cannot be probed.
func (c Check) valid() error {
	if c.HTTP != "" {
		if u, err := url.Parse(c.HTTP); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fault.New(fault.Invalid, "check %s: http must be a URL such as http://localhost:8080/health", c.Name)
		}
	}
	if c.TCP != "" {
		if _, port, err := net.SplitHostPort(c.TCP); err != nil || port == "" {
			return fault.New(fault.Invalid, "check %s: tcp must be an address such as localhost:5432", c.Name)
		}
	}
	return nil
}

// open refuses what is for nobody's eyes, or not known yet.
func open(v any) error {
	switch {
	case !plainTree(v):
		return fault.New(fault.Invalid, "it would show a secret")
	case !executor.Whole(v):
		return fault.New(fault.Unavailable, "it depends on what is not known yet")
	}
	return nil
}

// Links of a resource, a group, or, of "", the environment, evaluated. Those that
// depend on what is not known yet are left out. Faults: NotFound, Invalid.
func (l *Layout) Links(ctx context.Context, address string, known Lookup) ([]Link, error) {
	s, index, r, err := l.at(address)
	if err != nil || s == nil {
		return nil, err
	}
	compiled := s.t.links
	if r != nil {
		compiled = r.links
	}
	if compiled == nil {
		return nil, nil
	}
	v, err := s.evaluate(ctx, compiled, index, known, nil)
	if err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	var out []Link
	for _, entry := range v.([]any) {
		if err := open(entry); fault.Is(err, fault.Unavailable) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("links: %w", err)
		}
		doc := entry.(map[string]any)
		link := Link{Rel: text(doc["rel"]), URL: text(doc["url"])}
		if u, err := url.Parse(link.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fault.New(fault.Invalid, "link %.64s: must be a URL such as https://example.org", link.Rel)
		}
		out = append(out, link)
	}
	return out, nil
}

// Inputs of the resource at an address: with Secret wherever anything secret went
// in, and Unknown wherever anything unknown did. Faults: NotFound, Invalid.
func (l *Layout) Inputs(ctx context.Context, address string, known Lookup) (map[string]any, error) {
	n, ok := l.Node(address)
	if !ok {
		return nil, fault.New(fault.NotFound, "there is no resource %.128s in the layout", address)
	}
	if n.resource.with == nil {
		return map[string]any{}, nil
	}
	if known == nil {
		known = func(string) (Known, bool) { return Known{}, false }
	}
	v, err := n.scope.evaluate(ctx, n.resource.with, n.Index, known, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: with: %w", address, n.scope.explain(err, n.resource.with, n.Index))
	}
	switch x := v.(type) {
	case map[string]any:
		return x, nil
	case executor.Secret: // the whole of it is one expression that reads a secret
		if m, ok := executor.Reveal(x).(map[string]any); ok {
			return veil(m).(map[string]any), nil
		}
	case expr.Unknown:
		return nil, fault.New(fault.Invalid, "%s: with: write the names of the inputs out: all of them depend on what is not known yet", address)
	}
	return nil, fault.New(fault.Invalid, "%s: with: must be a map", address)
}

// Value is an output with what it is.
type Value struct {
	Output
	Value any // with Secret and Unknown in it
}

// Outputs of the environment. Those that cannot be evaluated are Unknown, and
// told in the error, which the others come with.
func (l *Layout) Outputs(ctx context.Context, known Lookup) ([]Value, error) {
	if known == nil {
		known = func(string) (Known, bool) { return Known{}, false }
	}
	var wrong []string
	out := make([]Value, 0, len(l.root.t.outputs))
	for _, o := range l.root.t.outputs {
		v, err := l.root.evaluate(ctx, o.value, -1, known, nil)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("output %s: %v", o.Name, l.root.explain(err, o.value, -1)))
			v = expr.Unknown{}
		}
		if _, unknown := v.(expr.Unknown); o.Secret && !unknown {
			v = executor.NewSecret(executor.Reveal(v))
		}
		if o.Entry && !plainTree(v) {
			wrong = append(wrong, fmt.Sprintf("output %s: an entry point is shown to everybody, and this one holds a secret", o.Name))
			v = expr.Unknown{}
		}
		out = append(out, Value{Output: *o.Output, Value: v})
	}
	if len(wrong) > 0 {
		return out, fault.New(fault.Invalid, "%s", strings.Join(wrong, "\n"))
	}
	return out, nil
}
