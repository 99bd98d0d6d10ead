package cli

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/api/client"
)

// settings declares every setting once: its flag, variable, default and check.
var settings = []setting{
	{name: "config", uses: forClient, usage: "YAML `file` with settings"},
	{name: "data-dir", uses: forClient | forServer | forAgent, def: ".drover", usage: "`directory` of a local control plane; finds its server and token"},
	{name: "server", uses: forClient | forAgent, usage: "`URL` of the server", check: checkServer},
	{name: "token", uses: forClient | forAgent, usage: "bearer `token`", mask: maskAll},
	{name: "token-file", uses: forClient | forAgent, usage: "`file` that holds the token"},
	{name: "ca-file", uses: forClient | forAgent, usage: "`file` of the authorities that vouch for the server, read again when it changes; empty: those of this machine"},
	{name: "client-certificate-file", uses: forClient | forAgent, usage: "`file` of the certificate that is shown to the server, read again when it changes"},
	{name: "client-key-file", uses: forClient | forAgent, usage: "`file` of its key"},
	{name: "plaintext", uses: forClient | forServer | forAgent, list: true, usage: "`places` outside this machine that may be spoken to unencrypted: " + strings.Join(places, ", "), check: checkPlaces},
	{name: "context", uses: forClient, usage: "`name` of a context, see `drover config get-contexts`"},

	{name: "listen", uses: forServer, def: "127.0.0.1:8000", usage: "`address` of the API", check: checkAddress},
	{name: "tls-certificate-file", uses: forServer, usage: "`file` of the API's certificate and what leads to its authority, read again when it changes; empty: the API speaks http"},
	{name: "tls-key-file", uses: forServer, usage: "`file` of its key"},
	{name: "tls-client-ca-file", uses: forServer, usage: "`file` of the authorities whose clients are admitted, read again when it changes: a certificate that is shown must be of theirs"},
	{name: "tls-client-auth", uses: forServer, def: "agents", usage: "who must show one: agents, or all but probes", check: oneOf("agents", "all")},
	{name: "routes", uses: forServer | forAgent, def: "127.0.0.1:8080", usage: "`address` where instances are reached by host", check: checkAddress},
	{name: "database", uses: forServer, usage: "postgres:// `URL`; empty: SQLite in the data directory", check: checkDatabase, mask: maskURL},
	{name: "master-key", uses: forServer, quiet: true, check: checkKey, mask: maskAll},
	{name: "master-key-file", uses: forServer, usage: "`file` of the key that guards secrets, unless DROVER_MASTER_KEY holds it; empty: made in the data directory"},
	{name: "master-key-transit", uses: forServer, usage: "`key` of Vault's transit engine that wraps what the file of the master key holds, such as transit/keys/drover"},
	{name: "database-credentials", uses: forServer, usage: "`reference` of what opens the database, asked for every connection: vault:database/creds/drover or file:/run/secrets/database; empty: its URL", check: checkReference, mask: maskReference},
	{name: "vault", uses: forServer, usage: "`URL` of the Vault or OpenBao that Drover's own credentials come from", check: checkWeb},
	{name: "vault-options", uses: forServer, list: true, usage: "its `options`: auth=approle,role-id=...,secret-id-file=FILE; auth=jwt|kubernetes,role=...,jwt-file=FILE; token-file=FILE; mount=..., namespace=..., ca=FILE, certificate=FILE, key=FILE, refresh=30s", check: checkPairs},
	{name: "consul", uses: forServer | forAgent, usage: "`URL` of the Consul that knows where NAME.service.consul is, and where servers are registered", check: checkWeb},
	{name: "consul-options", uses: forServer | forAgent, list: true, usage: "its `options`: token-file=FILE, datacenter=..., ca=FILE, certificate=FILE, key=FILE, service=drover, tags=..., address=HOST:PORT, connect=true, register=false", check: checkPairs},
	{name: "offerings-dir", uses: forServer, usage: "`directory` of more offerings, watched"},
	{name: "policy-files", uses: forServer, list: true, usage: "`files` and directories of quotas, lists and terms, watched"},
	{name: "connections", uses: forServer, list: true, usage: "`files` and directories of connections that executors work through, watched"},
	{name: "executor-options", uses: forServer, list: true, usage: "`options` of executors: terraform.binary=/path/of/tofu,action.allow=git:kubectl", check: checkPairs},
	{name: "bus", uses: forServer, def: "inprocess", usage: "`broker` that commands come from and events go to: inprocess (none) or rabbitmq", check: oneOf("inprocess", "rabbitmq")},
	{name: "bus-options", uses: forServer, list: true, usage: "`options` of rabbitmq: url=amqp://HOST:5672 or amqps://, vhost=NAME, prefix=NAME, ca=FILE, certificate=FILE, key=FILE, username=NAME or username-file=FILE or username-env=VARIABLE, password-file=FILE or password-env=VARIABLE, credentials=vault:rabbitmq/creds/drover", check: checkPairs},
	{name: "gitops-options", uses: forServer, list: true, usage: "`options` of deployments: kubeconfig=FILE|in-cluster (serve the custom resources of that API), engines=CLUSTER:CLUSTER (that carry them out), known-hosts=FILE, poll=1m", check: checkPairs},
	{name: "public-url", uses: forServer, usage: "`URL` where others reach the server; empty: where it listens", check: checkServer},
	{name: "sso", uses: forServer, def: "builtin", usage: "identity provider: builtin or keycloak", check: oneOf("builtin", "keycloak")},
	{name: "sso-options", uses: forServer, list: true, usage: "its `options`: url=...,realm=...,client-id=...,secret-file=...", check: checkPairs},
	{name: "dns-file", uses: forServer, usage: "YAML `file` of the zones that hosts of instances are published in; empty: nowhere"},
	{name: "quota", uses: forServer, def: "list", usage: "who grants quota: list (drover apply) or remote", check: oneOf("list", "remote")},
	{name: "quota-options", uses: forServer, list: true, usage: "its `options`: url=..., token-file=... or token-url=...,client-id=...,secret-file=...", check: checkPairs},
	{name: "metrics-url", uses: forServer, usage: "`URL` of a Prometheus-compatible server with the metrics of instances", check: checkServer},
	{name: "metrics-token-file", uses: forServer, usage: "`file` with the bearer token for it"},
	{name: "certificate-file", uses: forServer, usage: "`file` of the certificate of the instances' hosts, read again when it changes"},
	{name: "certificate-key-file", uses: forServer, usage: "`file` of its key"},
	{name: "log-level", uses: forServer | forAgent, def: "info", usage: "debug, info, warn or error", check: oneOf("debug", "info", "warn", "error")},
	{name: "log-format", uses: forServer | forAgent, def: "text", usage: "text or json", check: oneOf("text", "json")},
	{name: "trace-endpoint", uses: forServer | forAgent, also: "OTEL_EXPORTER_OTLP_ENDPOINT", usage: "`URL` of a collector that takes OpenTelemetry traces by OTLP/HTTP, such as http://127.0.0.1:4318; empty: nothing is traced", check: checkCollector, mask: maskURL},
	{name: "trace-sample", uses: forServer | forAgent, def: "1", usage: "share of the requests that are traced, from 0 to 1; one that comes with a trace is as its sender says", check: checkShare},
	{name: "oidc-issuers", uses: forServer, list: true, usage: "`URLs` of OIDC issuers whose tokens are accepted", check: checkIssuers},
	{name: "oidc-audience", uses: forServer, usage: "`audience` that their tokens must be made for; empty: any"},
	{name: "oidc-trust", uses: forServer, list: true, usage: "what their roles make besides users: `admins,agents`; empty: nothing", check: checkTrust},
	{name: "rate-limit", uses: forServer, def: "0", usage: "requests per second of one caller; 0: no limit", check: checkNumber(0)},
	{name: "workers", uses: forServer, def: "32", usage: "pieces of work at a time", check: checkInt(1, 10000)},
	{name: "lease", uses: forServer, def: "3s", usage: "how long a worker that died holds its work", check: checkDuration(500*time.Millisecond, time.Hour)},
	{name: "breaker", uses: forServer, def: "5,5%", usage: "`objects,share%` that lists, files and loops may remove of a kind within an hour, the larger of the two; more needs `drover approve`", check: checkLimit},
	{name: "epoch", uses: forServer, def: "1", usage: "`number` of the ledger's life, at least: a higher one after a backup was restored, so that agents follow it", check: checkInt(1, 1_000_000_000)},
	{name: "retention", uses: forServer, def: "720h", usage: "how long ended operations and commands are listed, and large things kept that only the past names", check: checkDuration(24*time.Hour, 100*365*24*time.Hour)},
	{name: "log-retention", uses: forServer, def: "0s", usage: "how long changes are kept in the log that a later one of the same object has replaced, from 24h on; 0s: for ever", check: checkRetention},
	{name: "trusted-proxies", uses: forServer, list: true, usage: "`networks` of proxies in front of the server, such as 10.0.0.0/8: where a call came from is what their X-Forwarded-For says; empty: the peer", check: checkNetworks},
	{name: "provider-options", uses: forServer, list: true, usage: "`options` of what makes clusters: template.binary=/path/of/tofu", check: checkPairs},
	{name: "primary", uses: forServer, def: "false", bare: "true", usage: "this is the primary of two sites: `true` or false", check: oneOf("true", "false")},
	{name: "primary-url", uses: forServer, usage: "this is the secondary of two sites, and its primary is at this `URL`", check: checkServer},
	{name: "primary-cluster-name", uses: forServer, usage: "this is the secondary of two sites, and its primary is registered in Consul with this `name`: drover, drover.service.east.consul"},
	{name: "secondary-url", uses: forServer, usage: "`URL` of the secondary, for the primary; empty: it says so itself", check: checkServer},
	{name: "site", uses: forServer, usage: "`name` of this one of two sites, which stays; two sites need one, another at each"},
	{name: "site-options", uses: forServer, list: true, usage: "how the other site is asked: ca, certificate, key, server-name (`name=value`)", check: checkPairs},
	{name: "site-bus-options", uses: forServer, list: true, usage: "`options` of a RabbitMQ that both sites reach, as in --bus-options: they signal each other there; empty: they only ask each other", check: checkPairs},
	{name: "witness", uses: forServer, usage: "`consul:URL/KEY` in a third place: whoever leads holds its lease; empty: an operator's word decides", check: checkWitness},
	{name: "witness-options", uses: forServer, list: true, usage: "its `options`: token-file, ca, certificate, key, server-name", check: checkPairs},
	{name: "agent-image", uses: forServer, usage: "container `image` of agents that are put on clusters; empty: droverhq/drover of this version"},
	{name: "agent-tls-secret", uses: forServer, usage: "`name` of the Secret with ca.crt, tls.crt and tls.key that such agents find beside them; empty: they have no certificate"},

	{name: "cluster", uses: forAgent, usage: "`id` of the cluster that this agent speaks for"},
	{name: "heartbeat", uses: forAgent, def: "10s", usage: "pause between messages until the server says another", check: checkDuration(time.Second, 10*time.Minute)},
	{name: "runtime", uses: forAgent, def: "process", usage: "what instances are: process, kubernetes, argocd (deployments through Argo CD, all else as kubernetes) or simulated", check: oneOf("process", "kubernetes", "argocd", "simulated")},
	{name: "runtime-options", uses: forAgent, list: true, usage: "its `options`: name=value", check: checkPairs},
	{name: "capacity", uses: forAgent, def: "0", usage: "instances that fit; 0: what the runtime says", check: checkInt(0, 1_000_000_000)},
	{name: "health", uses: forAgent, usage: "`address` where GET /healthz, /readyz and /metrics answer; empty: nowhere", check: checkAddress},
	{name: "clusters", uses: forAgent, def: "0", usage: "simulated: run a fleet of so many clusters, registered with an admin's token; 0: one, of --cluster", check: checkInt(0, 100_000)},
	{name: "prefix", uses: forAgent, def: "sim-", usage: "simulated: `text` that the names of the fleet's clusters begin with"},
	{name: "provider", uses: forAgent, def: "local", usage: "simulated: cloud provider of the fleet's clusters"},
	{name: "region", uses: forAgent, def: "local", usage: "simulated: region of the fleet's clusters"},
	{name: "latency", uses: forAgent, def: "0s", usage: "simulated: how long an instance takes to become so", check: checkDuration(0, 24*time.Hour)},
	{name: "fail-rate", uses: forAgent, def: "0", usage: "simulated: share of the instances that fail, from 0 to 1", check: checkShare},
	{name: "seed", uses: forAgent, def: "1", usage: "simulated: the same number makes the same latencies and failures", check: checkInt(0, 1_000_000_000)},
}

// ServerSettings is what up and server run with. It has the fields of
// app.Settings in their order; otherwise the program does not compile.
type ServerSettings struct {
	DataDir       string
	Listen        string
	Routes        string // up only: where the local data plane's proxy listens
	Database      string // empty: SQLite in DataDir
	MasterKey     string // hexadecimal; empty: in MasterKeyFile
	MasterKeyFile string
	OfferingsDir  string
	PublicURL     string   // empty: where it listens
	Connections   []string // watched
	PolicyFiles   []string // watched
	SSO           string   // builtin or keycloak
	SSOOptions    []string // key=value
	DNSFile       string
	Quota         string   // list or remote
	QuotaOptions  []string // key=value
	MetricsURL    string
	MetricsToken  string // file
	CertFile      string
	KeyFile       string
	LogLevel      string
	LogFormat     string
	Issuers       []string
	Audience      string   // of the issuers' tokens; empty: any
	Trust         []string // what the issuers' roles make: admins, agents
	RateLimit     float64  // per second and caller; 0 = none
	Workers       int
	Lease         time.Duration
	Breaker       string // objects and share that rules may remove within an hour
	Epoch         int64  // of the ledger, at least
	AgentImage    string
	Providers     []string      // <provider>.<option>=value
	Executors     []string      // <executor>.<option>=value
	GitOps        []string      // key=value
	Bus           string        // inprocess or rabbitmq
	BusOptions    []string      // key=value
	LogRetention  time.Duration // 0: for ever
	Proxies       []string      // networks
	TraceEndpoint string        // URL; empty: nothing is traced
	TraceSample   float64       // share
	Retention     time.Duration
	TLSCert       string
	TLSKey        string
	TLSClientCA   string
	TLSClientAuth string   // agents or all
	AgentTLS      string   // Secret
	Plaintext     []string // places

	Primary          bool     // of two sites
	PrimaryURL       string   // secondary: where the primary is
	PrimaryCluster   string   // secondary: the name that it is registered with
	SecondaryURL     string   // primary: where the secondary is; empty: it says so
	Site             string   // name
	SiteOptions      []string // key=value
	SiteBusOptions   []string // key=value; empty: no signals
	Witness          string   // consul:URL/KEY; empty: none
	WitnessOptions   []string // key=value
	Consul           string   // URL; empty: nobody is asked
	ConsulOptions    []string // key=value
	Vault            string   // URL; empty: there is none
	VaultOptions     []string // key=value
	DatabaseCreds    string   // reference
	MasterKeyTransit string   // MOUNT/keys/NAME
}

// AgentSettings is what agent runs with: likewise, app.AgentSettings.
type AgentSettings struct {
	Server         string
	Cluster        string
	Token          string // of a simulated fleet: an admin's
	DataDir        string
	Routes         string
	Heartbeat      time.Duration
	Runtime        string   // process, kubernetes, simulated
	RuntimeOptions []string // key=value
	Capacity       int64    // 0: the runtime's
	Clusters       int      // of a simulated fleet; 0: one agent
	Prefix         string
	Provider       string
	Region         string
	Latency        time.Duration
	FailRate       float64
	Seed           int64
	LogLevel       string
	LogFormat      string
	Health         string // address; empty: nowhere
	TraceEndpoint  string // URL; empty: nothing is traced
	TraceSample    float64
	CA             string
	ClientCert     string
	ClientKey      string
	ServerName     string   // of a server that left its address here; empty: the host of Server
	Plaintext      []string // places
	Consul         string   // URL; empty: nobody is asked
	ConsulOptions  []string // key=value
}

func (v values) server() ServerSettings {
	s := ServerSettings{
		DataDir: v.text("data-dir"), Listen: v.text("listen"), Routes: v.text("routes"),
		Database: v.text("database"), OfferingsDir: v.text("offerings-dir"),
		PublicURL: v.text("public-url"), PolicyFiles: split(v.text("policy-files")),
		SSO: v.text("sso"), SSOOptions: split(v.text("sso-options")),
		DNSFile: v.text("dns-file"),
		Quota:   v.text("quota"), QuotaOptions: split(v.text("quota-options")),
		MetricsURL: v.text("metrics-url"), MetricsToken: v.text("metrics-token-file"),
		CertFile: v.text("certificate-file"), KeyFile: v.text("certificate-key-file"),
		MasterKey: v.text("master-key"), MasterKeyFile: v.text("master-key-file"),
		LogLevel: v.text("log-level"), LogFormat: v.text("log-format"), Issuers: split(v.text("oidc-issuers")),
		Audience: v.text("oidc-audience"), Trust: split(v.text("oidc-trust")), Breaker: v.text("breaker"),
		AgentImage: v.text("agent-image"), Providers: split(v.text("provider-options")),
		Executors: split(v.text("executor-options")), GitOps: split(v.text("gitops-options")), Bus: v.text("bus"), BusOptions: split(v.text("bus-options")), Connections: split(v.text("connections")),
	}
	// The checks have seen these texts: what does not parse was reported.
	s.RateLimit, _ = strconv.ParseFloat(v.text("rate-limit"), 64)
	s.Workers, _ = strconv.Atoi(v.text("workers"))
	s.Lease, _ = time.ParseDuration(v.text("lease"))
	s.Epoch, _ = strconv.ParseInt(v.text("epoch"), 10, 64)
	s.Retention, _ = time.ParseDuration(v.text("retention"))
	s.LogRetention, _ = time.ParseDuration(v.text("log-retention"))
	s.Proxies = split(v.text("trusted-proxies"))
	s.TraceEndpoint = v.text("trace-endpoint")
	s.TraceSample, _ = strconv.ParseFloat(v.text("trace-sample"), 64)
	s.TLSCert, s.TLSKey = v.text("tls-certificate-file"), v.text("tls-key-file")
	s.TLSClientCA, s.TLSClientAuth = v.text("tls-client-ca-file"), v.text("tls-client-auth")
	s.Primary, s.PrimaryURL, s.PrimaryCluster = v.text("primary") == "true", v.text("primary-url"), v.text("primary-cluster-name")
	s.SecondaryURL, s.Site, s.SiteOptions = v.text("secondary-url"), v.text("site"), split(v.text("site-options"))
	s.SiteBusOptions = split(v.text("site-bus-options"))
	s.Witness, s.WitnessOptions = v.text("witness"), split(v.text("witness-options"))
	s.AgentTLS, s.Plaintext = v.text("agent-tls-secret"), split(v.text("plaintext"))
	s.Consul, s.ConsulOptions = v.text("consul"), split(v.text("consul-options"))
	s.Vault, s.VaultOptions = v.text("vault"), split(v.text("vault-options"))
	s.DatabaseCreds, s.MasterKeyTransit = v.text("database-credentials"), v.text("master-key-transit")
	return s
}

func (v values) agent() AgentSettings {
	s := AgentSettings{
		Server: v.text("server"), Cluster: v.text("cluster"), Token: v.text("token"), DataDir: v.text("data-dir"),
		Routes: v.text("routes"), LogLevel: v.text("log-level"), LogFormat: v.text("log-format"),
		Runtime: v.text("runtime"), RuntimeOptions: split(v.text("runtime-options")),
		Prefix: v.text("prefix"), Provider: v.text("provider"), Region: v.text("region"), Health: v.text("health"),
	}
	s.Heartbeat, _ = time.ParseDuration(v.text("heartbeat"))
	s.Capacity, _ = strconv.ParseInt(v.text("capacity"), 10, 64)
	s.Clusters, _ = strconv.Atoi(v.text("clusters"))
	s.Latency, _ = time.ParseDuration(v.text("latency"))
	s.FailRate, _ = strconv.ParseFloat(v.text("fail-rate"), 64)
	s.Seed, _ = strconv.ParseInt(v.text("seed"), 10, 64)
	s.TraceEndpoint = v.text("trace-endpoint")
	s.TraceSample, _ = strconv.ParseFloat(v.text("trace-sample"), 64)
	s.CA, s.ClientCert, s.ClientKey = v.text("ca-file"), v.text("client-certificate-file"), v.text("client-key-file")
	s.Plaintext = split(v.text("plaintext"))
	s.Consul, s.ConsulOptions = v.text("consul"), split(v.text("consul-options"))
	return s
}

func split(text string) []string {
	var out []string
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func maskAll(string) string { return "******" }

// maskURL hides the password of a database URL, and everything if it is no URL.
func maskURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" {
		return maskAll(text)
	}
	q := u.Query()
	for _, name := range []string{"password", "sslpassword"} {
		if q.Has(name) {
			q.Set(name, "xxxxx")
			u.RawQuery = q.Encode()
		}
	}
	return u.Redacted()
}

func checkServer(text string) error {
	_, err := client.New(client.Config{Server: text})
	return err
}

func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return errors.New("want HOST:PORT, such as 127.0.0.1:8000 (port 0 takes a free one)")
	}
	return nil
}

func checkDatabase(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return errors.New("want postgres://USER:PASSWORD@HOST:PORT/NAME, or nothing for SQLite")
	}
	return nil
}

func checkKey(text string) error {
	if data, err := hex.DecodeString(strings.TrimSpace(text)); err != nil || len(data) != 32 {
		return errors.New("want 64 hexadecimal digits, such as `openssl rand -hex 32` makes")
	}
	return nil
}

func checkCollector(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("want http://HOST:4318 or https://")
	}
	if u.User != nil {
		return errors.New("credentials belong into OTEL_EXPORTER_OTLP_HEADERS, not into the URL")
	}
	return nil
}

func checkWitness(text string) error {
	rest, ok := strings.CutPrefix(text, "consul:")
	u, err := url.Parse(rest)
	if !ok || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(u.Path) < 2 {
		return errors.New("want consul:http://HOST:8500/KEY")
	}
	return nil
}

func checkIssuers(text string) error {
	for _, issuer := range split(text) {
		u, err := url.Parse(issuer)
		if err != nil || u.Host == "" {
			return fmt.Errorf("%q is not a URL", issuer)
		}
		if u.Scheme != "https" && (u.Scheme != "http" || !client.Loopback(u.Hostname())) {
			return fmt.Errorf("%q: an issuer needs https (http only on this machine)", issuer)
		}
	}
	return nil
}

func checkPairs(text string) error {
	for _, pair := range split(text) {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" || value == "" {
			return fmt.Errorf("%q: want name=value", name)
		}
	}
	return nil
}

func checkTrust(text string) error {
	for _, what := range split(text) {
		if err := oneOf("admins", "agents")(what); err != nil {
			return err
		}
	}
	return nil
}
