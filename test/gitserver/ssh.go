package gitserver

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
)

// SSH is a server's other door, for whoever has the key.
type SSH struct {
	Addr       string
	KnownHosts string // the line of a known_hosts file that trusts it
	Key        []byte // of the reader, as OpenSSH keeps it

	root   string
	config *ssh.ServerConfig
	reader atomic.Pointer[string] // the key that is let in
	runs   atomic.Int64
}

// SSH opens the door until the test ends.
func (s *Server) SSH(t testing.TB) *SSH {
	t.Helper()
	_, host, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(host)
	if err != nil {
		t.Fatal(err)
	}
	h := &SSH{root: s.root}
	h.config = &ssh.ServerConfig{
		PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			if string(key.Marshal()) != *h.reader.Load() {
				return nil, errors.New("who are you?")
			}
			return nil, nil
		},
	}
	h.Rotate(t)
	h.config.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	h.Addr = l.Addr().String()
	_, port, _ := net.SplitHostPort(h.Addr)
	h.KnownHosts = "[127.0.0.1]:" + port + " " + string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
	// Ends with the listener; one more per connection, which ends with that.
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go h.serve(c)
		}
	}()
	return h
}

// Rotate makes another key, which alone is let in from now on.
func (h *SSH) Rotate(t testing.TB) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	reader, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	line := string(reader.Marshal())
	h.reader.Store(&line)
	h.Key = pem.EncodeToMemory(block)
}

// URL of a repository.
func (h *SSH) URL(r *Repo) string { return "ssh://git@" + h.Addr + "/" + r.Name + ".git" }

// Runs counts how often a repository was read.
func (h *SSH) Runs() int64 { return h.runs.Load() }

func (h *SSH) serve(c net.Conn) {
	defer c.Close()
	conn, channels, requests, err := ssh.NewServerConn(c, h.config)
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests) // ends with the connection
	for offer := range channels {
		if offer.ChannelType() != "session" {
			offer.Reject(ssh.UnknownChannelType, "sessions alone")
			continue
		}
		channel, asked, err := offer.Accept()
		if err != nil {
			return
		}
		go h.session(channel, asked) // ends with the connection
	}
}

// session runs the one program that there is.
func (h *SSH) session(channel ssh.Channel, asked <-chan *ssh.Request) {
	defer channel.Close()
	protocol := ""
	for r := range asked {
		switch r.Type {
		case "env":
			var set struct{ Name, Value string }
			if ssh.Unmarshal(r.Payload, &set) == nil && set.Name == "GIT_PROTOCOL" {
				protocol = set.Value
			}
			r.Reply(true, nil)
		case "exec":
			var want struct{ Command string }
			err := ssh.Unmarshal(r.Payload, &want)
			r.Reply(err == nil, nil)
			if err == nil {
				code := h.read(channel, want.Command, protocol)
				channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
			}
			return
		default:
			r.Reply(false, nil)
		}
	}
}

func (h *SSH) read(channel ssh.Channel, command, protocol string) uint32 {
	program, path, _ := strings.Cut(command, " ")
	path = strings.TrimPrefix(strings.Trim(path, "'"), "/")
	if program != "git-upload-pack" || !filepath.IsLocal(path) {
		io.WriteString(channel.Stderr(), "repositories can be read here, and nothing else\n")
		return 1
	}
	h.runs.Add(1)
	cmd := exec.Command("git", "upload-pack", filepath.Join(h.root, path))
	cmd.Env = append(environment(h.root), "PATH="+os.Getenv("PATH"), "GIT_PROTOCOL="+protocol)
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	// Not the command's own standard input, which would be waited for: the reader
	// may keep its side open. Ends with the channel.
	go func() { io.Copy(in, channel); in.Close() }()
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}
