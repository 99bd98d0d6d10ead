// Package offerings holds the files of the offerings that ship with the
// product. They are data: no code knows them by name.
package offerings

import "embed"

// FS holds one YAML file per offering.
//
//go:embed *.yaml
var FS embed.FS
