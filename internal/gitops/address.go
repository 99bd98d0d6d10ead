package gitops

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var scpAddress = regexp.MustCompile(`^(?:[^@/:\s]+@)?([^/:@\s]+):(.*)$`)

// NormaliseRepository is the one form of all URLs that mean the same repository:
// without user, default port, ".git" and slashes at the end, the host in small
// letters. The path keeps its case: some servers tell it apart.
func NormaliseRepository(text string) string {
	text = strings.TrimSpace(text)
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		m := scpAddress.FindStringSubmatch(text)
		if m == nil {
			return trimRepository(text)
		}
		scheme, rest = "ssh", m[1]+"/"+strings.TrimLeft(m[2], "/")
	}
	scheme = strings.ToLower(scheme)
	host, where, _ := strings.Cut(rest, "/")
	if at := strings.LastIndexByte(host, '@'); at >= 0 {
		host = host[at+1:]
	}
	port := map[string]string{"https": ":443", "http": ":80", "ssh": ":22"}[scheme]
	return scheme + "://" + strings.TrimSuffix(strings.ToLower(host), port) + "/" + trimRepository(strings.TrimLeft(where, "/"))
}

func trimRepository(s string) string {
	for {
		short := strings.TrimSuffix(strings.TrimRight(s, "/"), ".git")
		if short == s {
			return s
		}
		s = short
	}
}

const (
	maxURL      = 1000 // bytes: it is a column too
	maxRevision = 255
	maxPath     = 1024
)

// hidden reports what no text of a spec may hold: it could not be shown or kept.
func hidden(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
}

// checkRepository says what is wrong with a repository's URL; empty: nothing.
func checkRepository(text string) string {
	bad := func(why string) string { return "the repository URL " + why }
	switch {
	case text == "":
		return bad("is missing: name a Git repository")
	case len(text) > maxURL:
		return bad("is too long")
	case hidden(text) || strings.ContainsFunc(text, unicode.IsSpace):
		return bad("holds blanks or characters that cannot be seen")
	case strings.HasPrefix(text, "-"):
		return bad("begins with \"-\"")
	}
	if !strings.Contains(text, "://") {
		if !scpAddress.MatchString(text) {
			return bad("is none: write https://host/org/repo, or git@host:org/repo")
		}
		return ""
	}
	u, err := url.Parse(text)
	if err == nil && !slices.Contains([]string{"https", "http", "ssh"}, strings.ToLower(u.Scheme)) {
		return bad("must begin with https://, http:// or ssh://")
	}
	if err != nil || u.Host == "" || strings.Trim(u.Path, "/") == "" {
		return bad("is none: write https://host/org/repo")
	}
	if _, has := u.User.Password(); has {
		return bad("holds a password: leave it out, and give a repository credential")
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return bad("has a \"?\" or a \"#\"")
	}
	return ""
}

// checkPath says what is wrong with a directory of a repository.
func checkPath(p string) string {
	switch clean := path.Clean(p); {
	case p == "":
		return "spec.source.path is a required field and it cannot be empty"
	case p == "/":
		return "spec.source.path cannot be '/'"
	case len(p) > maxPath || hidden(p) || strings.Contains(p, `\`):
		return "spec.source.path is too long, or holds characters that no directory of a repository has"
	case strings.HasPrefix(p, "/"):
		return "spec.source.path must not begin with '/': it is relative to the repository"
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "spec.source.path leads out of the repository"
	}
	return ""
}

// checkRevision says what is wrong with a branch, tag or commit.
func checkRevision(rev string) string {
	if len(rev) > maxRevision || hidden(rev) || strings.HasPrefix(rev, "-") || strings.Contains(rev, "..") {
		return "the revision is none: name a branch, a tag or a commit"
	}
	return ""
}

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// badOptions is what users read of sync options that there are not.
const badOptions = "the specified sync option in .spec.syncPolicy.syncOptions is either mispelled or is not supported by GitOpsDeployment"

// The sync options that there are.
const (
	namespaceMade    = "CreateNamespace=true"
	namespaceNotMade = "CreateNamespace=false"
)

// makesNamespace reports whether the namespace is made for a deployment, where the
// agent does that itself. A custom resource has to say so.
func (s Spec) makesNamespace() bool {
	return slices.Contains(s.SyncOptions, namespaceMade) || s.Origin == nil && !slices.Contains(s.SyncOptions, namespaceNotMade)
}

func checkOptions(options []string) string {
	for _, o := range options {
		if o != namespaceMade && o != namespaceNotMade {
			return badOptions
		}
	}
	return ""
}
