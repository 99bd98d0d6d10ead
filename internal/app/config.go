package app

import (
	"cmp"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/droverhq/drover/internal/breaker"
	"github.com/droverhq/drover/internal/connection"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/sqlledger"
)

// Settings of a control plane, as the command line has them: its structure is
// converted to this one, so that neither can have a field that the other lacks.
type Settings struct {
	DataDir       string        // default .drover
	Listen        string        // address of the API; default 127.0.0.1:8000
	Routes        string        // up: address where instances are reached; default 127.0.0.1:8080
	Database      string        // postgres:// URL; default: SQLite in DataDir
	MasterKey     string        // hexadecimal; default: what MasterKeyFile holds
	MasterKeyFile string        // default: master.key in DataDir, made where it is missing
	OfferingsDir  string        // more offerings, watched; default: none
	PublicURL     string        // where others reach the API, and the issuer of its tokens; default: where it listens
	Connections   []string      // files and directories of connections of executors, watched; default: none
	PolicyFiles   []string      // files and directories of quotas, lists and terms, watched; default: none
	SSO           string        // builtin or keycloak; default builtin
	SSOOptions    []string      // key=value of the identity provider
	DNSFile       string        // YAML file of zones that hosts are published in; default: none
	Quota         string        // list (in the ledger) or remote; default list
	QuotaOptions  []string      // key=value of the remote source
	MetricsURL    string        // Prometheus-compatible server with the metrics of instances; default: none
	MetricsToken  string        // file with the bearer token for it
	CertFile      string        // certificate of the instances' hosts
	KeyFile       string        // and its key
	LogLevel      string        // debug, info, warn, error; default info
	LogFormat     string        // text or json; default text
	Issuers       []string      // OIDC issuers whose tokens are accepted
	Audience      string        // that their tokens must be made for; default: any
	Trust         []string      // what their roles make besides users: admins, agents; default: nothing
	RateLimit     float64       // requests per second and caller; 0 = no limit
	Workers       int           // runs of the loop at a time; default 32
	Lease         time.Duration // default 3 s
	Breaker       string        // what rules may remove within an hour; default 5,5%
	Epoch         int64         // of the ledger, at least; default: the one that it is in
	AgentImage    string        // container image of agents; default: droverhq/drover of this version
	Providers     []string      // <provider>.<option>=value of what makes clusters
	Executors     []string      // <executor>.<option>=value of what makes resources
	GitOps        []string      // key=value of deployments
	Bus           string        // a key of buses; default inprocess
	BusOptions    []string      // key=value of the broker
	LogRetention  time.Duration // of changes that a later one of the same object has replaced; default: for ever
	Proxies       []string      // networks of proxies whose X-Forwarded-For counts; default: none
	TraceEndpoint string        // OTLP/HTTP URL of a collector of traces; default: nothing is followed
	TraceSample   float64       // share of the requests that are followed
	Retention     time.Duration // of ended operations and commands, and of what only the past names; default 30 days
	TLSCert       string        // certificate of the API, read anew when it changes; default: none, it speaks http
	TLSKey        string        // and its key
	TLSClientCA   string        // authorities whose clients are known by their certificates; default: nobody is
	TLSClientAuth string        // who must show one: agents or all; default agents
	AgentTLS      string        // Secret with the certificates of agents that are put on clusters; default: none
	Plaintext     []string      // places elsewhere that are spoken to unencrypted; default: none

	Primary          bool     // this is the primary of two sites
	PrimaryURL       string   // this is the secondary, and that is where the primary is
	PrimaryCluster   string   // likewise: the name that the primary is registered with
	SecondaryURL     string   // primary: where the secondary is; default: it says so itself
	Site             string   // name of this one of two sites; they need one
	SiteOptions      []string // key=value of how the other site is asked
	SiteBusOptions   []string // key=value of a broker that both sites reach, for signals; default: none are sent
	Witness          string   // consul:<URL>/<key>, outside both sites; default: none
	WitnessOptions   []string // key=value
	Consul           string   // URL; names are found there, and this replica is; default: nobody is asked
	ConsulOptions    []string // key=value
	Vault            string   // URL; default: there is none
	VaultOptions     []string // key=value
	DatabaseCreds    string   // reference of what opens the database; default: its URL does
	MasterKeyTransit string   // key in Vault that wraps what MasterKeyFile holds; default: none
}

// Config of a control plane.
type Config struct {
	Settings
	Version string // for people

	// Out is where the first lines for the user go; default: nowhere.
	Out io.Writer
	// Observer sees the ledger's commits besides the metrics; for tests that
	// crash the process at a chosen one.
	Observer sqlledger.Observer

	site *keeper                 // one of two sites; nil: it stands alone
	life life                    // what it does at the moment
	own  []connection.Connection // besides the server's own and those of files
	// hosts are where addresses of another network are on this machine; certificates are
	// still looked at for the addresses themselves.
	hosts map[string]string
}

// AgentSettings of an agent, as the command line has them.
type AgentSettings struct {
	Server         string
	Cluster        string
	Token          string // of a simulated fleet: an admin's
	DataDir        string
	Routes         string
	Heartbeat      time.Duration
	Runtime        string   // a key of runtimes; default process
	RuntimeOptions []string // key=value of it
	Capacity       int64    // instances that fit; default: the runtime's
	Clusters       int      // of a simulated fleet; 0: one agent, of Cluster
	Prefix         string   // of their names; default sim-
	Provider       string   // where they are; default local
	Region         string   // likewise
	Latency        time.Duration
	FailRate       float64 // share of the instances that fail
	Seed           int64   // the same one makes the same run
	LogLevel       string
	LogFormat      string
	Health         string // address where it says that it is well; default: nowhere
	TraceEndpoint  string // OTLP/HTTP URL of a collector of traces; default: nothing is followed
	TraceSample    float64
	CA             string   // authorities that vouch for the server, read anew when it changes; default: the machine's
	ClientCert     string   // certificate that is shown to the server, likewise; default: none
	ClientKey      string   // and its key
	ServerName     string   // that the server's certificate is for; default: the host of Server
	Plaintext      []string // server: it may be spoken to unencrypted
	Consul         string   // URL; the server's name is found there; default: nobody is asked
	ConsulOptions  []string // key=value
}

// AgentConfig of an agent that runs by itself.
type AgentConfig struct {
	AgentSettings
	Version string    // for people
	Out     io.Writer // for the user's first line; default: nowhere
	names   *names    // how the server is found; nil: by the machine
}

const defaultDataDir = ".drover"

func (c *Config) defaults() {
	orText(&c.DataDir, defaultDataDir)
	orText(&c.Listen, "127.0.0.1:8000")
	orText(&c.Routes, "127.0.0.1:8080")
	orText(&c.SSO, "builtin")
	orText(&c.Quota, "list")
	orText(&c.Bus, inProcess)
	orText(&c.TLSClientAuth, authAgents)
	orText(&c.Breaker, breaker.Limit{Objects: breaker.DefaultObjects, Percent: breaker.DefaultPercent}.String())
	c.Retention = cmp.Or(c.Retention, 30*24*time.Hour)
	orText(&c.MasterKeyFile, filepath.Join(c.DataDir, "master.key"))
	orText(&c.Database, filepath.Join(c.DataDir, "drover.db"))
	c.Database = unported(c.Database)
	orText(&c.AgentImage, "droverhq/drover:"+cmp.Or(c.Version, "latest"))
	if c.Out == nil {
		c.Out = io.Discard
	}
}

func orText(s *string, other string) {
	if *s == "" {
		*s = other
	}
}

func newLogger(level, format string) *slog.Logger {
	var l slog.Level
	if l.UnmarshalText([]byte(level)) != nil {
		l = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(knowing{Handler: slog.NewJSONHandler(os.Stderr, options)})
	}
	return slog.New(knowing{Handler: slog.NewTextHandler(os.Stderr, options)})
}

// Misconfigured tells whether an error of Up, Serve or Agent is one of the configuration,
// which no other try mends.
func Misconfigured(err error) bool { return fault.Is(err, fault.Invalid) }
