package environment

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/template"
)

// Health asks a catalogue of services how one of them is.
type Health interface {
	// Passing tells how many instances of a service pass, of how many.
	Passing(ctx context.Context, c executor.Connection, service string) (passing, all int, err error)
}

// Probed is what metrics call the endpoints that are probed.
const Probed = "the endpoint of an environment"

// prober probes status endpoints. It reads no bodies, follows no redirect to
// another host, and remembers nothing.
type prober struct {
	client   *http.Client
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	policies *resilience.Group // by host
}

// probesConfig is without retries and without a breaker: the next probe is the retry,
// and each is made to see whether the other side is back. Those that do not get their
// turn soon leave it to the next round.
func probesConfig(observer resilience.Observer) resilience.Config {
	return resilience.Config{Name: Probed, Timeout: forever, Retries: -1, Failures: -1, AtOnce: 8, Queue: 15 * time.Second, Observer: observer}
}

func newProber(observer resilience.Observer) prober {
	dialer := &net.Dialer{Control: resilience.Control}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, local(address))
	}
	return prober{dial: dial, policies: resilience.NewGroup(probesConfig(observer)), client: &http.Client{
		Transport: &http.Transport{
			DialContext:       dial,
			DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) >= 5 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}}
}

// local knows where names below localhost are, which not every resolver does.
func local(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err == nil && (host == "localhost" || strings.HasSuffix(host, ".localhost")) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// probe is one endpoint with what it takes to be well.
type probe struct {
	template.Check
	of    string
	entry bool // any answer that is no failure of the server is fine
	// follow is what the executor of a resource asks others for; empty: it is probed.
	follow, executor, resource string
}

func (p probe) url() string {
	switch {
	case p.follow != "":
		return p.follow
	case p.HTTP != "":
		return p.HTTP
	case p.TCP != "":
		return "tcp://" + p.TCP
	}
	return "consul://" + p.Consul
}

func (p probe) name() string {
	if p.Name != "" {
		return p.Name
	}
	return strings.SplitN(p.url(), ":", 2)[0]
}

// do probes once, within the check's timeout. The message says what is wrong. What is not
// known is no news.
func (s *Service) do(ctx context.Context, whose Whose, p probe) (good bool, message string, known bool) {
	switch {
	case p.HTTP != "":
		return s.prober.http(ctx, p)
	case p.TCP != "":
		return s.prober.tcp(ctx, p)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.Timeout))
	defer cancel()
	if p.follow != "" {
		return s.followed(ctx, whose, p)
	}
	good, message = s.catalogued(ctx, whose, p)
	return good, message, true
}

// once makes one probe of a host; the message is empty where it answered. Its time begins
// with its turn: one that had none knows nothing.
func (p prober) once(ctx context.Context, of probe, host string, call func(ctx context.Context) error) (message string, known bool) {
	_ = p.policies.Of(strings.ToLower(host)).Once(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(of.Timeout))
		defer cancel()
		known = true
		err := call(ctx)
		if err != nil {
			message = unreachable(err, time.Duration(of.Timeout))
			err = fault.New(fault.Unavailable, "%w", err)
		}
		return err
	})
	return message, known
}

func (p prober) tcp(ctx context.Context, of probe) (good bool, message string, known bool) {
	message, known = p.once(ctx, of, of.TCP, func(ctx context.Context) error {
		conn, err := p.dial(ctx, "tcp", of.TCP)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return known && message == "", message, known
}

func (p prober) http(ctx context.Context, of probe) (good bool, message string, known bool) {
	u, err := url.Parse(of.HTTP)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false, "it is no address of http", true
	}
	code := 0
	message, known = p.once(ctx, of, u.Host, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, of.HTTP, nil)
		if err != nil {
			return err
		}
		req.Header.Set("User-Agent", "drover")
		resp, err := p.client.Do(req)
		if err == nil {
			resp.Body.Close()
			code = resp.StatusCode
		}
		return err
	})
	if message != "" || !known {
		return false, message, known
	}
	good = code >= 200 && code < 400
	switch {
	case of.entry:
		good = code < 500
	case of.Status != 0:
		good = code == of.Status
	}
	if good {
		return true, "", true
	}
	return false, fmt.Sprintf("it answers %d", code), true
}

// unreachable says why in words that stay the same from one probe to the next.
func unreachable(err error, timeout time.Duration) string {
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("it does not answer within %s", timeout)
	case errors.Is(err, resilience.ErrLinkLocal):
		return resilience.ErrLinkLocal.Error()
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens there"
	case errors.As(err, &dns):
		return "there is no such host"
	case errors.As(err, &cert):
		return "its certificate is not trusted"
	}
	return "it cannot be reached"
}

func (s *Service) catalogued(ctx context.Context, whose Whose, p probe) (bool, string) {
	if s.Health == nil || s.Connections == nil {
		return false, "this server cannot ask Consul"
	}
	name := p.Connection
	if name == "" {
		name = "default"
	}
	c, err := s.Connections.Open(ctx, "consul", name, whose)
	if err != nil {
		return false, err.Error()
	}
	passing, all, err := s.Health.Passing(ctx, c, p.Consul)
	switch {
	case fault.Is(err, fault.Denied):
		return false, fmt.Sprintf("connection %s may not ask Consul for it", name)
	case err != nil: // its words may hold what the connection does
		return false, fmt.Sprintf("Consul does not answer through connection %s", name)
	case all == 0:
		return false, "Consul knows no such service"
	case passing < all:
		return false, fmt.Sprintf("%d of %d instances pass", passing, all)
	}
	return true, ""
}

// followed hears of whoever looks after a resource.
func (s *Service) followed(ctx context.Context, whose Whose, p probe) (good bool, message string, known bool) {
	f, ok := s.Executors[p.executor].(executor.Follower)
	if !ok || s.Connections == nil {
		return false, "", false
	}
	c, err := s.Connections.Open(ctx, p.executor, p.Connection, whose)
	if err != nil {
		return false, "", false
	}
	why, err := f.Health(ctx, c, p.follow)
	return why == "", why, err == nil
}

// maxFollowed is how many resources of an environment are followed: each is a question in
// every round.
const maxFollowed = 100

// follows adds what others look after.
func (v *vigil) follows(s *Service, sh *sheet, known Known) {
	n := 0
	for _, node := range sh.nodes {
		f, ok := s.Executors[node.Executor].(executor.Follower)
		if !ok || node.Drift == driftIgnore || n == maxFollowed || len(v.probes) >= maxChecks {
			continue
		}
		if inputs, written := node.With.(map[string]any); written && !f.Follows(inputs) {
			continue // most are not, and need not be read
		}
		is, _ := known(node.Address)
		if at := f.Followed(is.Outputs); at != "" {
			// Whoever looks after it has waited before it says so.
			check := template.Check{Name: "registered", Connection: connection(node), Failures: 1}
			v.probes = append(v.probes, probe{Check: filled(check), of: node.Address, follow: at, executor: node.Executor, resource: sh.id(node.Address)})
			n++
		}
	}
}
