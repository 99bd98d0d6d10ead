package argocd

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"reflect"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
)

const (
	diffAge    = time.Minute      // after which differences are read again: what changes in the cluster need not show in the Application
	diffPause  = 2 * time.Second  // between two looks at one Application's
	diffAfter  = 3 * time.Second  // of an automated one: most are in sync by then
	redisAgain = 30 * time.Second // after Redis could not be read

	maxManaged = 64 << 20 // bytes of what Argo CD keeps of one Application
)

// cacheKey is where Argo CD (3.5) keeps what an Application manages. The version is
// the one of the cache's layout, not Argo CD's own.
func cacheKey(application string) string { return "app|managed-resources|" + application + "|1.8.3.gz" }

// differences reads from Argo CD's cache what differs in Applications that are out
// of sync. That is read by one goroutine, so that no status waits for it.
type differences struct {
	s      *shift
	from   *redis
	absent string // why there is nothing to read from
	wake   chan struct{}

	mu     sync.Mutex
	wanted map[string]string // ids and names of Applications
	known  map[string]*difference

	until time.Time // Redis is left alone
	why   string    // it could not be read
}

// difference is what was last read of one Application.
type difference struct {
	since time.Time // it is out of sync
	asked time.Time
	of    string // the Application's version that was asked for
	list  []runtime.ResourceDifference
	why   string
}

func newDifferences(s *shift) *differences {
	x := &differences{s: s, wake: make(chan struct{}, 1), wanted: map[string]string{}, known: map[string]*difference{}}
	cfg := s.r.cfg
	switch address, secure := strings.CutPrefix(cfg.Redis, "rediss://"); {
	case cfg.Redis == "off":
		x.absent = "the agent is not to read them (its option redis=off)"
	case cfg.Redis == "" && cfg.Kubeconfig != nil:
		x.absent = "the agent runs outside of the cluster, and does not know where Argo CD's Redis is: say it by its option redis=HOST:PORT"
	default:
		if address == "" {
			address = "argocd-redis." + cfg.ArgoCD + ".svc:6379"
		}
		x.from = &redis{address: address, password: x.password}
		if secure {
			host, _, _ := net.SplitHostPort(address)
			x.from.secure = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
		}
	}
	return x
}

// password of Redis, as Argo CD's own parts are told it; empty: it has none.
func (x *differences) password(ctx context.Context) (string, error) {
	if x.s.r.cfg.RedisPassword != "" {
		return x.s.r.cfg.RedisPassword, nil
	}
	o, err := x.s.r.live(ctx, secrets, "argocd-redis")
	if err != nil || o == nil {
		return "", err
	}
	text, _, _ := unstructured.NestedString(o.Object, "data", "auth")
	b, err := base64.StdEncoding.DecodeString(text)
	return string(b), err
}

// of returns what differs in an Application as it was last read, and when to look
// again.
func (x *differences) of(id string, automated bool, app *unstructured.Unstructured) (list []runtime.ResourceDifference, why string, again time.Duration) {
	now := x.s.r.cfg.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if app == nil || view(app).Status.Sync.Status != "OutOfSync" {
		delete(x.known, id)
		delete(x.wanted, id)
		return nil, "", 0
	}
	if x.from == nil {
		return nil, x.absent, 0
	}
	k := x.known[id]
	if k == nil {
		k = &difference{since: now}
		x.known[id] = k
	}
	wait := time.Duration(0)
	switch {
	case automated && now.Sub(k.since) < diffAfter:
		wait = diffAfter - now.Sub(k.since)
	case k.of == app.GetResourceVersion():
		wait = diffAge - now.Sub(k.asked)
	default:
		wait = diffPause - now.Sub(k.asked)
	}
	if wait > 0 {
		return k.list, k.why, wait
	}
	k.asked, k.of = now, app.GetResourceVersion()
	x.wanted[id] = app.GetName()
	select {
	case x.wake <- struct{}{}:
	default:
	}
	return k.list, k.why, diffAge
}

func (x *differences) forget(id string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.known, id)
	delete(x.wanted, id)
}

// run reads what is wanted until the context ends.
func (x *differences) run(ctx context.Context) {
	if x.from == nil {
		return
	}
	defer x.from.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.wake:
		}
		x.mu.Lock()
		all := maps.Clone(x.wanted)
		clear(x.wanted)
		x.mu.Unlock()
		for id, name := range all {
			list, why := x.read(ctx, name)
			if ctx.Err() != nil {
				return
			}
			x.mu.Lock()
			k := x.known[id]
			news := k != nil && (k.why != why || !reflect.DeepEqual(k.list, list))
			if news {
				k.list, k.why = list, why
			}
			x.mu.Unlock()
			if news {
				x.s.Wake(id)
			}
		}
	}
}

// read asks for one Application's; why it cannot is for the user.
func (x *differences) read(ctx context.Context, name string) (list []runtime.ResourceDifference, why string) {
	if x.s.r.cfg.Now().Before(x.until) {
		return nil, x.why
	}
	raw, there, err := x.from.get(ctx, cacheKey(name))
	if err != nil {
		x.why, x.until = "Argo CD's Redis cannot be read from the agent, which has the lines: its operator finds the reason in the agent's log", x.s.r.cfg.Now().Add(redisAgain)
		if ctx.Err() == nil {
			x.s.r.cfg.Logger.Warn("Argo CD's Redis cannot be read, so that differences have no lines: let the agent reach it, or say where it is by the option redis=HOST:PORT (redis=off: this is meant)",
				"address", x.from.address, "error", err)
		}
		return nil, x.why
	}
	if !there {
		return nil, "Argo CD keeps no lines of it now: refresh it"
	}
	if list, err = differing(raw); err != nil {
		x.s.r.cfg.Logger.Warn("what Argo CD's Redis has of an Application cannot be read", "application", name, "error", err)
		return nil, "what Argo CD keeps of it cannot be read: its version may be one that the agent does not know"
	}
	return list, ""
}

// managed is one object as Argo CD's cache has it: with defaults and what is to be
// ignored taken out, and with values of Secrets hidden.
type managed struct {
	Group, Kind, Namespace, Name            string
	TargetState, LiveState                  string
	NormalizedLiveState, PredictedLiveState string
	Hook, Modified                          bool
}

// differing reads what Argo CD's cache has of one Application.
func differing(raw []byte) ([]runtime.ResourceDifference, error) {
	unzip, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	left := &io.LimitedReader{R: unzip, N: maxManaged}
	dec := json.NewDecoder(left)
	if first, err := dec.Token(); err != nil || first != json.Delim('[') {
		if err == nil && first == nil {
			return nil, nil // of an Application with nothing
		}
		return nil, errors.Join(err, errors.New("it is no list"))
	}
	var out []runtime.ResourceDifference
	for dec.More() {
		var m managed
		if err := dec.Decode(&m); err != nil {
			if left.N <= 0 {
				return nil, fmt.Errorf("it is larger than %d bytes", maxManaged)
			}
			return nil, err
		}
		one, differs, err := m.difference()
		if err != nil {
			return nil, err
		}
		if differs {
			out = append(out, one)
		}
	}
	return runtime.Concise(out), nil
}

// difference tells what a sync would do with the object, if anything.
func (m managed) difference() (one runtime.ResourceDifference, differs bool, err error) {
	one = runtime.ResourceDifference{Group: m.Group, Kind: m.Kind, Namespace: m.Namespace, Name: m.Name}
	var all [4]map[string]any
	for i, text := range []string{m.TargetState, m.LiveState, m.NormalizedLiveState, m.PredictedLiveState} {
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &all[i]); err != nil {
			return one, false, err
		}
	}
	target, live := all[0], all[1]
	switch {
	case m.Hook, target == nil && live == nil:
		return one, false, nil
	case target == nil:
		one.Change = runtime.ToRemove
	case live == nil:
		one.Change, one.Text = runtime.ToCreate, manifest.Difference(nil, target, runtime.MaxDifference)
	case m.Modified:
		one.Change, one.Text = runtime.ToChange, manifest.Difference(all[2], all[3], runtime.MaxDifference)
	default:
		return one, false, nil
	}
	return one, true, nil
}
