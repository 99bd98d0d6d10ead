package app

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/source/git"
)

// Names of those who are called, as metrics and the doctor tell them.
const (
	toRepositories = "the Git repository"
	toIssuers      = "the issuer of tokens"
	toClusters     = "the API server of a cluster"
	toTenants      = "the cluster" // that tenants bring along, as its room calls it
	toResources    = "the Kubernetes API of resources"
	toCustom       = "the Kubernetes API of custom resources"
	toOwn          = "the agent's Kubernetes API"
	toPeer         = "the other site"
	toWitness      = "the witness"
	toCollector    = "the collector of traces"
	toGitHub       = "GitHub"
)

// lasting is the timeout of policies whose calls bring their own.
const lasting = 24 * time.Hour

// repositories read Git with a policy for each repository and credential: tenants
// name them, and what one of them has broken is no other's trouble, even on the
// same host. Nothing is read twice by it: the loop comes again.
type repositories struct {
	git.Source
	policies *resilience.Group

	mu   sync.Mutex
	last map[string]error // what each failed with last
}

func newRepositories(observer resilience.Observer) *repositories {
	return &repositories{last: map[string]error{}, policies: resilience.NewGroup(resilience.Config{
		Name: toRepositories, Timeout: lasting, Retries: -1, Rest: 5 * time.Second, AtOnce: 16, Queue: time.Minute, Observer: observer,
	})}
}

// read makes one call. While the repository rests, whoever asks reads what it
// failed with last: a message that changed with every look would say less.
func (r *repositories) read(ctx context.Context, at source.Location, with source.Credential, call func(ctx context.Context) error) error {
	key := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", at.Repository, with.Username, with.Password, with.SSHKey)))
	var busy error // what says nothing about the other side
	err := r.policies.Of(key).Once(ctx, func(ctx context.Context) error {
		err := call(ctx)
		if busy = nil; fault.Reason(err) == "busy" {
			busy = err
			return nil
		}
		return err
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		delete(r.last, key)
		return busy
	case fault.Reason(err) == "breaker-open":
		if last := r.last[key]; last != nil {
			return stillAway{last, err}
		}
	case fault.Is(err, fault.Unavailable):
		if len(r.last) >= 1000 {
			clear(r.last)
		}
		r.last[key] = err
	}
	return err
}

// stillAway says what failed last, and when it is tried again.
type stillAway struct {
	error
	rest error
}

func (s stillAway) Unwrap() []error { return []error{s.error, s.rest} }

// Read implements source.Source.
func (r *repositories) Read(ctx context.Context, at source.Location, with source.Credential, limits source.Limits) (tree source.Tree, err error) {
	err = r.read(ctx, at, with, func(ctx context.Context) (err error) { tree, err = r.Source.Read(ctx, at, with, limits); return err })
	return tree, err
}

// Commit implements gitops.Historian.
func (r *repositories) Commit(ctx context.Context, at source.Location, with source.Credential, limits source.Limits) (tree source.Tree, err error) {
	err = r.read(ctx, at, with, func(ctx context.Context) (err error) { tree, err = r.Source.Commit(ctx, at, with, limits); return err })
	return tree, err
}

// Probe implements gitops.Prober.
func (r *repositories) Probe(ctx context.Context, at source.Location, with source.Credential) (commit string, err error) {
	err = r.read(ctx, at, with, func(ctx context.Context) (err error) { commit, err = r.Source.Probe(ctx, at, with); return err })
	return commit, err
}

// Refs implements gitops.Lister.
func (r *repositories) Refs(ctx context.Context, at source.Location, with source.Credential) (tell func(string) (string, error), err error) {
	err = r.read(ctx, at, with, func(ctx context.Context) (err error) { tell, err = r.Source.Refs(ctx, at, with); return err })
	return tell, err
}

// documentLine carries questions for documents, such as an issuer's keys, which are
// small and may be asked for twice.
type documentLine struct {
	http.RoundTripper
	policies *resilience.Group
	most     int64 // bytes of one
}

func issuerClient(observer resilience.Observer) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: documentLine{http.DefaultTransport, resilience.NewGroup(issuersConfig(observer)), 1 << 20}}
}

func issuersConfig(observer resilience.Observer) resilience.Config {
	return resilience.Config{Name: toIssuers, Timeout: 4 * time.Second, Observer: observer}
}

// gitHubClient asks GitHub, once per bootstrap: nobody watches.
func gitHubClient() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: documentLine{http.DefaultTransport, resilience.NewGroup(gitHubConfig()), 16 << 20}}
}

func gitHubConfig() resilience.Config { return resilience.Config{Name: toGitHub} }

// siteConfig is of those whom a site asks every moment and about whom it decides by
// itself: a rest would hide that one is back, and the next question is the retry.
func siteConfig(name string, observer resilience.Observer) resilience.Config {
	return resilience.Config{Name: name, Timeout: 2 * time.Second, Retries: -1, Failures: -1, Observer: observer}
}

// siteLine carries what a site asks.
type siteLine struct {
	http.RoundTripper
	policy *resilience.Policy
}

// CloseIdleConnections is what http.Client asks for.
func (l siteLine) CloseIdleConnections() {
	if c, ok := l.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (l siteLine) RoundTrip(q *http.Request) (resp *http.Response, err error) {
	told := l.policy.Once(q.Context(), func(ctx context.Context) error {
		if resp, err = begin(ctx, l.RoundTripper, q); err != nil {
			return fault.New(fault.Unavailable, "it cannot be reached: %w", err)
		}
		if resp.StatusCode >= http.StatusInternalServerError {
			return fault.New(fault.Unavailable, "it answered %s", resp.Status)
		}
		return nil
	})
	if resp == nil && err == nil { // it was not asked
		discard(q.Body)
		return nil, told
	}
	return resp, err
}

// RoundTrip implements http.RoundTripper.
func (l documentLine) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	err = l.policies.Of(req.URL.Host).Do(req.Context(), func(ctx context.Context) error {
		got, err := l.RoundTripper.RoundTrip(req.WithContext(ctx))
		if err != nil {
			return fault.New(fault.Unavailable, "it cannot be reached: %w", err)
		}
		defer got.Body.Close()
		data, err := io.ReadAll(io.LimitReader(got.Body, l.most))
		if err != nil {
			return fault.New(fault.Unavailable, "its answer broke off: %w", err)
		}
		if got.StatusCode >= http.StatusInternalServerError {
			return fault.New(fault.Unavailable, "it answered %s", got.Status)
		}
		got.Body = io.NopCloser(bytes.NewReader(data))
		resp = got
		return nil
	})
	return resp, err
}

// rested waits, unless the context ends before.
func rested(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
