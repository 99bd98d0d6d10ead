//go:build e2e && linux

package bootstrap_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
)

// file is one below the programs' directories.
func (w *world) file(name string) string {
	w.t.Helper()
	data, err := os.ReadFile(filepath.Join(w.state, "run", name))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// roots is what everybody here believes.
func (w *world) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(w.file("drover/tls/ca.crt")))
	return pool
}

// http is a client that believes the authority of the meta environment, and nobody else.
func (w *world) http() *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: w.roots()}}}
}

// ask gets a document; the error tells why there is none.
func (w *world) ask(method, url string, header map[string]string, in, out any) error {
	body, _ := json.Marshal(in)
	req, err := http.NewRequestWithContext(w.t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	res, err := w.http().Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d %s %w", url, res.StatusCode, data, err)
	}
	return json.Unmarshal(data, out)
}

// at is the address of one of the twelve ports.
func (w *world) at(n int) string { return fmt.Sprintf("127.0.0.1:%d", w.port+n) }

// opened looks at who has which door open, and by what.
func (w *world) opened() {
	w.t.Helper()
	ctx := w.t.Context()
	// Drover's users of the database are OpenBao's, and have certificates; the password is its administrator's.
	admin, err := pgx.Connect(ctx, fmt.Sprintf("postgres://admin:%s@%s/drover?sslmode=verify-full&sslrootcert=%[3]s/ca.crt&sslcert=%[3]s/client.crt&sslkey=%[3]s/client.key",
		w.file("postgres/password"), w.at(1), filepath.Join(w.state, "run/drover/tls")))
	if err != nil {
		w.t.Fatal(err)
	}
	defer admin.Close(context.Background())
	type session struct {
		Name, DN string
		TLS      bool
	}
	var all []session
	drover.Until(w.t, "sessions of Drover alone", func() bool {
		rows, err := admin.Query(ctx, `SELECT usename::text AS name, COALESCE(client_dn, '') AS dn, ssl AS tls FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
			WHERE datname = 'drover' AND application_name = 'drover' AND usename LIKE 'v-%'`)
		if err == nil {
			all, err = pgx.CollectRows(rows, pgx.RowToStructByName[session])
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return len(all) > 0
	})
	for _, s := range all {
		if !s.TLS || !strings.Contains(s.DN, "CN=drover") {
			w.t.Errorf("a session of the ledger is %+v", s)
		}
	}
	if c, err := pgx.Connect(ctx, fmt.Sprintf("postgres://admin:%s@%s/drover?sslmode=disable", w.file("postgres/password"), w.at(1))); err == nil {
		c.Close(ctx)
		w.t.Error("the database is open without encryption")
	}
	if c, err := pgx.Connect(ctx, fmt.Sprintf("postgres://admin:%s@%s/drover?sslmode=require", w.file("postgres/password"), w.at(1))); err == nil {
		c.Close(ctx)
		w.t.Error("the database is open to who shows no certificate")
	}

	// So are those of the broker.
	password := ""
	for line := range strings.Lines(w.file("rabbitmq/rabbitmq.conf")) {
		if _, p, ok := strings.Cut(line, "default_pass = "); ok {
			password = strings.TrimSpace(p)
		}
	}
	drover.Until(w.t, "an account of OpenBao's at the broker", func() bool {
		var open []struct {
			User, Peer_cert_subject string
			SSL                     bool
		}
		if err := w.ask(http.MethodGet, "http://drover:"+password+"@"+w.at(11)+"/api/connections", nil, nil, &open); err != nil {
			w.t.Log(err)
			return false
		}
		good := 0
		for _, c := range open {
			if !c.SSL || !strings.Contains(c.Peer_cert_subject, "drover") {
				w.t.Errorf("a connection to the broker is %+v", c)
			}
			if c.User != "drover" {
				good++
			}
		}
		return good > 0
	})

	// Consul knows Drover, and that it is well.
	drover.Until(w.t, "Consul knows Drover", func() bool {
		var found []struct{ Service struct{ Port int } }
		err := w.ask(http.MethodGet, "https://"+w.at(5)+"/v1/health/service/drover?passing", map[string]string{"X-Consul-Token": w.file("drover/consul.token")}, nil, &found)
		return err == nil && len(found) == 1 && found[0].Service.Port == w.port
	})

	// What Drover logs in to OpenBao with never ends; for itself it may read its credentials alone.
	for role, files := range map[string][2]string{"keeper": {w.file("drover/keeper.role"), w.file("drover/keeper.secret")}, "drover": {w.role(), w.file("drover/vault.secret")}} {
		var login struct{ Auth struct{ Client_token string } }
		if err := w.ask(http.MethodPost, "https://"+w.at(8)+"/v1/auth/approle/login", nil, map[string]string{"role_id": files[0], "secret_id": files[1]}, &login); err != nil {
			w.t.Fatalf("%s: %v", role, err)
		}
		var policies any
		err := w.ask(http.MethodGet, "https://"+w.at(8)+"/v1/sys/policies/acl/drover", map[string]string{"X-Vault-Token": login.Auth.Client_token}, nil, &policies)
		if (err == nil) != (role == "keeper") {
			w.t.Errorf("%s reads policies: %v", role, err)
		}
	}
}

// drover runs a verb at the new Drover, as its owner.
func (w *world) drover(args ...string) (string, error) {
	cmd := exec.Command(drover.Binary(), append(args, "--data-dir", filepath.Join(w.state, "run/drover/data"))...)
	cmd.Env = append(os.Environ(), "DROVER_CONFIG=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// role is that of Drover's own settings.
func (w *world) role() string {
	var rec struct {
		Launch struct{ Env map[string]string }
	}
	if err := json.Unmarshal([]byte(w.file(".programs/drover/record.json")), &rec); err != nil {
		w.t.Fatal(err)
	}
	for o := range strings.SplitSeq(rec.Launch.Env["DROVER_VAULT_OPTIONS"], ",") {
		if id, ok := strings.CutPrefix(o, "role-id="); ok {
			return id
		}
	}
	return ""
}

// observed looks whether Prometheus collects from Drover, and has its rules.
func (w *world) observed() {
	w.t.Helper()
	drover.Until(w.t, "Prometheus collects from Drover", func() bool {
		var got struct {
			Data struct {
				ActiveTargets []struct{ Health, LastError string }
			}
		}
		err := w.ask(http.MethodGet, "http://"+w.at(10)+"/api/v1/targets", nil, nil, &got)
		return err == nil && len(got.Data.ActiveTargets) == 1 && got.Data.ActiveTargets[0].Health == "up"
	})
	var got struct {
		Data struct {
			Groups []struct {
				Name  string
				Rules []struct{ Name string }
			}
		}
	}
	if err := w.ask(http.MethodGet, "http://"+w.at(10)+"/api/v1/rules", nil, nil, &got); err != nil {
		w.t.Fatal(err)
	}
	if !slices.ContainsFunc(got.Data.Groups, func(g struct {
		Name  string
		Rules []struct{ Name string }
	}) bool {
		return g.Name == "drover-slo" && len(g.Rules) > 0
	}) {
		w.t.Errorf("its rules are %+v", got)
	}
}

// admitted has an agent join with the certificate that was made for it, and not without.
func (w *world) admitted() {
	w.t.Helper()
	must := func(args ...string) string {
		w.t.Helper()
		out, err := w.drover(args...)
		if err != nil {
			w.t.Fatalf("%v: %v: %s", args, err, out)
		}
		return strings.TrimSpace(out)
	}
	pair, dir := agentOf(w.t, must("env", "outputs", "meta", "--reveal", "-o", "json"), "edge"), w.t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		w.t.Fatal(err)
	}
	files := map[string][]byte{
		"ca": []byte(w.file("drover/tls/ca.crt")), "certificate": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		"key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	must("create", "cluster", "edge", "--provider", "local", "--region", "local")
	token, ca := must("token", "--cluster", "edge"), filepath.Join(dir, "ca")
	stranger := drover.Join(w.t, "https://"+w.at(0), "edge", token, "--ca-file", ca)
	drover.Until(w.t, "an agent without a certificate is sent away", func() bool { return strings.Contains(stranger.Log(), "certificate") })
	stranger.Kill()
	if phase := must("get", "cluster", "edge", "-o", "json"); strings.Contains(phase, `"ready"`) {
		w.t.Errorf("an agent without a certificate has joined: %s", phase)
	}
	drover.Join(w.t, "https://"+w.at(0), "edge", token, "--ca-file", ca, "--client-certificate-file", filepath.Join(dir, "certificate"), "--client-key-file", filepath.Join(dir, "key"))
	must("wait", "cluster", "edge", "--timeout", patience.String())
}

// asked tells whether Drover answers who comes like this.
func asked(t testing.TB, address string, as *tls.Config) bool {
	web := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: as}}
	res, err := web.Get("https://" + address + "/healthz")
	if err != nil {
		t.Log(err)
		return false
	}
	res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// agentOf is the certificate in the outputs of an environment that an agent was given.
func agentOf(t testing.TB, outputs, cluster string) tls.Certificate {
	t.Helper()
	var all v1.Outputs
	err := json.Unmarshal([]byte(outputs), &all)
	made := map[string][]string{}
	for _, o := range all.Items {
		var list []string
		if json.Unmarshal(o.Value, &list) == nil {
			made[o.Name] = list
		}
	}
	certificates, keys := made["agent_certificates"], made["agent_keys"]
	if err != nil || len(certificates) != 1 || len(keys) != 1 {
		t.Fatalf("there are %d certificates and %d keys of agents: %v", len(certificates), len(keys), err)
	}
	pair, err := tls.X509KeyPair([]byte(certificates[0]), []byte(keys[0]))
	if err != nil {
		t.Fatal(err)
	}
	if uris := pair.Leaf.URIs; len(uris) != 1 || uris[0].String() != "drover://cluster/"+cluster {
		t.Errorf("it is for %v", uris)
	}
	return pair
}

// serials of what each listener shows now.
func (w *world) serials() map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for name, n := range map[string]int{"drover": 0, "postgres": 1, "rabbitmq": 3, "consul": 5, "openbao": 8} {
		conn, err := net.DialTimeout("tcp", w.at(n), 10*time.Second)
		if err != nil {
			w.t.Logf("%s: %v", name, err)
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		if name == "postgres" { // which is asked for encryption first
			_, _ = conn.Write([]byte{0, 0, 0, 8, 4, 210, 22, 47})
			_, _ = conn.Read(make([]byte, 1))
		}
		// It is seen before anybody asks for one of ours.
		err = tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "127.0.0.1", RootCAs: w.roots(), VerifyConnection: func(s tls.ConnectionState) error {
			out[name] = s.PeerCertificates[0].SerialNumber.String()
			return nil
		}}).HandshakeContext(w.t.Context())
		if err != nil {
			w.t.Logf("%s: %v", name, err)
		}
		conn.Close()
	}
	return out
}

// applies gives meta other parameters.
func (w *world) applies(parameters string) {
	w.t.Helper()
	at := filepath.Join(w.t.TempDir(), "parameters.yaml")
	if err := os.WriteFile(at, []byte(parameters), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if out, err := w.drover("env", "apply", "meta", "-f", at, "--yes", "--wait", "--timeout", patience.String()); err != nil {
		w.t.Fatalf("%v: %s\n%s", err, out, w.logs())
	}
}

// others waits until each listener shows another certificate, by the same programs.
func (w *world) others(change func()) {
	w.t.Helper()
	before, pids := w.serials(), map[string]int{}
	for _, name := range programs {
		pids[name] = w.pid(name)
	}
	change()
	drover.Until(w.t, "other certificates", func() bool {
		now := w.serials()
		for name, serial := range before {
			if now[name] == "" || now[name] == serial {
				return false
			}
		}
		return true
	})
	for name, pid := range pids {
		if w.pid(name) != pid {
			w.t.Errorf("%s was started anew", name)
		}
	}
}

// renews has certificates end soon: they are made anew with nobody's word, and reach
// those who show them.
func (w *world) renews() {
	w.t.Helper()
	ca := w.file("drover/tls/ca.crt")
	// They count from five minutes ago, so that less than a third is left at once.
	w.others(func() { w.applies("{certificate_lifetime: 145s}\n") })
	w.others(func() {
		if out, err := w.drover("env", "drift", "meta", "--now"); err != nil {
			w.t.Fatalf("%v: %s", err, out)
		}
	})
	if w.file("drover/tls/ca.crt") != ca {
		w.t.Error("the authority, which lives for years, was made anew")
	}
}

// rotates replaces the authority and all certificates while everybody goes on.
func (w *world) rotates() {
	w.t.Helper()
	ca := w.file("drover/tls/ca.crt")
	w.others(func() { w.applies("{certificate_turn: second, certificate_lifetime: 8760h, agents: [edge]}\n") })
	if w.file("drover/tls/ca.crt") == ca {
		w.t.Error("the authority is the same")
	}
	w.admitted()
	w.healthy()
	w.opened()
}
