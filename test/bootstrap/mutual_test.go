//go:build e2e && linux

package bootstrap_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/test/drover"
)

// encrypted looks for plaintext in everything that the template has made, and for keys
// where nobody needs one.
func encrypted(t *testing.T, kube kubernetes.Interface, room string) {
	t.Helper()
	ctx, all := t.Context(), metav1.ListOptions{LabelSelector: "drover.dev/owner"}
	texts := map[string]string{}
	note := func(name string, o any) {
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		texts[name] += string(data)
	}
	secrets, err := kube.CoreV1().Secrets(room).List(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range secrets.Items {
		for key, data := range s.Data {
			texts["Secret "+s.Name] += key + " " + string(data) + "\n"
		}
	}
	maps, err := kube.CoreV1().ConfigMaps(room).List(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range maps.Items {
		note("ConfigMap "+m.Name, m.Data)
	}
	deployments, err := kube.AppsV1().Deployments(room).List(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range deployments.Items {
		note("Deployment "+d.Name, d.Spec)
	}
	sets, err := kube.AppsV1().StatefulSets(room).List(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sets.Items {
		note("StatefulSet "+s.Name, s.Spec)
		for _, v := range s.Spec.Template.Spec.Volumes {
			if s.Name == "prometheus" && v.Secret != nil && (len(v.Secret.Items) != 1 || v.Secret.Items[0].Key != "ca.crt") {
				t.Errorf("Prometheus has more of the secret %s than what vouches: %v", v.Secret.SecretName, v.Secret.Items)
			}
		}
	}
	if len(texts) < 13 {
		t.Errorf("there are %d objects: this shows little", len(texts))
	}
	for name, text := range texts {
		for _, plain := range []string{"DROVER_PLAINTEXT", "sslmode=disable", "sslmode=prefer", "amqp://", "http://", "tls_disable", `"scheme":"HTTP"`} {
			if strings.Contains(text, plain) && (plain != `"scheme":"HTTP"` || name != "StatefulSet prometheus") { // how a kubelet asks that one
				t.Errorf("%s has %s", name, plain)
			}
		}
	}
}

// trusts is how somebody speaks to a server of the namespace: with what vouches for it,
// and, if he has one, Drover's certificate.
func (p *plane) trusts(name string, certified bool) *tls.Config {
	p.t.Helper()
	s := p.secret("drover")
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: name + "." + p.room + ".svc", RootCAs: x509.NewCertPool()}
	c.RootCAs.AppendCertsFromPEM(s["ca.crt"])
	if certified {
		pair, err := tls.X509KeyPair(s["client.crt"], s["client.key"])
		if err != nil {
			p.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// sqlAs and amqpAs open the database and the broker with their right passwords.
func (p *plane) sqlAs(with *tls.Config) (serial string, err error) {
	c, err := pgx.ParseConfig(fmt.Sprintf("postgres://admin:%s@%s/drover?sslmode=disable", p.secret("postgres")["password"], p.of("postgres", 5432)))
	if err != nil {
		p.t.Fatal(err)
	}
	c.TLSConfig = with
	conn, err := pgx.ConnectConfig(p.t.Context(), c)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.Background())
	if secure, ok := conn.PgConn().Conn().(*tls.Conn); ok {
		serial = secure.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	return serial, conn.Ping(p.t.Context())
}

func (p *plane) amqpAs(with *tls.Config) (serial string, err error) {
	u := url.URL{Scheme: "amqps", User: url.UserPassword("drover", string(p.secret("rabbitmq")["password"])), Host: p.of("rabbitmq", 5671), Path: "/"}
	if with == nil {
		u.Scheme = "amqp"
	}
	conn, err := amqp.DialConfig(u.String(), amqp.Config{TLSClientConfig: with})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String(), nil
}

// mutual shows that nobody opens the database or the broker by a password alone, and
// that Drover itself shows its certificate.
func (p *plane) mutual() {
	p.t.Helper()
	for name, open := range map[string]func(*tls.Config) (string, error){"postgres": p.sqlAs, "rabbitmq": p.amqpAs} {
		if _, err := open(p.trusts(name, true)); err != nil {
			p.t.Errorf("%s cannot be opened by who has a certificate: %v", name, err)
		}
		if _, err := open(p.trusts(name, false)); err == nil {
			p.t.Errorf("%s is open to who shows no certificate", name)
		}
		if _, err := open(nil); err == nil {
			p.t.Errorf("%s is open without encryption", name)
		}
		other := p.trusts(name, true)
		other.ServerName = "drover." + p.room + ".svc"
		if _, err := open(other); err == nil {
			p.t.Errorf("%s is taken for another server", name)
		}
	}
	for name, port := range map[string]int{"consul": 8501, "openbao": 8200} {
		if c, err := tls.Dial("tcp", p.of(name, port), p.trusts(name, false)); err != nil {
			p.t.Errorf("%s: %v", name, err)
		} else {
			c.Close()
		}
	}
	drover.Until(p.t, "Consul knows both replicas", func() bool { return p.registered() == len(p.made) })
	if others, own := p.sessions(); own == 0 || others != 0 {
		p.t.Errorf("%d sessions of Drover's have a certificate and a user that OpenBao has made, and %d have not", own, others)
	}
	drover.Until(p.t, "Drover opens the broker as who OpenBao has made", func() bool {
		users := p.amqp.Users(p.t)
		return len(users) > 0 && !slices.Contains(users, "drover")
	})
}

// sessions are those of Drover in the database: with its certificate and a user of
// OpenBao's, and without.
func (p *plane) sessions() (others, own int) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.sql.URL("drover"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const good = "COALESCE(s.ssl AND s.client_dn LIKE '%CN=drover%' AND a.usename LIKE 'v-%', false)"
	err = conn.QueryRow(p.t.Context(), "SELECT count(*) FILTER (WHERE NOT "+good+"), count(*) FILTER (WHERE "+good+") FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid) WHERE a.datname = 'drover' AND a.application_name = 'drover'").Scan(&others, &own)
	if err != nil {
		p.t.Fatal(err)
	}
	return others, own
}

// registered is how many replicas Consul knows, and knows to be well.
func (p *plane) registered() int {
	var found []struct{ Service struct{ Address string } }
	ask, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "https://"+p.of("consul", 8501)+"/v1/health/service/drover?passing", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	ask.Header.Set("X-Consul-Token", string(p.secret("drover")["consul.token"]))
	web := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: p.trusts("consul", false)}}
	res, err := web.Do(ask)
	if err != nil {
		return -1
	}
	defer res.Body.Close()
	if json.NewDecoder(res.Body).Decode(&found) != nil || len(found) > 0 && found[0].Service.Address != "127.0.0.1" {
		return -1
	}
	return len(found)
}

// serials of what the servers show now.
func (p *plane) serials() map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for name, port := range map[string]int{"consul": 8501, "openbao": 8200} {
		c, err := tls.Dial("tcp", p.of(name, port), p.trusts(name, false))
		if err != nil {
			p.t.Errorf("%s: %v", name, err)
			continue
		}
		out[name] = c.ConnectionState().PeerCertificates[0].SerialNumber.String()
		c.Close()
	}
	for name, open := range map[string]func(*tls.Config) (string, error){"postgres": p.sqlAs, "rabbitmq": p.amqpAs} {
		serial, err := open(p.trusts(name, true))
		if err != nil {
			p.t.Errorf("%s: %v", name, err)
		}
		out[name] = serial
	}
	return out
}

// turns replaces the authority and all certificates: the controllers start the servers
// anew, and Drover, which is not, goes on with what it has until the kubelet has laid its new files.
func (p *plane) turns() {
	p.t.Helper()
	before, ca, played := p.serials(), string(p.secret("drover")["ca.crt"]), map[string]bool{}
	for _, pod := range p.pods() {
		played[string(pod.UID)] = true
	}
	parameters := filepath.Join(p.t.TempDir(), "parameters.yaml")
	if err := os.WriteFile(parameters, []byte("{certificate_turn: second, agents: [edge]}\n"), 0o600); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan string, 1)
	go func() { // ends with the command
		out, said, code := p.made[0].Run("env", "apply", "meta", "-f", parameters, "--yes", "--wait", "--timeout", patience.String())
		if code == 0 && !strings.Contains(out+said, "PRIVATE KEY") {
			out, said = "", ""
		}
		ended <- out + said
	}()
	anew := map[string]bool{}
	drover.Until(p.t, "everything works with other certificates", func() bool {
		for _, pod := range p.pods() {
			switch {
			case pod.DeletionTimestamp != nil: // a kubelet ends it
				now := int64(0)
				_ = p.kube.CoreV1().Pods(p.room).Delete(p.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			case !played[string(pod.UID)]:
				played[string(pod.UID)], anew[pod.Labels["app"]] = true, true
				p.begin(pod)
			}
		}
		select {
		case said := <-ended:
			if said != "" {
				p.t.Fatal(said)
			}
			return true
		default:
			return false
		}
	})
	if phase, _ := p.phase(p.made[0], "meta"); phase != "Deployed-OK" || len(anew) != 4 || anew["drover"] || anew["prometheus"] {
		p.t.Errorf("it is %s, and started anew were %v", phase, anew)
	}
	for name, serial := range p.serials() {
		if serial == before[name] {
			p.t.Errorf("%s shows the certificate that it had", name)
		}
	}
	p.mixed(ca)
	for dir, pod := range p.laid {
		p.lay(dir, pod)
	}
	for _, s := range p.made {
		drover.Until(p.t, "the listener has another certificate", func() bool {
			pool := x509.NewCertPool()
			pool.AppendCertsFromPEM(p.secret("drover-tls")["ca.crt"])
			c, err := tls.Dial("tcp", s.Listen, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, ServerName: "drover"})
			if err != nil {
				return false
			}
			defer c.Close()
			return strings.HasPrefix(string(p.secret("drover-tls")["tls.crt"]), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.ConnectionState().PeerCertificates[0].Raw})))
		})
		drover.Until(p.t, "Drover goes on", func() bool { phase, _ := p.phase(s, "meta"); return phase == "Deployed-OK" })
	}
	p.admitted()
}

// admitted shows the listener the certificate of an agent, and one that somebody else has signed.
func (p *plane) admitted() {
	p.t.Helper()
	out, said, code := p.made[0].Run("env", "outputs", "meta", "--reveal", "-o", "json")
	if code != 0 {
		p.t.Fatalf("it ends with %d: %s", code, said)
	}
	as := p.trusts("drover", false)
	as.Certificates = []tls.Certificate{agentOf(p.t, out, "edge")}
	drover.Until(p.t, "the agent of edge is admitted", func() bool { return asked(p.t, p.made[0].Listen, as) })
	stranger, err := tls.LoadX509KeyPair(p.amqp.Files.Certificate, p.amqp.Files.Key)
	if err != nil {
		p.t.Fatal(err)
	}
	as.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &stranger, nil }
	if asked(p.t, p.made[0].Listen, as) {
		p.t.Error("a certificate of somebody else's is admitted")
	}
}

// mixed shows that who has what was there before and who has the new believe each other:
// both replicas have their old files, and open a database that has its new ones.
func (p *plane) mixed(ca string) {
	p.t.Helper()
	if now := string(p.secret("drover")["ca.crt"]); now == ca || !strings.HasSuffix(now, ca) {
		p.t.Error("what is believed is not the new authority and the one before it")
	}
	for dir := range p.laid {
		if has, err := os.ReadFile(filepath.Join(dir, "config", "ca.crt")); err != nil || string(has) != ca {
			p.t.Errorf("a pod of Drover has other files already: %v", err)
		}
	}
	for _, s := range p.made {
		drover.Until(p.t, "the ledger is open with the files from before", func() bool { phase, _ := p.phase(s, "meta"); return phase == "Deployed-OK" })
	}
}

func (p *plane) pods() []corev1.Pod {
	p.t.Helper()
	all, err := p.kube.CoreV1().Pods(p.room).List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return all.Items
}
