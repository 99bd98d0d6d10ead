package kubernetes

// Differ is differ.
func Differ(a, b any, tell func(path string, a, b any)) { differ("", a, b, tell) }

// Without is without.
func Without(v any) any { return without(v) }

// SecretPaths is secretPaths of a whole object.
func SecretPaths(v any) []string { return secretPaths("", v) }

// UnknownPaths is unknownPaths of a whole object.
func UnknownPaths(v any) []string { return unknownPaths("", v) }
