package source

import (
	"net"
	"net/url"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/transport"
)

const (
	maxText     = 2048
	maxRevision = 255
)

// Parse reads the text that people write: a directory ("./examples/shop"), or a
// Git repository with an optional subdirectory behind "//" and an optional
// revision behind "@":
//
//	https://host/org/repo.git//templates/shop@v1.2
//	git@host:org/repo@main
//	ssh://git@host:2222/org/repo@3f2a1b0
//
// The "@" of a user, and one that begins a part of the path, is not a revision's.
// Passwords have no place in it: it is shown and kept.
func Parse(text string) (Location, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "":
		return Location{}, fault.New(fault.Invalid, "no source is given: name a directory, or a Git repository").Because("source")
	case len(text) > maxText:
		return Location{}, fault.New(fault.Invalid, "the source is longer than %d characters", maxText).Because("source")
	case strings.ContainsFunc(text, unicode.IsControl):
		return Location{}, fault.New(fault.Invalid, "the source holds control characters").Because("source")
	}
	head, tail := text, ""
	switch at := strings.Index(text, "://"); {
	case at >= 0:
		slash := strings.IndexByte(text[at+3:], '/')
		if slash < 0 {
			return Location{}, fault.New(fault.Invalid, "the source names a host and no repository: write https://host/org/repo").Because("source")
		}
		head, tail = text[:at+3+slash], text[at+3+slash:]
	case scpLike.MatchString(text):
		at := strings.IndexByte(text, ':')
		head, tail = text[:at+1], text[at+1:]
	default:
		return Location{Repository: text}, nil
	}
	var l Location
	if at := strings.LastIndexByte(tail, '@'); at > 0 && tail[at-1] != '/' {
		tail, l.Revision = tail[:at], tail[at+1:]
		if l.Revision == "" {
			return Location{}, fault.New(fault.Invalid, "there is an \"@\" without a revision behind it").Because("source")
		}
	}
	if repo, sub, ok := strings.Cut(tail, "//"); ok {
		tail, l.Path = repo, strings.Trim(sub, "/")
	}
	l.Repository = head + strings.TrimRight(tail, "/")
	if err := l.Check(); err != nil {
		return Location{}, err
	}
	return l, nil
}

// String is the text that Parse reads.
func (l Location) String() string {
	out := l.Repository
	if l.Path != "" {
		out += "//" + l.Path
	}
	if l.Revision != "" {
		out += "@" + l.Revision
	}
	return out
}

var (
	scpLike  = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:`)
	hostLike = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$`)
)

// Directory reports whether it is one of this machine, and no repository.
func (l Location) Directory() bool {
	return !strings.Contains(l.Repository, "://") && !scpLike.MatchString(l.Repository)
}

// Address of a Git repository, taken apart.
type Address struct {
	Scheme string // https, http, ssh, file
	User   string
	Host   string // with its port, where one is named
	Path   string
}

// Check refuses a location that cannot be read or should not be.
func (l Location) Check() error {
	if l.Directory() {
		if l.Repository == "" || len(l.Repository) > maxText || strings.ContainsRune(l.Repository, 0) {
			return fault.New(fault.Invalid, "no directory is named").Because("source")
		}
	} else if _, err := l.Address(); err != nil {
		return err
	}
	if err := CheckPath(l.Path); l.Path != "" && err != nil {
		return err
	}
	return checkRevision(l.Revision)
}

// Address takes the address of a Git repository apart.
func (l Location) Address() (Address, error) {
	bad := func(why string) (Address, error) {
		return Address{}, fault.New(fault.Invalid, "the address of the repository %s", why).Because("source")
	}
	if m := scpLike.FindString(l.Repository); m != "" && !strings.Contains(l.Repository, "://") {
		user, host, _ := strings.Cut(strings.TrimSuffix(m, ":"), "@")
		a := Address{Scheme: "ssh", User: user, Host: host, Path: l.Repository[len(m):]}
		if !hostLike.MatchString(host) {
			return bad("has a host that is none")
		}
		return a, a.checkPath(bad)
	}
	u, err := url.Parse(l.Repository)
	if err != nil || u.Opaque != "" {
		return bad("cannot be read: write https://host/org/repo") // the cause would quote a password
	}
	if _, has := u.User.Password(); has {
		return bad("holds a password: leave it out, and give the credential beside it")
	}
	if u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || strings.Contains(l.Repository, "#") {
		return bad("has a \"?\" or a \"#\": name the revision behind \"@\"")
	}
	a := Address{Scheme: u.Scheme, User: u.User.Username(), Host: u.Host, Path: u.Path}
	switch u.Scheme {
	case "https", "ssh":
	case "http":
		if !transport.Loopback(u.Hostname()) {
			return bad("begins with http, which anybody on the way could change: use https")
		}
	case "file":
		if u.Host != "" || u.User != nil {
			return bad("names a host for a file: write file:///path")
		}
		return a, a.checkPath(bad)
	default:
		return bad("begins with something else than https, ssh or git@host:")
	}
	if host := u.Hostname(); !hostLike.MatchString(host) && net.ParseIP(host) == nil {
		return bad("has a host that is none")
	}
	return a, a.checkPath(bad)
}

func (a Address) checkPath(bad func(string) (Address, error)) error {
	var err error
	switch {
	case strings.Trim(a.Path, "/") == "":
		_, err = bad("names no repository on its host")
	case strings.HasPrefix(a.Path, "-"), strings.HasPrefix(a.User, "-"):
		_, err = bad("has a part that begins with \"-\"")
	case strings.ContainsFunc(a.Path, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '\\' }):
		_, err = bad("holds a blank or a backslash")
	case strings.Contains(strings.TrimPrefix(a.Path, "/"), "//"), strings.HasSuffix(a.Path, "/"):
		_, err = bad("has an empty part: a subdirectory is named on its own")
	case strings.Contains("/"+a.Path+"/", "/../"), strings.Contains("/"+a.Path+"/", "/./"):
		_, err = bad("has a part \"..\" or \".\"")
	}
	return err
}

func checkRevision(rev string) error {
	bad := rev != "" && (len(rev) > maxRevision || strings.HasPrefix(rev, "-") || strings.HasPrefix(rev, "/") || strings.HasSuffix(rev, "/") ||
		strings.HasSuffix(rev, ".") || strings.Contains(rev, "..") || strings.Contains(rev, "//") || strings.Contains(rev, "@{") ||
		strings.ContainsFunc(rev, func(r rune) bool {
			return unicode.IsControl(r) || unicode.IsSpace(r) || r == unicode.ReplacementChar || strings.ContainsRune(`~^:?*[\@`, r)
		}))
	if bad {
		return fault.New(fault.Invalid, "%.64q is no revision: name a branch, a tag or a commit", rev).Because("revision")
	}
	return nil
}

// CheckPath refuses a relative path that leads out of its tree, or means
// something else on another machine than it does here.
func CheckPath(p string) error {
	if len(p) > maxPath {
		return fault.New(fault.Invalid, "the path %.64q... is longer than %d bytes", p, maxPath).Because("path")
	}
	if p != path.Clean(p) || strings.HasPrefix(p, "/") {
		return fault.New(fault.Invalid, "%.128q leads out of the tree, or has empty parts: write it as a/b/c", p).Because("path")
	}
	parts := strings.Split(p, "/")
	if len(parts) > maxDepth {
		return fault.New(fault.Invalid, "%.64q... is deeper than %d directories", p, maxDepth).Because("path")
	}
	for _, part := range parts {
		if err := CheckName(part); err != nil {
			return err
		}
	}
	return nil
}
