package git_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/source/git"
)

func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

// sshServer runs what it is asked to, for one user with one key. Its goroutines
// end with the listener.
func sshServer(t *testing.T, host ssh.Signer, allowed ssh.PublicKey) string {
	t.Helper()
	config := &ssh.ServerConfig{PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if c.User() != "git" || string(key.Marshal()) != string(allowed.Marshal()) {
			return nil, fault.New(fault.Denied, "no")
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answer(conn, config)
		}
	}()
	return l.Addr().String()
}

func answer(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			r.Reply(r.Type == "exec", nil)
			if r.Type != "exec" {
				continue
			}
			cmd := exec.Command("sh", "-c", string(r.Payload[4:]))
			cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
			in, err := cmd.StdinPipe()
			if err != nil {
				return
			}
			go func() { io.Copy(in, channel); in.Close() }()
			status := []byte{0, 0, 0, 0}
			if cmd.Run() != nil {
				status[3] = 1
			}
			channel.SendRequest("exit-status", false, status)
			channel.Close()
		}
	}
}

func TestSSH(t *testing.T) {
	r := newRepository(t)
	host, _ := newKey(t)
	other, otherPEM := newKey(t)
	mine, minePEM := newKey(t)
	addr := sshServer(t, host, mine.PublicKey())
	lines := func(key ssh.PublicKey, at string) []byte {
		return []byte(knownhosts.Line([]string{knownhosts.Normalize(at)}, key) + "\n")
	}
	good := lines(host.PublicKey(), addr)
	repo := "ssh://git@" + addr + r.dir + "/repo.git"
	cases := []struct {
		reason, repo string
		with         source.Credential
		kind         fault.Kind
		says         string
	}{
		{"a known host and a key", repo, source.Credential{SSHKey: minePEM, KnownHosts: good}, 0, ""},
		{"the user of the credential", strings.Replace(repo, "git@", "", 1), source.Credential{Username: "git", SSHKey: minePEM, KnownHosts: good}, 0, ""},
		{"no known hosts", repo, source.Credential{SSHKey: minePEM}, fault.Invalid, "known_hosts"},
		{"another host's key", repo, source.Credential{SSHKey: minePEM, KnownHosts: lines(other.PublicKey(), addr)}, fault.Denied, "another key"},
		{"a host that is not listed", repo, source.Credential{SSHKey: minePEM, KnownHosts: lines(host.PublicKey(), "git.example.org:22")}, fault.Denied, "do not have the host"},
		{"a key that the host does not take", repo, source.Credential{SSHKey: otherPEM, KnownHosts: good}, fault.Denied, "does not take the credential"},
		{"no key", repo, source.Credential{KnownHosts: good}, fault.Denied, "private key"},
		{"a key that is none", repo, source.Credential{SSHKey: []byte("-----BEGIN s3cr3t"), KnownHosts: good}, fault.Invalid, "cannot be read"},
		{"no repository", repo + "x", source.Credential{SSHKey: minePEM, KnownHosts: good}, fault.NotFound, "no repository"},
		{"no repository, but a command", "ssh://git@" + addr + "/x';touch${IFS}" + r.dir + "/pwned;'", source.Credential{SSHKey: minePEM, KnownHosts: good}, fault.NotFound, "no repository"},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			tree, err := git.Source{}.Read(t.Context(), source.Location{Repository: c.repo, Path: "shop", Revision: "v1"}, c.with, source.Limits{})
			if c.says == "" {
				if err != nil || tree.Commit != r.first {
					t.Errorf("%s, %v", tree.Commit, err)
				}
				return
			}
			if !fault.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("%v (%v)", err, fault.Of(err))
			}
		})
	}
	if out, err := exec.Command("ls", r.dir+"/pwned").CombinedOutput(); err == nil {
		t.Errorf("a path was run as a command: %s", out)
	}
}
