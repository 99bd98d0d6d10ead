// Package meta holds the templates of the environment that Drover itself runs in, by
// kind of location. They are data: `drover bootstrap` uses them unless a repository
// has others.
package meta

import "embed"

// FS holds a directory with a template.yaml for each kind of location.
//
//go:embed local kubernetes
var FS embed.FS
