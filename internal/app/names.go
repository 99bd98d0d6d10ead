package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/droverhq/drover/internal/discovery"
	"github.com/droverhq/drover/internal/discovery/consul"
	"github.com/droverhq/drover/internal/doctor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/transport"
)

// names are how hosts are found: by Consul where there is one, and else by the machine.
type names struct {
	discovery.Dialer
	finder *discovery.Memory // nil: there is no Consul
	consul *consul.Client    // likewise
	set    options
}

// openNames reads the settings. It calls nobody.
func openNames(at string, list, plaintext []string, observer resilience.Observer) (*names, error) {
	n := &names{set: pairs(list)}
	if at == "" {
		if len(list) > 0 {
			return nil, fault.New(fault.Invalid, "--consul-options are those of --consul, which is missing")
		}
		return n, nil
	}
	if err := n.set.check("consul-options", "token-file", "datacenter", "ca", "certificate", "key", "server-name", "service", "tags", "connect", "address", "register"); err != nil {
		return nil, err
	}
	for _, name := range []string{"connect", "register"} {
		if v := n.set[name]; v != "" && v != "true" && v != "false" {
			return nil, fault.New(fault.Invalid, "--consul-options: %s is true or false", name)
		}
	}
	if err := plainConsul(at, plaintext); err != nil {
		return nil, err
	}
	var err error
	n.consul, err = consul.New(consul.Config{
		Way: transport.Config{
			Whose: "--consul:", Address: at, CAFile: n.set["ca"], CertFile: n.set["certificate"], KeyFile: n.set["key"], ServerName: n.set["server-name"], Plaintext: true,
		},
		TokenFile: n.set["token-file"], Datacenter: n.set["datacenter"], Sidecar: n.set["connect"] == "true",
		Resilience: resilience.Config{Observer: observer, Tell: true},
	})
	if err != nil {
		return nil, err
	}
	n.finder = discovery.Remember(n.consul)
	n.Dialer.Finder = n.finder
	return n, nil
}

// url has the service's own port used where a name has none.
func (n *names) url(raw string) string {
	if n.finder == nil {
		return raw
	}
	return discovery.Portless(raw)
}

// lookup finds the hosts of a database. Where the URL has port 0, the service's own
// comes along.
func (n *names) lookup(raw string) func(ctx context.Context, host string) ([]string, error) {
	own := map[string]bool{}
	if u, err := url.Parse(raw); err == nil {
		for _, h := range strings.Split(u.Host, ",") {
			if host, port, _ := net.SplitHostPort(h); port == "0" {
				own[host] = true
			}
		}
	}
	return func(ctx context.Context, host string) ([]string, error) {
		if _, ours := discovery.ParseName(host); !ours {
			return net.DefaultResolver.LookupHost(ctx, host)
		}
		if own[host] {
			return n.Lookup(ctx, host, "0")
		}
		addrs, err := n.Lookup(ctx, host, "1")
		for i, a := range addrs {
			addrs[i], _, _ = net.SplitHostPort(a) // the URL's port counts
		}
		return addrs, err
	}
}

// unported leaves out port 0 behind names, which says as much as none, and which no
// driver of a database takes.
func unported(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw
	}
	hosts := strings.Split(u.Host, ",")
	for i, h := range hosts {
		if host, port, _ := net.SplitHostPort(h); port == "0" {
			if _, ours := discovery.ParseName(host); ours {
				hosts[i] = host
			}
		}
	}
	if joined := strings.Join(hosts, ","); joined != u.Host {
		u.Host = joined
		return u.String()
	}
	return raw
}

func (n *names) facts(ctx context.Context, f *doctor.Facts) {
	if n.finder == nil {
		return
	}
	for name, a := range n.finder.Stale(ctx) {
		f.Names = append(f.Names, doctor.OldName{Name: name.String(), Since: a.At, Why: a.Stale.Error()})
	}
	slices.SortFunc(f.Names, func(a, b doctor.OldName) int { return strings.Compare(a.Name, b.Name) })
	if err := n.consul.Trouble(); err != nil {
		f.Unregistered = err.Error()
	}
}

// announce keeps this replica registered until ctx ends.
func (s *Server) announce(ctx context.Context) error {
	n := s.own.names
	if n.consul == nil || n.set["register"] == "false" {
		return nil
	}
	self, err := s.self()
	if err != nil {
		return err
	}
	n.consul.Announce(ctx, self)
	return nil
}

// self is what others are told of this replica. An address that is none of one
// machine's is left to Consul, which knows that of its node.
func (s *Server) self() (discovery.Self, error) {
	set := s.own.names.set
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return discovery.Self{}, err
	}
	machine, err := os.Hostname()
	if err != nil {
		return discovery.Self{}, fmt.Errorf("cannot find the name of this machine: %w", err)
	}
	if at := set["address"]; at != "" {
		host = at
		if h, p, err := net.SplitHostPort(at); err == nil {
			host, port = h, p
		}
	} else if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = ""
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return discovery.Self{}, fault.New(fault.Invalid, "--consul-options: address is HOST or HOST:PORT")
	}
	service := "drover"
	if set["service"] != "" {
		service = set["service"]
	}
	return discovery.Self{
		ID: service + "-" + machine + "-" + port, Service: service, Host: host, Port: number,
		Meta: map[string]string{"url": s.publicURL(), "version": s.cfg.Version},
		State: func(ctx context.Context) discovery.State {
			tags := append([]string{s.role()}, strings.Fields(set["tags"])...)
			if s.cfg.Version != "" {
				tags = append(tags, s.cfg.Version)
			}
			return discovery.State{Tags: tags, Trouble: s.unready(ctx)}
		},
	}, nil
}

// role is what this replica is to others: of two sites, whoever leads is the primary.
func (s *Server) role() string {
	switch {
	case s.cfg.site == nil:
		return "standalone"
	case s.cfg.site.leads() == nil:
		return "primary"
	}
	return "secondary"
}

// unready is why nobody should be sent here, as /readyz says.
func (s *Server) unready(ctx context.Context) error {
	ctx = context.WithValue(ctx, insideKey{}, true) // nobody's connection, so without TLS
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
	if err != nil {
		return err
	}
	w := &verdict{header: http.Header{}}
	s.handler.ServeHTTP(w, r)
	if w.status != http.StatusOK {
		return errors.New("not ready: see /readyz and the server's log")
	}
	return nil
}

// verdict keeps the status of an answer.
type verdict struct {
	header http.Header
	status int
}

func (v *verdict) Header() http.Header { return v.header }

func (v *verdict) Write(p []byte) (int, error) {
	if v.status == 0 {
		v.status = http.StatusOK
	}
	return len(p), nil
}

func (v *verdict) WriteHeader(status int) { v.status = status }
