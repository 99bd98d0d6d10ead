package kubernetes

import "github.com/droverhq/drover/internal/executor"

// Differ is differ.
func Differ(a, b any, tell func(path string, a, b any)) { differ("", a, b, tell) }

// Without is without.
func Without(v any) any { return without(v) }

// SecretPaths is secretPaths of a whole object.
func SecretPaths(v any) []string { return secretPaths("", v) }

// Decide is what a plan says of objects that are there, with what differs.
func Decide(inventory []string, fields ...executor.Field) executor.Change {
	return view{inventory: inventory, fields: fields, some: true}.decide()
}

// UnknownPaths is unknownPaths of a whole object.
func UnknownPaths(v any) []string { return unknownPaths("", v) }
