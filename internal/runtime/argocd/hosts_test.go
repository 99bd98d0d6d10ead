package argocd_test

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // it is what known_hosts files hash names with
	"encoding/base64"
	"testing"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/argocd"
)

func TestTrust(t *testing.T) {
	of := func(workspace, repository, hosts string) runtime.Deployment {
		return runtime.Deployment{Workspace: workspace, Repository: repository, Credential: &runtime.RepositoryCredential{ID: "c", SSHKey: "k", KnownHosts: hosts}}
	}
	const border = "# What follows is kept by drover.\n"
	for _, tc := range []struct {
		reason, file string
		all          []runtime.Deployment
		want         string
	}{
		{"nobody needs anything", "a ssh-rsa AAAA\n", nil, "a ssh-rsa AAAA\n"},
		{"only the repository's own host", "", []runtime.Deployment{of("w1", "ssh://git@h/x", "h ssh-rsa AAAA note\nbank ssh-rsa BBBB\n* ssh-rsa CCCC\n")}, border + "h ssh-rsa AAAA w1\n"},
		{"the short form", "", []runtime.Deployment{of("w1", "git@h:x/y.git", "h,10.0.0.1 ssh-rsa AAAA\n")}, border + "h ssh-rsa AAAA w1\n"},
		{"another port", "", []runtime.Deployment{of("w1", "ssh://git@h:2222/x", "[h]:2222 ssh-rsa AAAA\nh ssh-rsa BBBB\n")}, border + "[h]:2222 ssh-rsa AAAA w1\n"},
		{"a hashed name", "", []runtime.Deployment{of("w1", "ssh://git@h/x", "|1|MDEyMzQ1Njc4OTAxMjM0NTY3ODk=|wrongwrongwrongwrongwrong=== ssh-rsa AAAA\n")}, ""},
		{"authorities are nobody's to name", "", []runtime.Deployment{of("w1", "ssh://git@h/x", "@cert-authority h ssh-rsa AAAA\n")}, ""},
		{"the operator's word counts", "h ssh-rsa OPER\n", []runtime.Deployment{of("w1", "ssh://git@h/x", "h ssh-rsa AAAA\n")}, "h ssh-rsa OPER\n"},
		{"nobody shuts others out", border + "h ssh-rsa BBBB w2\n", []runtime.Deployment{of("w1", "ssh://git@h/x", "h ssh-rsa AAAA\n"), of("w2", "ssh://git@h/x", "h ssh-rsa BBBB\n")}, border + "h ssh-rsa AAAA w1\nh ssh-rsa BBBB w2\n"},
		{"one key of several is there once", "", []runtime.Deployment{of("w2", "ssh://git@h/x", "h ssh-rsa AAAA\n"), of("w1", "ssh://git@h/y", "h ssh-rsa AAAA\n")}, border + "h ssh-rsa AAAA w1\n"},
		{"two credentials of one", "", []runtime.Deployment{of("w1", "ssh://git@h/x", "h ssh-rsa AAAA\n"), of("w1", "ssh://git@h/y", "h ssh-rsa BBBB\n")}, border + "h ssh-rsa AAAA w1\nh ssh-rsa BBBB w1\n"},
		{"until it goes", border + "h ssh-rsa BBBB w2\n", []runtime.Deployment{of("w1", "ssh://git@h/x", "h ssh-rsa AAAA\n")}, border + "h ssh-rsa AAAA w1\n"},
		{"and it may change its own", border + "h ssh-rsa BBBB w2\n", []runtime.Deployment{of("w2", "ssh://git@h/x", "h ssh-rsa CCCC\n")}, border + "h ssh-rsa CCCC w2\n"},
		{"what nobody needs goes", "a ssh-rsa AAAA\n" + border + "h ssh-rsa BBBB w2\n", nil, "a ssh-rsa AAAA\n"},
		{"two hosts in one are nobody's", "", []runtime.Deployment{of("w1", "ssh://git@bank,mine/x", hashedName("bank,mine")+" ssh-rsa AAAA\n")}, ""},
		{"nor in the short form", "", []runtime.Deployment{of("w1", "git@bank,mine:x", hashedName("bank,mine")+" ssh-rsa AAAA\n")}, ""},
		{"one hashed name is taken", "", []runtime.Deployment{of("w1", "ssh://git@h/x", hashedName("h")+" ssh-rsa AAAA\n")}, border + "h ssh-rsa AAAA w1\n"},
		{"HTTPS needs none", "", []runtime.Deployment{of("w1", "https://h/x", "h ssh-rsa AAAA\n")}, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got := argocd.Trust(tc.file, tc.all, true)
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if again := argocd.Trust(got, tc.all, true); again != got {
				t.Errorf("and then\n%s", again)
			}
		})
	}
}

// An agent that does not know all deployments yet takes nobody's key away, and adds
// nothing to what the operator says.
func TestTrustBeforeAllIsTold(t *testing.T) {
	const border = "# What follows is kept by drover.\n"
	mine := runtime.Deployment{Workspace: "w1", Repository: "ssh://git@h/x", Credential: &runtime.RepositoryCredential{ID: "c", SSHKey: "k", KnownHosts: "h ssh-rsa AAAA\n"}}
	file := "op ssh-rsa OPER\n" + border + "op ssh-rsa BBBB w2\nother ssh-rsa BBBB w2\nnonsense\n"
	if got, want := argocd.Trust(file, []runtime.Deployment{mine}, false), "op ssh-rsa OPER\n"+border+"h ssh-rsa AAAA w1\nother ssh-rsa BBBB w2\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := argocd.Trust(file, nil, true), "op ssh-rsa OPER\n"; got != want {
		t.Errorf("nobody needs any: got\n%s\nwant\n%s", got, want)
	}
}

// hashedName is a host as ssh-keygen -H writes it.
func hashedName(host string) string {
	salt := []byte("01234567890123456789")
	h := hmac.New(sha1.New, salt)
	h.Write([]byte(host))
	return "|1|" + base64.StdEncoding.EncodeToString(salt) + "|" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}
