package app_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client/keypair"
	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/authority"
	"github.com/droverhq/drover/internal/discovery"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/site"
	"github.com/droverhq/drover/internal/sqlledger"
)

// A site that is asked for must be the other one, and one that can tell.
func TestSiteHearsTheOtherSiteAlone(t *testing.T) {
	here := sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 1}
	for _, c := range []struct {
		reason       string
		set          app.Settings // of whoever answers
		standing     sqlledger.Standing
		self         bool // it is the same process
		heard, fails bool
	}{
		{"the other site", app.Settings{PrimaryURL: "http://127.0.0.1:1", Site: "west"}, sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 2}, false, true, false},
		{"this process itself", app.Settings{}, here, true, false, true},
		{"another replica of this site", app.Settings{Primary: true, Site: "east"}, here, false, false, true},
		{"another one that was started as this one was, on a database of its own", app.Settings{Primary: true, Site: "west"}, sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 2}, false, true, false},
		{"one of the same name, on a database of its own", app.Settings{PrimaryURL: "http://127.0.0.1:1", Site: "east"}, sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 2}, false, false, true},
		{"another ledger", app.Settings{PrimaryURL: "http://127.0.0.1:1"}, sqlledger.Standing{Ledger: "m", Epoch: 1, Server: 2}, false, false, true},
		{"no ledger yet", app.Settings{PrimaryURL: "http://127.0.0.1:1"}, sqlledger.Standing{}, false, false, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			var answers http.Handler
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers.ServeHTTP(w, r) }))
			defer web.Close()
			k := app.NewKeeper(app.Config{Settings: app.Settings{Primary: true, Site: "east", SecondaryURL: web.URL, DataDir: t.TempDir()}}, "http://127.0.0.1:9", here)
			other := k
			if !c.self {
				c.set.DataDir = t.TempDir()
				other = app.NewKeeper(app.Config{Settings: c.set}, web.URL, c.standing)
			}
			answers = other.Answer()
			peer, err := k.Ask(t.Context())
			if peer.Heard != c.heard || (err != nil) != c.fails || !peer.Asked || peer.Twin != strings.Contains(c.reason, "same name") {
				t.Errorf("it has heard %+v, %v", peer, err)
			}
		})
	}
}

// A site of the same name is one for as long as it is seen, not for good.
func TestSiteForgetsATwin(t *testing.T) {
	here := sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 1}
	for _, c := range []struct {
		reason string
		next   func(self app.Keeper) http.Handler // who answers then; nil: the same
		later  time.Duration
		twin   bool
	}{
		{"it is still there", nil, time.Minute, true},
		{"the name leads to this process", app.Keeper.Answer, 0, false},
		{"the name leads to another ledger", func(app.Keeper) http.Handler {
			return app.NewKeeper(app.Config{Settings: app.Settings{Primary: true, Site: "east", DataDir: t.TempDir()}}, "http://127.0.0.1:8", sqlledger.Standing{Ledger: "m", Epoch: 1, Server: 2}).Answer()
		}, 0, false},
		{"one question was lost", func(app.Keeper) http.Handler { return http.NotFoundHandler() }, 0, true},
		{"it is gone", func(app.Keeper) http.Handler { return http.NotFoundHandler() }, time.Minute, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			twin := app.NewKeeper(app.Config{Settings: app.Settings{PrimaryURL: "http://127.0.0.1:1", Site: "east", DataDir: t.TempDir()}}, "http://127.0.0.1:7", sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 2})
			answers := twin.Answer()
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers.ServeHTTP(w, r) }))
			defer web.Close()
			k := app.NewKeeper(app.Config{Settings: app.Settings{Primary: true, Site: "east", SecondaryURL: web.URL, DataDir: t.TempDir()}}, "http://127.0.0.1:9", here)
			if peer, err := k.Ask(t.Context()); !peer.Twin || err == nil {
				t.Fatalf("it has heard %+v, %v", peer, err)
			}
			if c.next != nil {
				answers = c.next(k)
			}
			k.Later(c.later)
			if peer, err := k.Ask(t.Context()); peer.Twin != c.twin || err == nil {
				t.Errorf("it has heard %+v, %v", peer, err)
			}
		})
	}
}

// place is where every service is.
type place struct{ endpoint discovery.Endpoint }

func (p place) Find(context.Context, discovery.Name) (discovery.Answer, error) {
	return discovery.Answer{Endpoints: []discovery.Endpoint{p.endpoint}}, nil
}

// A primary that is registered in Consul is found there, with its port.
func TestSiteFindsThePrimaryByName(t *testing.T) {
	primary := app.NewKeeper(app.Config{Settings: app.Settings{Primary: true, Site: "east", DataDir: t.TempDir()}}, "https://east.example.org", sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 1})
	web := httptest.NewServer(primary.Answer())
	defer web.Close()
	at := web.Listener.Addr().(*net.TCPAddr)
	k := app.NewKeeper(app.Config{Settings: app.Settings{PrimaryCluster: "http://drover.service.east.consul", Site: "west", DataDir: t.TempDir()}}, "https://west.example.org", sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 2})
	k.Find(place{discovery.Endpoint{Host: at.IP.String(), Port: at.Port}})
	if peer, err := k.Ask(t.Context()); err != nil || peer.Site != "east" {
		t.Errorf("it has heard %+v, %v", peer, err)
	}
}

func TestSiteIsIntroduced(t *testing.T) {
	for _, c := range []struct {
		reason, own string
		set         app.Settings
		says        []string
		want        string
	}{
		{"nobody is known yet", "https://east.example.org", app.Settings{}, []string{"https://west.example.org"}, "https://west.example.org"},
		{"it has moved", "https://east.example.org", app.Settings{}, []string{"https://west.example.org", "https://new.example.org"}, "https://new.example.org"},
		{"the settings know better", "https://east.example.org", app.Settings{SecondaryURL: "https://set.example.org"}, []string{"https://west.example.org"}, "https://set.example.org"},
		{"this machine is not the other's", "https://east.example.org", app.Settings{}, []string{"http://127.0.0.1:8000"}, ""},
		{"unless both are on it", "http://127.0.0.1:8001", app.Settings{}, []string{"http://127.0.0.1:8000"}, "http://127.0.0.1:8000"},
		{"a token would go there in the clear", "https://east.example.org", app.Settings{}, []string{"http://west.example.org"}, ""},
		{"which somebody allows", "https://east.example.org", app.Settings{Plaintext: []string{"server"}}, []string{"http://west.example.org"}, "http://west.example.org"},
	} {
		c.set.Primary, c.set.DataDir = true, t.TempDir()
		k := app.NewKeeper(app.Config{Settings: c.set}, c.own, sqlledger.Standing{})
		got := ""
		for _, at := range c.says {
			got = k.Introduce(at)
		}
		if got != c.want {
			t.Errorf("%s: it is asked at %q, not %q", c.reason, got, c.want)
		}
	}
}

// away is a register that does not answer.
type away struct{}

var errAway = errors.New("away")

func (away) Read(context.Context) (site.Cell, error)                    { return site.Cell{}, errAway }
func (away) Write(context.Context, []byte, uint64) (ok bool, err error) { return false, errAway }

func TestSiteDoesNotLeadOnceTheLeaseIsGivenBack(t *testing.T) {
	k := app.NewKeeper(app.Config{Settings: app.Settings{Primary: true, Site: "east", DataDir: t.TempDir()}}, "http://127.0.0.1:9", sqlledger.Standing{Epoch: 1})
	if k.Released(t.Context(), &site.Lease{Register: away{}, Site: "east"}) {
		t.Error("it counts on a lease that it has given back")
	}
}

// once is a register that was given back, and that answers until it was written.
type once struct{ written bool }

func (o *once) Read(context.Context) (site.Cell, error) {
	return site.Cell{Value: []byte(`{"count":1}`), Index: 1}, nil
}

func (o *once) Write(context.Context, []byte, uint64) (ok bool, err error) {
	ok, o.written = !o.written, true
	return ok, nil
}

// A lease that is not renewed ends by itself: nobody has to look for that.
func TestSiteStopsWhenTheLeaseEnds(t *testing.T) {
	k := app.NewKeeper(app.Config{Settings: app.Settings{Primary: true, Site: "east", DataDir: t.TempDir()}}, "http://127.0.0.1:9", sqlledger.Standing{Epoch: 1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := k.Hold(ctx, &site.Lease{Register: &once{}, Site: "east", Life: 10 * time.Second, Margin: 5 * time.Second}); err != nil {
		t.Error(err)
	}
}

// The witness is asked over TLS, by whom it knows, with the token that the file holds now.
func TestWitnessOverTLS(t *testing.T) {
	dir := t.TempDir()
	ca := &authority.Authority{Dir: filepath.Join(dir, "ca")}
	if err := ca.Init("", 0); err != nil {
		t.Fatal(err)
	}
	issue := func(r authority.Request) keypair.Files {
		t.Helper()
		i, err := ca.Issue(r)
		if err != nil {
			t.Fatal(err)
		}
		return keypair.Files{CA: filepath.Join(ca.Dir, "ca.crt"), Certificate: i.Certificate, Key: i.Key}
	}
	own, shown := issue(authority.Request{Use: authority.UseServer, Name: "consul", Hosts: []string{"127.0.0.1"}}), issue(authority.Request{Use: authority.UseClient, Name: "drover"})
	files, err := keypair.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) == 0 {
			http.Error(w, "nobody is known", http.StatusForbidden)
			return
		}
		tokens = append(tokens, r.Header.Get("X-Consul-Token"))
		http.NotFound(w, r)
	}))
	web.TLS = files.Listener()
	web.StartTLS()
	defer web.Close()
	token := filepath.Join(dir, "token")
	at := "consul:" + web.URL + "/drover/leader"
	if err := os.WriteFile(token, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := app.NewWitness(at, "ca="+shown.CA, "certificate="+shown.Certificate, "key="+shown.Key, "token-file="+token); err != nil {
		t.Fatal(err)
	} else {
		for _, text := range []string{"one", "two"} {
			if err := os.WriteFile(token, []byte(text+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if cell, err := r.Read(t.Context()); err != nil || cell.Index != 0 {
				t.Errorf("it reads %+v: %v", cell, err)
			}
		}
	}
	if !slices.Equal(tokens, []string{"one", "two"}) {
		t.Errorf("it was shown %v", tokens)
	}
	for reason, set := range map[string][]string{"no authority": nil, "no certificate": {"ca=" + shown.CA}} {
		r, err := app.NewWitness(at, set...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Read(t.Context()); err == nil {
			t.Errorf("%s: it is believed", reason)
		}
	}
}

func TestNothingIsWrittenWithoutTheLease(t *testing.T) {
	l, err := sqlledger.Open(t.Context(), sqlledger.Config{URL: filepath.Join(t.TempDir(), "ledger.db"), Kinds: app.Kinds(), Key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	lost := errors.New("lost")
	s := app.Leased(l, func() error { return lost })
	for what, do := range map[string]func() error{
		"Commit":  func() error { _, err := s.Commit(t.Context(), ledger.Set{}); return err },
		"Claim":   func() error { _, err := s.Claim(t.Context(), ledger.ClaimRequest{}); return err },
		"Renew":   func() error { _, err := s.Renew(t.Context(), nil, time.Second); return err },
		"PutBlob": func() error { _, err := s.PutBlob(t.Context(), []byte("x")); return err },
		"Seal":    func() error { _, err := s.Seal(t.Context(), []byte("x")); return err },
		"Shred":   func() error { return s.Shred(t.Context(), "secret:x") },
		"Sweep":   func() error { _, err := s.Sweep(t.Context(), ledger.Sweep{}); return err },

		"AppendBlock": func() error { return s.AppendBlock(t.Context(), ledger.Block{}) },
		"Truncate":    func() error { return s.Truncate(t.Context(), ledger.Checkpoint{}) },
		"Prune":       func() error { _, err := s.Prune(t.Context()); return err },
		"Erase":       func() error { return s.Erase(t.Context(), 1) },
	} {
		if err := do(); !errors.Is(err, lost) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A password that is in no URL may be in the environment, or in a file of the user's.
func TestDrillLeavesPasswordsAlone(t *testing.T) {
	for user, want := range map[*url.Userinfo][]string{url.User("u"): nil, url.UserPassword("u", "p"): {"PGPASSWORD=p"}} {
		if got := app.DrillEnv(&url.URL{User: user}); !slices.Equal(got, want) {
			t.Errorf("%s: %v", user.Username(), got)
		}
	}
}
