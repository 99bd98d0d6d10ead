// Package action runs commands: as resources of an environment, and for whoever
// else needs a program to be run safely.
//
// There is no shell: a program gets its arguments one by one, an environment of
// its own, a directory of its own that goes when it ends, and is ended with
// everything it has started. Programs come from a URL with a digest, from files
// that are given along, or from the list that the server's operators allow. It
// must not know what a command is for.
package action
