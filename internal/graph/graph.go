// Package graph is a directed acyclic graph of names: what needs what. It is
// pure, knows nothing of what the names stand for, and gives the same order for
// the same input.
package graph
