package argocd

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// Config of a Runtime. The zero value is for an agent that runs in the cluster
// of an Argo CD in the namespace "argocd".
type Config struct {
	// Kubeconfig to reach the cluster with; nil: the account of the agent's pod.
	Kubeconfig []byte
	// Namespace of what the agent keeps; default "drover-system".
	Namespace string
	// ArgoCD is the namespace of Argo CD; default "argocd". Several of them are
	// several agents.
	ArgoCD string
	// Quiet: no Operation custom resources are made. Default: they are.
	Quiet bool
	// Redis of Argo CD, which has what differs in Applications: "HOST:PORT",
	// "rediss://HOST:PORT", or "off" not to read it. Default: the Service argocd-redis
	// of an agent that runs in the cluster, nothing of one that runs outside.
	Redis string
	// RedisPassword opens it; default the one of the Secret argocd-redis, if there is any.
	RedisPassword string
	// Deny lists further kinds, "<group>/<Kind>", that nobody may deploy into the
	// cluster of Argo CD itself; default none beside those of package argocd.
	Deny []string
	// Lease that replicas share; empty: there are none, and the work begins with
	// the first call.
	Lease string
	// LeaseTime after which another replica takes over; default 15 s.
	LeaseTime time.Duration
	// Identity of this replica; default the name of the host and something random.
	Identity string
	// Resync is how often everything is compared again; default 10 min.
	Resync time.Duration
	// Renew is how long a watch lives; default as in package manifest.
	Renew time.Duration
	// Workers put items right at the same time; default 8.
	Workers int
	// Capacity in units where there is no runtime beside; default 0.
	Capacity int64
	Logger   *slog.Logger     // default: none
	Now      func() time.Time // default time.Now
	// Wrap sees every request, for tests; nil: nobody does.
	Wrap func(http.RoundTripper) http.RoundTripper
}

func (c Config) defaults() Config {
	if c.Namespace == "" {
		c.Namespace = agents
	}
	if c.ArgoCD == "" {
		c.ArgoCD = "argocd"
	}
	if c.Workers <= 0 {
		c.Workers = 8
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

func (c Config) desk() keep.Config {
	return keep.Config{
		Kubeconfig: c.Kubeconfig, Namespace: c.Namespace, Kind: "deployment", Lease: c.Lease, LeaseTime: c.LeaseTime, Identity: c.Identity,
		Resync: c.Resync, Renew: c.Renew, Workers: c.Workers, Patience: 5 * time.Second, Logger: c.Logger, Now: c.Now, Wrap: c.Wrap,
	}
}

var optionNames = []string{"kubeconfig", "namespace", "argocd", "operations", "deny", "lease", "redis", "redis-password-file", "resync", "workers"}

// Options reads what an operator wrote for this runtime, pairs such as
// "argocd=openshift-gitops". What it does not know is returned: it is for the
// runtime beside.
func Options(pairs []string, cfg Config) (Config, []string, error) {
	var rest []string
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || value == "" {
			return cfg, nil, fault.New(fault.Invalid, "runtime options are name=value, and %q is not", pair)
		}
		ours, err := cfg.option(name, value)
		if err != nil {
			return cfg, nil, err
		}
		if !ours || name == "kubeconfig" || name == "namespace" || name == "resync" || name == "lease" {
			rest = append(rest, pair)
		}
	}
	return cfg, rest, nil
}

var kindText = regexp.MustCompile(`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?/[A-Z][A-Za-z0-9]*$`)

func (c *Config) option(name, value string) (ours bool, err error) {
	switch name {
	case "kubeconfig":
		if c.Kubeconfig, err = os.ReadFile(value); err != nil {
			return true, fault.New(fault.Invalid, "the kubeconfig cannot be read: %w", err)
		}
	case "namespace":
		c.Namespace = value
	case "argocd":
		if !labelText.MatchString(value) {
			return true, fault.New(fault.Invalid, "the option argocd is the namespace of an Argo CD, and %q is no namespace", value)
		}
		c.ArgoCD = value
	case "operations":
		on, err := strconv.ParseBool(value)
		if err != nil {
			return true, fault.New(fault.Invalid, "the option operations is true or false, and not %q", value)
		}
		c.Quiet = !on
	case "deny":
		if !kindText.MatchString(value) {
			return true, fault.New(fault.Invalid, "the option deny is <group>/<Kind>, such as networking.k8s.io/NetworkPolicy, and %q is not", value)
		}
		c.Deny = append(c.Deny, value)
	case "lease":
		if c.Lease = value + "-argocd"; value == "none" {
			c.Lease = ""
		}
	case "redis":
		at := strings.TrimPrefix(value, "rediss://")
		if host, port, err := net.SplitHostPort(at); value != "off" && (err != nil || host == "" || port == "") {
			return true, fault.New(fault.Invalid, "the option redis is HOST:PORT, rediss://HOST:PORT or off, and %q is not", value)
		}
		c.Redis = value
	case "redis-password-file":
		b, err := os.ReadFile(value)
		if err != nil {
			return true, fault.New(fault.Invalid, "the password of Argo CD's Redis cannot be read: %w", err)
		}
		c.RedisPassword = strings.TrimSpace(string(b))
	case "resync":
		if c.Resync, err = time.ParseDuration(value); err != nil || c.Resync <= 0 {
			return true, fault.New(fault.Invalid, "the option resync is a time such as 10m, and %q is not", value)
		}
	case "workers":
		if c.Workers, err = strconv.Atoi(value); err != nil || c.Workers <= 0 {
			return true, fault.New(fault.Invalid, "the option workers is a number, and %q is not", value)
		}
	default:
		return false, nil
	}
	return true, nil
}
