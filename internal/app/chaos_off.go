//go:build !chaos

package app

import "net/http"

// steady is the ledger as everybody gets it. A build for bad days (-tags chaos)
// has some of its calls fail.
func steady(l store, _ <-chan struct{}) (store, error) { return l, nil }

// unreliable is what sees every request to a Kubernetes API; nil: nobody does.
func unreliable() func(http.RoundTripper) http.RoundTripper { return nil }
