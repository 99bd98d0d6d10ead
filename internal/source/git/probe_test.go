package git_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/source/git"
	"github.com/droverhq/drover/test/gitserver"
)

func TestProbe(t *testing.T) {
	s := gitserver.Start(t, gitserver.WithPassword("reader", "s3cr3t"))
	r := s.Repo(t, "Team/Shop")
	first := r.Commit(t, "main", map[string]gitserver.Entry{"a": gitserver.File("a")})
	r.Tag(t, "v1", first, "told")
	second := r.Commit(t, "main", map[string]gitserver.Entry{"a": gitserver.File("b")})
	r.Branch(t, "side", first)
	empty := s.Repo(t, "empty")
	h, stranger := s.SSH(t), s.SSH(t)
	open := source.Credential{Username: "reader", Password: "s3cr3t"}
	key := source.Credential{SSHKey: h.Key, KnownHosts: []byte(h.KnownHosts)}
	const nobody = "http://127.0.0.1:1/repo" // a port that was given back may be somebody's by now
	away := httptest.NewServer(http.RedirectHandler("http://git.example.org/repo/info/refs?service=git-upload-pack", http.StatusFound))
	defer away.Close()
	cases := []struct {
		reason, url, revision string
		with                  source.Credential
		commit                string
		kind                  fault.Kind
		because               string
	}{
		{"the default branch", r.URL, "", open, second, 0, ""},
		{"a branch", r.URL, "side", open, first, 0, ""},
		{"a tag, peeled", r.URL, "v1", open, first, 0, ""},
		{"a full hash", r.URL, first, open, first, 0, ""},
		{"a full hash that may be anywhere", r.URL, strings.Repeat("ab", 20), open, strings.Repeat("ab", 20), 0, ""},
		{"no such branch", r.URL, "nope", open, "", fault.NotFound, "revision"},
		{"a short hash is not looked for", r.URL, first[:8], open, "", fault.NotFound, "revision"},
		{"the case of a path matters", strings.Replace(r.URL, "Team/Shop", "team/shop", 1), "", open, "", fault.NotFound, ""},
		{"an empty repository is opened all the same", empty.URL, "", open, "", fault.NotFound, "empty"},
		{"another password", r.URL, "", source.Credential{Username: "reader", Password: "gue33"}, "", fault.Denied, "credential"},
		{"no password", r.URL, "", source.Credential{}, "", fault.Denied, "credential"},
		{"nobody listens", nobody, "", open, "", fault.Unavailable, ""},
		{"sent on without encryption", away.URL + "/repo", "", open, "", fault.Invalid, "source"},
		{"a file of this machine", "file:///etc", "", open, "", fault.Denied, "source"},
		{"a directory", "/etc", "", open, "", fault.Invalid, "source"},
		{"an option in disguise", "https://host/--upload-pack=id?x", "", open, "", fault.Invalid, "source"},
		{"ssh", h.URL(r), "", key, second, 0, ""},
		{"ssh, a branch", h.URL(r), "side", key, first, 0, ""},
		{"ssh without known hosts", h.URL(r), "", source.Credential{SSHKey: h.Key}, "", fault.Invalid, "known-hosts"},
		{"ssh to another host", h.URL(r), "", source.Credential{SSHKey: h.Key, KnownHosts: []byte(stranger.KnownHosts)}, "", fault.Denied, "known-hosts"},
		{"ssh with a stranger's key", h.URL(r), "", source.Credential{SSHKey: stranger.Key, KnownHosts: []byte(h.KnownHosts)}, "", fault.Denied, "credential"},
		{"ssh with a key that is none", h.URL(r), "", source.Credential{SSHKey: []byte("s3cr3t"), KnownHosts: []byte(h.KnownHosts)}, "", fault.Invalid, "credential"},
		{"ssh to what is not there", h.URL(r) + "x", "", key, "", fault.NotFound, ""},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			got, err := git.Source{}.Probe(t.Context(), source.Location{Repository: c.url, Revision: c.revision, Path: "../nobody/looks"}, c.with)
			if c.commit != "" {
				if err != nil || got != c.commit {
					t.Errorf("%s, %v; want %s", got, err, c.commit)
				}
				return
			}
			if !fault.Is(err, c.kind) || fault.Reason(err) != c.because || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "gue33") {
				t.Errorf("%v (%v, %q); want %v, %q", err, fault.Of(err), fault.Reason(err), c.kind, c.because)
			}
		})
	}
}

// A server that sends references for ever is not listened to for ever.
func TestProbeBounded(t *testing.T) {
	line := pkt(strings.Repeat("a", 40) + " refs/heads/" + strings.Repeat("x", 900) + "\n")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-git-upload-pack-advertisement")
		io.WriteString(w, pkt("# service=git-upload-pack\n")+"0000"+pkt(strings.Repeat("a", 40)+" HEAD\x00ofs-delta\n"))
		for {
			if _, err := io.WriteString(w, strings.Repeat(line, 100)); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	if _, err := (git.Source{}).Probe(t.Context(), source.Location{Repository: s.URL + "/repo"}, source.Credential{}); !fault.Is(err, fault.Invalid) || fault.Reason(err) != "too-large" {
		t.Errorf("%v", err)
	}
}

func TestProbeEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer s.Close()
	if _, err := (git.Source{}).Probe(ctx, source.Location{Repository: s.URL + "/repo"}, source.Credential{}); err != context.Canceled {
		t.Errorf("%v", err)
	}
}

// A server that takes a call and says nothing is given up: after 20 s where it is only
// asked, after a minute where it is read.
func TestHangingServer(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only who has read it hears that the client left
		<-r.Context().Done()
	}))
	defer s.Close()
	at := source.Location{Repository: s.URL + "/repo"}
	_, err := git.Source{}.Read(t.Context(), at, source.Credential{}, source.Limits{Timeout: 50 * time.Millisecond})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "did not answer within 50ms") {
		t.Errorf("%v", err)
	}
	if ask, read := git.ProbeTimeout, (source.Limits{}).Filled().Timeout; ask != 20*time.Second || read != time.Minute {
		t.Errorf("it is asked for %s, and read for %s", ask, read)
	}
}

// TestPresented tells what a host has shown, and nothing where that is not known.
func TestPresented(t *testing.T) {
	s := gitserver.Start(t)
	r := s.Repo(t, "shop")
	r.Commit(t, "main", map[string]gitserver.Entry{"a": gitserver.File("a")})
	h, stranger := s.SSH(t), s.SSH(t)
	for _, c := range []struct {
		reason, hosts string
		shown         bool
	}{
		{"its own key, among others", stranger.KnownHosts + h.KnownHosts, true},
		{"somebody else's", strings.ReplaceAll(stranger.KnownHosts, strings.Fields(stranger.KnownHosts)[0], strings.Fields(h.KnownHosts)[0]), false},
	} {
		got := ""
		_, err := git.Source{}.Probe(t.Context(), source.Location{Repository: h.URL(r)}, source.Credential{SSHKey: h.Key, KnownHosts: []byte(c.hosts), Presented: func(k string) { got = k }})
		if (err == nil) != c.shown || (got != "") != c.shown || c.shown && !strings.Contains(h.KnownHosts, got) {
			t.Errorf("%s: %q, %v", c.reason, got, err)
		}
	}
}
