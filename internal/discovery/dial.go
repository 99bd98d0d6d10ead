package discovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

const (
	dialTime = 10 * time.Second // for all endpoints of a name
	eachTime = 3 * time.Second  // for one of several
)

// Dialer connects to hosts, of which some are names of services.
type Dialer struct {
	Finder Finder // nil: no host is a name of ours
	// Dial connects to an address; default: that of a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// DialContext connects to host:port, as a net.Dialer does. A name's endpoints are
// tried in turn, beginning with any. Port 0 is the service's own.
func (d *Dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := d.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTime, KeepAlive: 15 * time.Second}).DialContext
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if _, ours := ParseName(host); !ours || d.Finder == nil {
		return dial(ctx, network, addr)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	addrs, err := d.addrs(ctx, host, port)
	if err != nil {
		return nil, err
	}
	var failed []error
	for i, at := range addrs {
		one, end := ctx, context.CancelFunc(func() {})
		if i < len(addrs)-1 {
			one, end = context.WithTimeout(ctx, eachTime)
		}
		conn, err := dial(one, network, at)
		end()
		if err == nil {
			return conn, nil
		}
		if failed = append(failed, err); ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("%s: %w", host, errors.Join(failed...))
}

// Lookup returns where a host is, as addresses with the port, or with the service's
// own where the port is 0 or empty. Of a host that is no name it is the host itself.
func (d *Dialer) Lookup(ctx context.Context, host, port string) ([]string, error) {
	if _, ours := ParseName(host); !ours || d.Finder == nil {
		return []string{net.JoinHostPort(host, port)}, nil
	}
	return d.addrs(ctx, host, port)
}

func (d *Dialer) addrs(ctx context.Context, host, port string) ([]string, error) {
	name, _ := ParseName(host)
	found, err := d.Finder.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, i := range rand.Perm(len(found.Endpoints)) {
		e := found.Endpoints[i]
		switch n, err := strconv.Atoi(port); {
		case err == nil && n > 0:
			e.Port = n
		case e.Port == 0:
			continue
		}
		out = append(out, e.Addr())
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Invalid, "%s is registered without a port; write one behind the name", host)
	}
	return out, nil
}

// Portless returns the URL with port 0 behind each host that is a name and has no
// port, so that the service's own is used and not the default of the scheme. Any
// other URL is returned as it is.
func Portless(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return raw
	}
	hosts := strings.Split(u.Host, ",")
	for i, h := range hosts {
		if _, ours := ParseName(h); ours {
			hosts[i] = h + ":0"
		}
	}
	if joined := strings.Join(hosts, ","); joined != u.Host {
		u.Host = joined
		return u.String()
	}
	return raw
}
