// Package source is the port of where files come from: a directory of this
// machine, a Git repository at a revision. Each lives in a folder of its own.
//
// Whoever writes a repository is a stranger: what is read of it is bounded in
// number and size, and nothing in it leads out of it. A source must not know what
// the files mean.
package source

import (
	"context"
	"time"
)

// Location says where files are.
type Location struct {
	// Repository is a directory, or the URL of a Git repository (https, http on
	// loopback, ssh, git@host:path), perhaps with "//" and a subdirectory, and
	// "@" and a revision behind it: see Parse.
	Repository string `json:"repository"`
	Revision   string `json:"revision,omitempty"` // branch, tag or commit; default: the default branch
	Path       string `json:"path,omitempty"`     // subdirectory
}

// Credential opens a repository.
type Credential struct {
	Username   string
	Password   string // or a token
	SSHKey     []byte // PEM
	KnownHosts []byte // lines of known_hosts; without, ssh is refused
	// Presented is told the key, "<type> <base64>", that a host of SSH showed and that
	// KnownHosts has; nil: nobody is.
	Presented func(key string)
}

// Tree is what was read: regular files alone.
type Tree struct {
	// Commit is the full hash of the commit, or for a directory "dir-" and a
	// digest of its files.
	Commit string
	// Files by path, slashes between, relative to Location.Path.
	Files map[string]File
	// Author and Time of the commit, where there is one, and the first line of its
	// message.
	Author  string
	Time    time.Time
	Message string
}

// File of a tree.
type File struct {
	Data []byte
	Exec bool // it may be run
}

// Limits of what is read. The zero value of each is its default.
type Limits struct {
	Files   int           // default 2,000
	Bytes   int64         // of all files, and of what is transferred; default 32 MiB
	File    int64         // of one file; default 4 MiB
	Timeout time.Duration // of a fetch; default 1 min
}

// Source reads trees.
type Source interface {
	// Read returns the files of a location. Faults: Invalid (a bad location, a
	// tree that leads out of itself, or is too large), NotFound (no such
	// repository, revision or path), Denied (the credential), Unavailable.
	Read(ctx context.Context, at Location, with Credential, limits Limits) (Tree, error)
}
