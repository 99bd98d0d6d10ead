package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/api/client/keypair"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/authority"
	"github.com/droverhq/drover/internal/fault"
)

// secured is a control plane whose listener has a certificate.
type secured struct {
	*app.Server
	t   *testing.T
	ca  *authority.Authority
	dir string // of the control plane
}

func newSecured(t *testing.T) *secured {
	t.Helper()
	p := &secured{t: t, ca: &authority.Authority{Dir: filepath.Join(t.TempDir(), "ca")}, dir: t.TempDir()}
	if err := p.ca.Init("", 0); err != nil {
		t.Fatal(err)
	}
	return p
}

func secure(t *testing.T, who string) *secured {
	t.Helper()
	p := newSecured(t)
	own := p.issue(authority.Request{Use: authority.UseServer, Name: "drover", Hosts: []string{"drover.example.org"}})
	p.Server, _ = serve(t, app.Settings{
		DataDir: p.dir, TLSCert: own.Certificate, TLSKey: own.Key, TLSClientCA: p.ca.BundlePath(), TLSClientAuth: who,
	})
	return p
}

func (p *secured) issue(r authority.Request) keypair.Files {
	p.t.Helper()
	i, err := p.ca.Issue(r)
	if err != nil {
		p.t.Fatal(err)
	}
	return keypair.Files{CA: p.ca.BundlePath(), Certificate: i.Certificate, Key: i.Key, Name: "drover.example.org"}
}

func (p *secured) web(f keypair.Files) *http.Client {
	p.t.Helper()
	r, err := keypair.Open(f)
	if err != nil {
		p.t.Fatal(err)
	}
	return client.HTTPClient(r.Transport(client.Transport()))
}

// get asks with a certificate or none, and a token or none.
func (p *secured) get(f keypair.Files, token, path string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.URL()+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := p.web(f).Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// local is what a command line of this machine finds.
func (p *secured) local() (f keypair.Files, token string) {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, "local.json"))
	if err != nil {
		p.t.Fatal(err)
	}
	var l struct {
		Server     string
		TokenFile  string `json:"token_file"`
		CAFile     string `json:"ca_file"`
		ServerName string `json:"server_name"`
	}
	if err := json.Unmarshal(data, &l); err != nil || l.Server != p.URL() || !strings.HasPrefix(l.Server, "https://") {
		p.t.Fatalf("%s, %v", data, err)
	}
	if data, err = os.ReadFile(filepath.Join(p.dir, l.TokenFile)); err != nil {
		p.t.Fatal(err)
	}
	return keypair.Files{CA: l.CAFile, Name: l.ServerName}, strings.TrimSpace(string(data))
}

func (p *secured) token(r v1.TokenRequest) string {
	p.t.Helper()
	_, token := p.local()
	c, err := client.New(client.Config{Server: p.URL(), Token: token, HTTPClient: p.web(p.issue(authority.Request{Use: authority.UseClient, Name: "admin"}))})
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := c.Token(p.t.Context(), r)
	if err != nil {
		p.t.Fatal(err)
	}
	return out.Token
}

func TestWhoMustShowACertificate(t *testing.T) {
	for _, who := range []string{"agents", "all"} {
		t.Run(who, func(t *testing.T) {
			p := secure(t, who)
			nothing := keypair.Files{CA: p.ca.BundlePath(), Name: "drover.example.org"}
			for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
				if status, body := p.get(nothing, "", path); status != http.StatusOK {
					t.Errorf("a probe of %s: %d %s", path, status, body)
				}
			}
			_, admin := p.local()
			agent, other := p.token(v1.TokenRequest{Cluster: "edge"}), p.token(v1.TokenRequest{Cluster: "far"})
			person := p.issue(authority.Request{Use: authority.UseClient, Name: "ci"})
			edge := p.issue(authority.Request{Use: authority.UseAgent, Name: "edge"})
			for _, tc := range []struct {
				reason string
				files  keypair.Files
				token  string
				want   int
				says   string
			}{
				{"a person without one", nothing, admin, map[string]int{"agents": 200, "all": 403}[who], ""},
				{"a person with one", person, admin, 200, ""},
				{"an agent without one", nothing, agent, 403, "--client-certificate-file"},
				{"an agent with its own", edge, agent, 200, ""},
				{"an agent with one that names nobody", person, agent, 200, ""},
				{"an agent with another's", edge, other, 403, `"edge\"`},
				{"an operator with an agent's", edge, admin, 403, `"edge\"`},
				{"nobody in particular with an agent's", edge, "", 401, ""},
			} {
				status, body := p.get(tc.files, tc.token, "/api/v1/whoami")
				if status != tc.want || !strings.Contains(body, tc.says) {
					t.Errorf("%s: %d %s", tc.reason, status, body)
				}
			}
		})
	}
}

// The command line of this machine finds the server by the server's own
// certificate, whatever name that is for and whoever issued it.
func TestTheCommandLineBesideTheServer(t *testing.T) {
	p := secure(t, "agents")
	p.get(keypair.Files{CA: p.ca.BundlePath(), Name: "drover.example.org"}, "", "/readyz")
	files, token := p.local()
	if status, body := p.get(files, token, "/api/v1/whoami"); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	files.Name = ""
	c, err := client.New(client.Config{Server: p.URL(), Token: token, HTTPClient: p.web(files)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.WhoAmI(t.Context()); err == nil {
		t.Error("a certificate for another name was believed")
	}
}

// What is served without encryption on this machine is for states alone.
func TestOnlyStatesAreServedBesides(t *testing.T) {
	p := secure(t, "all")
	p.get(keypair.Files{CA: p.ca.BundlePath(), Name: "drover.example.org"}, "", "/readyz")
	_, token := p.local()
	for path, want := range map[string]int{"/api/v1/whoami": 404, "/healthz": 404, "/api/v1/state/x": 401, "/api/v1/state/../whoami": 404} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.StatesURL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if want == 404 {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := client.HTTPClient(http.DefaultTransport).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want && !(strings.Contains(path, "..") && resp.StatusCode == http.StatusTemporaryRedirect) {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

func TestWrongFilesAreToldBeforeAnythingStarts(t *testing.T) {
	p := newSecured(t)
	own := p.issue(authority.Request{Use: authority.UseServer, Name: "other", Hosts: []string{"x"}})
	next := p.issue(authority.Request{Use: authority.UseServer, Name: "next", Hosts: []string{"x"}})
	nonsense := filepath.Join(t.TempDir(), "nonsense.pem")
	if err := os.WriteFile(nonsense, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	for reason, s := range map[string]app.Settings{
		"no key":                    {TLSCert: own.Certificate},
		"no certificate":            {TLSKey: own.Key},
		"authorities without TLS":   {TLSClientCA: p.ca.BundlePath()},
		"files half replaced":       {TLSCert: next.Certificate, TLSKey: own.Key},
		"nonsense":                  {TLSCert: nonsense, TLSKey: own.Key},
		"a file that is not there":  {TLSCert: own.Certificate, TLSKey: own.Key + ".gone"},
		"authorities that are none": {TLSCert: own.Certificate, TLSKey: own.Key, TLSClientCA: own.Key},
	} {
		s.DataDir, s.Listen = t.TempDir(), "127.0.0.1:0"
		if _, err := app.New(context.Background(), app.Config{Settings: s}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "--tls-") {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestTheServerTellsOfItsFiles(t *testing.T) {
	p := secure(t, "agents")
	p.get(keypair.Files{CA: p.ca.BundlePath(), Name: "drover.example.org"}, "", "/readyz")
	if text := p.Complaint(time.Now()); text != "" {
		t.Errorf("of good files: %s", text)
	}
	end := p.Ends()
	for left, tells := range map[time.Duration]bool{14*24*time.Hour + time.Second: false, 14*24*time.Hour - time.Second: true, -time.Hour: true} {
		if text := p.Complaint(end.Add(-left)); strings.Contains(text, "ends at "+end.UTC().Format(time.RFC3339)) != tells {
			t.Errorf("of a certificate that ends in %s: %q", left, text)
		}
	}
	if err := os.WriteFile(p.ca.BundlePath(), []byte("nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	if text := p.Complaint(time.Now()); !strings.Contains(text, "cannot be used") {
		t.Errorf("of a bundle that is none: %q", text)
	}
}

// Files that cannot be used any more are in the log within a minute, and once a day.
func TestTheLogTellsOfTheFiles(t *testing.T) {
	p := newSecured(t)
	own := p.issue(authority.Request{Use: authority.UseServer, Name: "drover", Hosts: []string{"drover.example.org"}})
	good, err := os.ReadFile(own.Key)
	if err != nil {
		t.Fatal(err)
	}
	files, err := keypair.Open(own)
	if err != nil {
		t.Fatal(err)
	}
	write := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(own.Key, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- app.Mind(ctx, files, slog.New(slog.NewTextHandler(&out, nil))) }()
		told := func(when string, after time.Duration, want int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if n := strings.Count(out.String(), "level=WARN msg=\"the API's certificate stays as it was"); n != want {
				t.Errorf("%s: %d warnings, want %d: %s", when, n, want, out.String())
			}
		}
		told("of good files", time.Hour, 0)
		write(good[:len(good)/2])
		told("of half a key", time.Minute, 1)
		told("an hour later", time.Hour, 1)
		told("a day later", 24*time.Hour, 2)
		write(good)
		told("of good ones again", 48*time.Hour, 2)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What Consul is told needs no connection, so it has no TLS.
func TestReadyOverTLSIsSoInside(t *testing.T) {
	p := secure(t, "")
	p.get(keypair.Files{CA: p.ca.BundlePath(), Name: "drover.example.org"}, "", "/readyz")
	if err := p.Unready(t.Context()); err != nil {
		t.Errorf("Consul is told: %v", err)
	}
}
