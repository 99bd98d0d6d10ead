package gitops_test

import (
	"testing"
	"time"

	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/source"
)

// TestOnlyWhatAHostHasShownIsHandedOn has a tenant name more keys than its server has:
// Argo CD trusts one list for all, and is told of the one that was seen.
func TestOnlyWhatAHostHasShownIsHandedOn(t *testing.T) {
	d := newDesk(t)
	shows := "ssh-rsa REAL"
	d.gate.opens = func(_ source.Location, with source.Credential) error {
		with.Presented(shows)
		return nil
	}
	in := d.credential("r-1", 1, &gitops.SecretData{Type: "managed-gitops.redhat.com/repository-credential", Data: map[string][]byte{
		"sshPrivateKey": []byte("k"), "knownHosts": []byte("git.example.org ssh-rsa REAL note\ngit.example.org ssh-rsa FAKE\nbank.example.org ssh-rsa FAKE\ngit.example.org ssh-ed25519 NEXT\n")}})
	in.URL = "ssh://git@git.example.org/acme/shop.git"
	d.intendRepository(in)
	w := d.intent("uid-1", 1)
	w.Repository = in.URL
	d.apply(w)
	d.work(time.Second)
	told := func() string {
		c := d.body("hub", "uid-1").Credential
		if c == nil {
			t.Fatal("it has no credential")
		}
		return c.KnownHosts
	}
	if got := told(); got != "git.example.org ssh-rsa REAL\n" {
		t.Errorf("the agent is told %q", got)
	}
	shows = "ssh-ed25519 NEXT" // the server has another by now
	d.work(11 * time.Minute)
	if got := told(); got != "git.example.org ssh-ed25519 NEXT\n" {
		t.Errorf("and then %q", got)
	}
}
