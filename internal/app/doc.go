// Package app puts the house together: configuration in, a running control
// plane out. It is the only room that knows every other one.
package app
