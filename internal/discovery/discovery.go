// Package discovery is the port to who knows where services are, and who is told
// that this one is here.
//
// It owns what a service's name looks like in a setting, what is known while nobody
// can be asked, and how one connects to a name. It must not know what is behind the
// names, nor who asks.
package discovery

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"
)

// Name is of a service that is looked up.
type Name struct {
	Service    string
	Tag        string // that an instance must have; default: any
	Datacenter string // default: the one that is asked
}

// ParseName reads a host as a name: [tag.]<name>.service[.<datacentre>].consul. Any
// other host is none, and for the resolver of the machine.
func ParseName(host string) (Name, bool) {
	words := strings.Split(strings.ToLower(strings.TrimSuffix(host, ".")), ".")
	last := len(words) - 1
	if last < 2 || words[last] != "consul" {
		return Name{}, false
	}
	var n Name
	words = words[:last]
	if words[last-1] != "service" {
		n.Datacenter, words = words[last-1], words[:last-1]
	}
	last = len(words) - 1
	if last < 1 || last > 2 || words[last] != "service" {
		return Name{}, false
	}
	n.Service = words[last-1]
	if last == 2 {
		n.Tag = words[0]
	}
	for _, w := range words {
		if w == "" {
			return Name{}, false
		}
	}
	return n, true
}

// String is the name as a host.
func (n Name) String() string {
	host := n.Service + ".service"
	if n.Tag != "" {
		host = n.Tag + "." + host
	}
	if n.Datacenter != "" {
		host += "." + n.Datacenter
	}
	return host + ".consul"
}

// Endpoint is where one instance of a service is.
type Endpoint struct {
	ID   string // of the instance
	Host string // an address, or a name for the resolver of the machine
	Port int    // 0: the service has none
	Tags []string
	Meta map[string]string
}

// Addr is the endpoint as one dials it.
func (e Endpoint) Addr() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// Answer is what is known of a name.
type Answer struct {
	Endpoints []Endpoint // that were healthy, at least one, in no order that means anything
	At        time.Time  // when this was said
	Stale     error      // why it was not said just now; nil: it was
}

// Finder knows where services are. Implementations are safe for concurrent use.
type Finder interface {
	// Find returns the healthy instances of a service.
	// Faults: NotFound (there is none that is healthy), Unavailable, Denied.
	Find(ctx context.Context, name Name) (Answer, error)
}

// Self is what others are told of this process.
type Self struct {
	ID      string // unlike that of all other instances, and the same after a restart
	Service string // under which it is found
	Host    string // where others reach it
	Port    int
	Meta    map[string]string
	// State is asked every few seconds, from one goroutine.
	State func(ctx context.Context) State
}

// State is what may change of a process.
type State struct {
	Tags    []string
	Trouble error // why nobody should be sent here; nil: all may
}

// Announcer tells others that this process is here.
type Announcer interface {
	// Announce keeps a process known until ctx ends, and takes it back then. What
	// keeps it from that is told by Trouble and tried again; nothing ends it.
	Announce(ctx context.Context, self Self)
	// Trouble is why others do not know of this process at the moment, or nil.
	Trouble() error
}
