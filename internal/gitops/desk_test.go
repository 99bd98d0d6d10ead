package gitops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/source"
)

// gate is a Git server that knows one credential, or fails.
type gate struct {
	err   error
	opens func(source.Location, source.Credential) error
	asked []source.Credential
}

func (g *gate) Probe(_ context.Context, at source.Location, with source.Credential) (string, error) {
	g.asked = append(g.asked, with)
	if g.err != nil {
		return "", g.err
	}
	if g.opens != nil {
		if err := g.opens(at, with); err != nil {
			return "", err
		}
	}
	return strings.Repeat("a", 40), nil
}

// clusters are those that tenants bring along.
type clusters struct {
	check, install, remove error
	token                  string // of accounts that are made
	accounts               map[string]gitops.RemoteCluster
	checked                []gitops.RemoteCluster
	removals               int
}

func (c *clusters) Check(_ context.Context, at gitops.RemoteCluster) error {
	c.checked = append(c.checked, at)
	return c.check
}

func (c *clusters) Install(_ context.Context, at gitops.RemoteCluster, account string) (string, error) {
	if c.install != nil {
		return "", c.install
	}
	c.accounts[at.Server+" "+account] = at
	return c.token, nil
}

func (c *clusters) Remove(_ context.Context, at gitops.RemoteCluster, account string) error {
	c.removals++
	if c.remove != nil {
		return c.remove
	}
	delete(c.accounts, at.Server+" "+account)
	return nil
}

// desk is a yard whose Git servers and clusters can be told what to say.
type desk struct {
	*yard
	gate   *gate
	remote *clusters
}

func newDesk(t testing.TB) *desk {
	d := &desk{yard: newYard(t), gate: &gate{}, remote: &clusters{accounts: map[string]gitops.RemoteCluster{}, token: "t0k3n-of-the-account"}}
	d.s = gitops.NewService(gitops.Config{
		Store: d.store, Keeper: d.store, Engines: d.engines, Mirror: d.mirror, Source: d.hub, Prober: d.gate, Remote: d.remote,
		KnownHosts: []byte("git.example.org ssh-ed25519 AAAA\n"), Now: func() time.Time { return d.clock },
	})
	d.all = d.s.Reconcilers()
	return d
}

func (d *desk) home() gitops.Namespace {
	return gitops.Namespace{Home: "main", Name: "shop", UID: "ns-1", Engine: "hub"}
}

// password is the Secret of a user and a password.
func password(user, word string) *gitops.SecretData {
	return &gitops.SecretData{Type: "managed-gitops.redhat.com/repository-credential", Data: map[string][]byte{"username": []byte(user), "password": []byte(word)}}
}

func (d *desk) credential(uid string, generation int64, secret *gitops.SecretData) gitops.RepositoryIntent {
	return gitops.RepositoryIntent{
		Intent: gitops.Intent{Namespace: d.home(), Name: "cred", UID: uid, Generation: generation},
		URL:    "https://git.example.org/acme/shop.git", SecretName: "login", Secret: secret,
	}
}

func (d *desk) intendRepository(in gitops.RepositoryIntent) {
	d.t.Helper()
	d.mirror.there[in.UID] = true
	d.must(d.s.IntendRepository(context.Background(), in))
}

func (d *desk) repository(id string) gitops.Repository {
	d.t.Helper()
	o, err := d.store.Get(context.Background(), ledger.Ref{Kind: "repository", ID: id})
	d.must(err)
	r, err := gitops.DecodeRepository(o)
	d.must(err)
	return r
}

func (d *desk) target(id string) gitops.Target {
	d.t.Helper()
	o, err := d.store.Get(context.Background(), ledger.Ref{Kind: "target", ID: id})
	d.must(err)
	t, err := gitops.DecodeTarget(o)
	d.must(err)
	return t
}

// lines are conditions as "type status reason: message".
func lines(list []gitops.Condition) (out []string) {
	for _, c := range list {
		out = append(out, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return out
}

// opens reports whether a sealed secret can still be opened, and what it holds.
func (d *desk) opens(ref string) string {
	plain, err := d.store.Unseal(context.Background(), ref)
	if err != nil {
		return "shredded"
	}
	return string(plain)
}

// nowhere fails where a text stands in the log, in an object or in what was told.
func (d *desk) nowhere(texts ...string) {
	d.t.Helper()
	changes, err := d.store.Changes(context.Background(), ledger.ChangeQuery{Limit: 10000})
	d.must(err)
	if len(changes) == 0 {
		d.t.Fatal("nothing was written: the test looks in the wrong place")
	}
	for _, text := range texts {
		for _, c := range changes {
			raw, err := json.Marshal(c)
			d.must(err)
			if strings.Contains(string(raw), text) {
				d.t.Errorf("change %d of %s holds the secret", c.Seq, c.Object.Ref)
			}
		}
		for uid, view := range d.mirror.told {
			raw, err := json.Marshal(view)
			d.must(err)
			if strings.Contains(string(raw), text) {
				d.t.Errorf("the status of %s holds the secret", uid)
			}
		}
	}
}

func denied() error {
	return fault.New(fault.Denied, "the server does not take the credential").Because("credential")
}
