// Package expr evaluates CEL in documents: `${...}` inside strings of an
// otherwise plain tree of maps, lists and scalars.
//
// It owns the bounds (expression length, cost, time, size of values), the
// types that expressions are checked against, and where in a document a
// mistake is. It must not know what the documents describe.
package expr
