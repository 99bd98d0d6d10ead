package kubernetes

import (
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/droverhq/drover/internal/fault"
)

// Config of a Runtime. The zero value is for an agent that runs in the cluster.
type Config struct {
	// Kubeconfig to reach the cluster with; nil: the account of the agent's pod.
	Kubeconfig []byte
	// Namespace of what the agent keeps: items, its store, its lease; default
	// "drover-system". It is made if it is missing.
	Namespace string
	// Home is the namespace of all items that name none; empty: each has one of
	// its own, "drover-<id>".
	Home string
	// Capacity in units where there are no nodes to count; default 0.
	Capacity int64
	// Unit is what one unit of capacity asks of the nodes; default cpu=500m,
	// memory=1Gi.
	Unit corev1.ResourceList
	// Reserve is what is kept free of the nodes as a whole; default nothing.
	Reserve corev1.ResourceList
	// Routes carry hosts: "route", "gateway" or "ingress"; empty: the first of
	// them that the cluster serves.
	Routes string
	// Gateway that routes attach to, "<namespace>/<name>"; default
	// "drover-system/drover".
	Gateway string
	// IngressClass of ingresses; empty: the cluster's default.
	IngressClass string
	// Address that hosts lead to where routes do not tell theirs; empty: they do.
	Address string
	// Lease that replicas share; empty: there are none, and New starts the work.
	Lease string
	// LeaseTime after which another replica takes over; default 15 s.
	LeaseTime time.Duration
	// Identity of this replica; default the name of the host and something random.
	Identity string
	// Resync is how often everything is compared again; default 10 min.
	Resync time.Duration
	// Vigil is how often kinds that the agent cannot watch, and what it keeps itself, are
	// looked at; default 30 s.
	Vigil time.Duration
	// Workers put items right at the same time; default 4.
	Workers int
	Logger  *slog.Logger     // default: none
	Now     func() time.Time // default time.Now
	// Wrap sees every request, for tests; nil: nobody does.
	Wrap func(http.RoundTripper) http.RoundTripper
}

func (c Config) defaults() Config {
	if c.Namespace == "" {
		c.Namespace = agents
	}
	if c.Unit == nil {
		c.Unit = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	if c.Gateway == "" {
		c.Gateway = "drover-system/drover"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Options reads what an operator wrote for this runtime, pairs such as
// "capacity=40". A list was cut at its commas before it came here: "memory=1Gi"
// after "unit=cpu=500m" belongs to the unit.
func Options(pairs []string, cfg Config) (Config, error) {
	var last corev1.ResourceList // that what follows may belong to
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || value == "" {
			return cfg, fault.New(fault.Invalid, "runtime options are name=value, and %q is not", pair)
		}
		if last != nil && !slices.Contains(optionNames, name) {
			more, err := resources("unit or reserve", pair)
			if err != nil {
				return cfg, err
			}
			maps.Copy(last, more)
			continue
		}
		if err := cfg.option(name, value); err != nil {
			return cfg, err
		}
		switch name {
		case "unit":
			last = cfg.Unit
		case "reserve":
			last = cfg.Reserve
		default:
			last = nil
		}
	}
	return cfg, nil
}

var optionNames = []string{"kubeconfig", "namespace", "home", "unit", "reserve", "capacity", "routes", "gateway", "ingress-class", "address", "lease", "resync", "workers"}

func (c *Config) option(name, value string) (err error) {
	switch name {
	case "kubeconfig":
		if c.Kubeconfig, err = os.ReadFile(value); err != nil {
			return fault.New(fault.Invalid, "the kubeconfig cannot be read: %w", err)
		}
	case "namespace":
		c.Namespace = value
	case "home":
		c.Home = value
	case "unit":
		c.Unit, err = resources(name, value)
	case "reserve":
		c.Reserve, err = resources(name, value)
	case "capacity":
		if c.Capacity, err = strconv.ParseInt(value, 10, 64); err != nil || c.Capacity < 0 {
			return fault.New(fault.Invalid, "the option capacity is a number of units, and %q is not", value)
		}
	case "routes":
		if kinds[value].kind == "" {
			return fault.New(fault.Invalid, "the option routes is route, gateway or ingress, and not %q", value)
		}
		c.Routes = value
	case "gateway":
		if ns, n, ok := strings.Cut(value, "/"); !ok || ns == "" || n == "" {
			return fault.New(fault.Invalid, "the option gateway is <namespace>/<name>, and %q is not", value)
		}
		c.Gateway = value
	case "ingress-class":
		c.IngressClass = value
	case "address":
		c.Address = value
	case "lease":
		if c.Lease = value; value == "none" {
			c.Lease = ""
		}
	case "resync":
		if c.Resync, err = time.ParseDuration(value); err != nil || c.Resync <= 0 {
			return fault.New(fault.Invalid, "the option resync is a time such as 10m, and %q is not", value)
		}
	case "workers":
		if c.Workers, err = strconv.Atoi(value); err != nil || c.Workers <= 0 {
			return fault.New(fault.Invalid, "the option workers is a number, and %q is not", value)
		}
	default:
		return fault.New(fault.Invalid, "the kubernetes runtime has no option %q: it has %s", name, strings.Join(optionNames, ", "))
	}
	return err
}

// resources reads "cpu=500m,memory=1Gi".
func resources(option, text string) (corev1.ResourceList, error) {
	list := corev1.ResourceList{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(pair, "=")
		q, err := resource.ParseQuantity(strings.TrimSpace(value))
		if err != nil || q.Sign() <= 0 || strings.TrimSpace(name) == "" {
			return nil, fault.New(fault.Invalid, "the option %s is a list such as cpu=500m,memory=1Gi, and %q is no part of one", option, pair)
		}
		list[corev1.ResourceName(strings.TrimSpace(name))] = q
	}
	return list, nil
}
