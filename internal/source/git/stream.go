package git

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/transport"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/droverhq/drover/internal/fault"
)

// stream talks to git-upload-pack through a pair of pipes.
type stream struct {
	in    io.Writer
	out   io.Reader
	close func() error
}

// Refs implements line.
func (s *stream) Refs(context.Context) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	if err := refs.Decode(s.out); err != nil {
		return nil, err
	}
	if refs.IsEmpty() {
		return nil, transport.ErrEmptyRemoteRepository
	}
	transport.FilterUnsupportedCapabilities(refs.Capabilities)
	return refs, nil
}

// Pack implements line.
func (s *stream) Pack(_ context.Context, req *packp.UploadPackRequest) (io.ReadCloser, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	w := bufio.NewWriter(s.in)
	if err := req.UploadRequest.Encode(w); err != nil {
		return nil, err
	}
	if err := pktline.NewEncoder(w).EncodeString("done\n"); err != nil {
		return nil, err
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(io.NopCloser(s.out)); err != nil {
		return nil, err
	}
	return res, nil
}

// Close implements line.
func (s *stream) Close() error { return s.close() }

// ssh begins a conversation over SSH. The host must be a known one: without a way
// to tell, nothing is sent.
func (f fetch) ssh(ctx context.Context) (line, error) {
	if len(f.with.KnownHosts) == 0 {
		return nil, fault.New(fault.Invalid, "there is no way to tell whether %s is the right host: give its known_hosts lines with the credential (ssh-keyscan prints them; compare them with what the host's operators publish)", f.address.Host).Because("known-hosts")
	}
	host := f.address.Host
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "22")
	}
	config, err := f.login(host)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	// One watcher per conversation: it ends with it, or ends it with the context.
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over); conn.Close() })
	go func() {
		select {
		case <-ctx.Done():
			conn.Close()
		case <-over:
		}
	}()
	s, err := f.command(conn, host, config)
	if err != nil {
		end()
		return nil, err
	}
	s.close = func() error { end(); return nil }
	return s, nil
}

func (f fetch) command(conn net.Conn, host string, config *ssh.ClientConfig) (*stream, error) {
	c, channels, requests, err := ssh.NewClientConn(conn, host, config)
	if err != nil {
		return nil, err
	}
	session, err := ssh.NewClient(c, channels, requests).NewSession()
	if err != nil {
		return nil, err
	}
	in, err := session.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	left := f.limits.Bytes
	if err := session.Start("git-upload-pack '" + strings.NewReplacer("'", `'\''`, "!", `'\!'`).Replace(f.address.Path) + "'"); err != nil {
		return nil, err
	}
	return &stream{in: in, out: bounded{out, &left}}, nil
}

// login is how to prove who both sides are.
func (f fetch) login(host string) (*ssh.ClientConfig, error) {
	user := f.with.Username
	if f.address.User != "" {
		user = f.address.User
	}
	if user == "" {
		user = "git"
	}
	config := &ssh.ClientConfig{User: user, Timeout: f.limits.Timeout}
	switch {
	case len(f.with.SSHKey) > 0:
		key, err := ssh.ParsePrivateKey(f.with.SSHKey)
		if err != nil && f.with.Password != "" {
			key, err = ssh.ParsePrivateKeyWithPassphrase(f.with.SSHKey, []byte(f.with.Password))
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "the SSH key of the credential cannot be read: give a private key in PEM, and its passphrase as the password if it has one").Because("credential")
		}
		config.Auth = []ssh.AuthMethod{ssh.PublicKeys(key)}
	case f.with.Password != "":
		config.Auth = []ssh.AuthMethod{ssh.Password(f.with.Password)}
	default:
		return nil, fault.New(fault.Denied, "SSH needs a credential: give a private key").Because("credential")
	}
	var err error
	config.HostKeyCallback, config.HostKeyAlgorithms, err = known(host, f.with.KnownHosts)
	if check, tell := config.HostKeyCallback, f.with.Presented; err == nil && tell != nil {
		config.HostKeyCallback = func(host string, from net.Addr, key ssh.PublicKey) error {
			err := check(host, from, key)
			if err == nil {
				tell(strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))
			}
			return err
		}
	}
	return config, err
}

// known reads lines of known_hosts, and tells the kinds of keys that the host has
// in them: a server that has several is asked for one that can be compared.
func known(host string, lines []byte) (ssh.HostKeyCallback, []string, error) {
	bad := fault.New(fault.Invalid, "the known_hosts lines of the credential cannot be read").Because("known-hosts")
	file, err := os.CreateTemp("", "known-hosts-")
	if err != nil {
		return nil, nil, err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(lines)
	if closed := file.Close(); err != nil || closed != nil {
		return nil, nil, bad
	}
	check, err := knownhosts.New(file.Name())
	if err != nil {
		return nil, nil, bad
	}
	// A key that cannot be known makes the list of those that are.
	var kinds []string
	err = check(host, &net.TCPAddr{IP: net.IPv4zero}, nobody{})
	if e, ok := err.(*knownhosts.KeyError); ok {
		for _, k := range e.Want {
			switch t := k.Key.Type(); t {
			case ssh.KeyAlgoRSA:
				kinds = append(kinds, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			default:
				kinds = append(kinds, t)
			}
		}
	}
	return check, kinds, nil
}

// nobody is a key that no host has.
type nobody struct{}

func (nobody) Type() string                        { return "none" }
func (nobody) Marshal() []byte                     { return []byte("none") }
func (nobody) Verify([]byte, *ssh.Signature) error { return io.ErrUnexpectedEOF }

// local reads a repository of this machine with its git.
func (f fetch) local(ctx context.Context) (line, error) {
	if !f.Local {
		return nil, fault.New(fault.Denied, "repositories on the server's own disk cannot be read: use https or ssh").Because("source")
	}
	if _, err := os.Stat(f.address.Path); err != nil {
		return nil, transport.ErrRepositoryNotFound
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, fault.New(fault.Invalid, "file:// needs the program git, which is not installed here: name the directory itself").Because("source")
	}
	ctx, stop := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, git, "upload-pack", "--strict", "--", f.address.Path)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "LC_ALL=C"}
	in, err := cmd.StdinPipe()
	if err == nil {
		var out io.Reader
		if out, err = cmd.StdoutPipe(); err == nil {
			if err = cmd.Start(); err == nil {
				left := f.limits.Bytes
				return &stream{in: in, out: bounded{out, &left}, close: sync.OnceValue(func() error {
					in.Close()
					stop()
					return cmd.Wait()
				})}, nil
			}
		}
	}
	stop()
	return nil, err
}
