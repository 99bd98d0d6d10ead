package keep

import (
	"crypto/rand"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"
)

// Config of a Desk.
type Config struct {
	// Kubeconfig to reach the cluster with; nil: the account of the agent's pod.
	Kubeconfig []byte
	// Namespace of what the agent keeps: items, its store, its lease; default
	// "drover-system". It is made if it is missing.
	Namespace string
	// Kind of Secrets that items are kept in; default "item". Desks that share a
	// namespace have one each.
	Kind string
	// Lease that replicas share; empty: there are none, and the work begins with
	// the first call.
	Lease string
	// LeaseTime after which another replica takes over; default 15 s.
	LeaseTime time.Duration
	// Identity of this replica; default the name of the host and something random.
	Identity string
	// Resync is how often everything is compared again; default 10 min.
	Resync time.Duration
	// Vigil is how often it is looked whether what is kept is as it was written;
	// default 30 s.
	Vigil time.Duration
	// Renew is how long a watch lives; default as in package manifest.
	Renew time.Duration
	// Patience is the longest time until what failed is tried again; default 30 s.
	Patience time.Duration
	// Workers put items right at the same time; default 4.
	Workers int
	Logger  *slog.Logger     // default: none
	Now     func() time.Time // default time.Now
	// Wrap sees every request, for tests; nil: nobody does.
	Wrap func(http.RoundTripper) http.RoundTripper
}

// Defaults fills in what is not set.
func (c Config) Defaults() Config {
	if c.Namespace == "" {
		c.Namespace = "drover-system"
	}
	if c.Kind == "" {
		c.Kind = "item"
	}
	if c.LeaseTime <= 0 {
		c.LeaseTime = 15 * time.Second
	}
	if c.Identity == "" {
		host, _ := os.Hostname()
		c.Identity = host + "-" + strings.ToLower(rand.Text()[:8])
	}
	if c.Resync <= 0 {
		c.Resync = 10 * time.Minute
	}
	if c.Patience <= 0 {
		c.Patience = 30 * time.Second
	}
	if c.Workers <= 0 {
		c.Workers = 4
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}
