//go:build e2e

package dataplane_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/kubernetes"
)

// edge is a data plane on which one shop runs.
func edge(t *testing.T, with ...kubernetes.Option) (p *plane, namespace string) {
	t.Helper()
	k := kubernetes.Start(t, append([]kubernetes.Option{kubernetes.WithControllers()}, with...)...)
	k.Node(t, "n1", "8", "32Gi")
	kubelet(t, k)
	w := start(t)
	p = w.register("edge", "north", k)
	namespace = w.order("corner", "north", map[string]any{"greeting": "hello"})
	w.is("shops", "corner", "ready")
	return p, namespace
}

// greeting is what a shop says on the cluster.
func (p *plane) greeting(namespace string) string {
	m, err := p.k.Client(p.t).CoreV1().ConfigMaps(namespace).Get(p.t.Context(), "settings", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	return m.Data["greeting"]
}

// spoil changes by hand what a shop says.
func (p *plane) spoil(namespace string) {
	p.t.Helper()
	if _, err := p.k.Client(p.t).CoreV1().ConfigMaps(namespace).Patch(p.t.Context(), "settings", types.MergePatchType,
		[]byte(`{"data":{"greeting":"go away"}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plane) greets(namespace, want string) {
	p.t.Helper()
	got := ""
	defer func() {
		if got != want {
			out, _, _ := p.s.Run("describe", "shop", "corner")
			p.t.Logf("it says %q\n%s", got, out)
		}
	}()
	p.until("the shop to say "+want, func() bool { got = p.greeting(namespace); return got == want })
}

// converges has something new become so, which shows that both sides agree again.
func (p *plane) converges(namespace, word string) {
	p.t.Helper()
	p.update("corner", map[string]any{"greeting": word})
	p.greets(namespace, word)
	p.is("shops", "corner", "ready")
	p.await("ready")
}

// What the other side says is wrong; TestBadNetwork has what the network does.
func TestBadDaysBetweenAgentAndControlPlane(t *testing.T) {
	t.Parallel()
	p, ns := edge(t)
	before := look(t, p.k)
	syncs := func(n int64, since *atomic.Int64) {
		t.Helper()
		from := since.Load()
		p.until(fmt.Sprintf("%d more messages", n), func() bool { return since.Load() >= from+n })
	}

	t.Run("connections end at once", func(t *testing.T) {
		p.server.Feel(drover.Away)
		syncs(2, &p.server.Failed)
		p.server.Feel(drover.Fair)
		p.converges(ns, "back")
		unharmed(t, p.k, before)
	})

	answers := map[string]struct {
		reason string
		twist  func([]byte) []byte
	}{
		"empty":       {"No body at all.", func([]byte) []byte { return nil }},
		"an object":   {"Nothing in it is no state.", func([]byte) []byte { return []byte("{}") }},
		"truncated":   {"Half of what was said.", func(b []byte) []byte { return b[:len(b)/2] }},
		"garbage":     {"What no control plane says.", func([]byte) []byte { return []byte("\x00\xff<html>") }},
		"no items":    {"A well-formed answer in which every bucket is empty: absence is no removal.", withoutItems},
		"other kinds": {"Types that do not fit.", func([]byte) []byte { return []byte(`{"desired":"all","seq":[]}`) }},
	}
	for name, a := range answers {
		t.Run("answers: "+name, func(t *testing.T) {
			var twisted atomic.Int64
			p.server.Twist(func(r *http.Response) error {
				if !strings.HasSuffix(r.Request.URL.Path, "/sync") || r.StatusCode != http.StatusOK {
					return nil
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return err
				}
				body = a.twist(body)
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				r.Header.Set("Content-Length", fmt.Sprint(len(body)))
				twisted.Add(1)
				return nil
			})
			was := p.greeting(ns)
			p.update("corner", map[string]any{"greeting": "unheard of: " + name}) // which is told at once, not with the next heartbeat
			syncs(2, &twisted)
			unharmed(t, p.k, before)
			p.spoil(ns)
			p.until(a.reason+" The agent goes on with what it knows", func() bool { return p.greeting(ns) == was })
			p.server.Twist(nil)
			p.converges(ns, "after "+name)
			unharmed(t, p.k, before)
		})
	}

	t.Run("clocks that are ten minutes apart", func(t *testing.T) {
		var twisted atomic.Int64
		for _, off := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			p.server.Twist(func(r *http.Response) error {
				r.Header.Set("Date", time.Now().Add(off).UTC().Format(http.TimeFormat))
				twisted.Add(1)
				return nil
			})
			from := twisted.Load()
			p.converges(ns, "at "+off.String())
			if twisted.Load() == from {
				t.Error("no answer told another time")
			}
		}
		p.server.Twist(nil)
		unharmed(t, p.k, before)
	})
}

// withoutItems claims that nothing is wanted of any bucket.
func withoutItems(b []byte) []byte {
	var a v1.Synced
	if json.Unmarshal(b, &a) != nil {
		return b
	}
	a.Desired, a.Seq = nil, a.Seq+1
	for i := range 64 {
		a.Desired = append(a.Desired, v1.Bucket{Index: i})
	}
	out, _ := json.Marshal(a)
	return out
}

// A second installation is refused; a second replica waits until the first is gone.
func TestMoreThanOneAgent(t *testing.T) {
	t.Parallel()
	p, ns := edge(t)
	before := look(t, p.k)

	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, p.k.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	second := drover.Join(t, p.s.URL(), p.name, p.agent.Token, "--runtime", "kubernetes",
		"--runtime-options", "kubeconfig="+file+",namespace=drover-other,address=lb.example.com")
	p.until("the second installation to be told what to do", func() bool {
		return strings.Contains(second.Log(), "drover update cluster edge --set installation=")
	})
	p.converges(ns, "in spite of another")
	unharmed(t, p.k, before)
	second.Kill()

	replica, _ := p.replica(p.agent.Token)
	p.until("the replica to look at the lease", func() bool { return strings.Contains(replica.Log(), "agent of cluster edge") })
	p.converges(ns, "with a replica")
	// The first may have lost its lease on a machine that is busy for long, and the replica has it then.
	if strings.Contains(replica.Log(), "follows the control plane") {
		p.until("the first to have stopped: two replicas work at the same time", func() bool {
			return strings.Contains(p.agent.Log(), "until it is its turn again")
		})
	}
	p.agent.Kill() // without giving the lease back
	p.until("the replica to take over", func() bool { return strings.Contains(replica.Log(), "follows the control plane") })
	p.converges(ns, "by the replica")
	p.agent.Start(t)
	p.converges(ns, "with the first again")
	unharmed(t, p.k, before)
}

// Agents of other versions are served, or told what to do.
func TestAgentsOfOtherVersions(t *testing.T) {
	w := start(t)
	for name, tc := range map[string]struct {
		reason   string
		protocol int
		status   int
		says     string
	}{
		"two older": {"Nobody knows any more what it means.", v1.Protocol - 2, http.StatusConflict, "upgrade the agent"},
		"one older": {"The one before is served.", v1.Protocol - 1, http.StatusOK, ""},
		"as old":    {"This one.", v1.Protocol, http.StatusOK, ""},
		"newer":     {"It speaks to us as we are.", v1.Protocol + 7, http.StatusOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := "of-" + strings.ReplaceAll(name, " ", "-")
			token := w.s.Cluster(t, cluster)
			body := fmt.Sprintf(`{"protocol":%d,"agent":"a","installation":"i","number":1,"ready":true,"capacity":3,"news":{"of":"later"}}`, tc.protocol)
			send := func() drover.Answer {
				return drover.Must(t, drover.Request{Method: http.MethodPost, URL: w.s.URL() + "/api/v1/clusters/" + cluster + "/sync", Token: token, Body: []byte(body)})
			}
			var got drover.Answer
			w.until("an answer", func() bool { got = send(); return got.Status != http.StatusServiceUnavailable })
			if got.Status != tc.status || !strings.Contains(string(got.Body), tc.says) {
				t.Errorf("%s status %d, want %d: %s", tc.reason, got.Status, tc.status, got.Body)
			}
			if tc.status == http.StatusConflict {
				if why := got.Header.Get("Drover-Reason"); why != "protocol" {
					t.Errorf("the reason is %q", why)
				}
				w.until("the cluster to say so", func() bool { // an agent comes again and again
					send()
					out, _, _ := w.s.Run("describe", "cluster", cluster)
					return strings.Contains(out, "its agent is refused: the agent speaks protocol -1")
				})
			}
		})
	}
}

// Neither side can be misled by the other's clock: no message has a time in it.
func TestMessagesTellNoTime(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		if of == reflect.TypeFor[time.Time]() {
			t.Errorf("%s is a time", path)
		}
		if seen[of] {
			return
		}
		seen[of] = true
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
			walk(path, of.Elem())
		case reflect.Struct:
			for i := range of.NumField() {
				walk(path+"."+of.Field(i).Name, of.Field(i).Type)
			}
		}
	}
	walk("Sync", reflect.TypeFor[v1.Sync]())
	walk("Synced", reflect.TypeFor[v1.Synced]())
	if len(seen) < 10 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}
