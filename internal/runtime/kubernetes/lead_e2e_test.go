//go:build e2e

package kubernetes_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/kubernetes"
)

// leaseTime outlasts a machine that stands still for a while: nobody loses a lease who
// is not to.
const leaseTime = 30 * time.Second

// leading runs a replica and returns when it is at work; done has what Lead
// returned.
func leading(t *testing.T, ctx context.Context, rt *kubernetes.Runtime) (done chan error) {
	t.Helper()
	began := make(chan struct{})
	done = make(chan error, 1)
	go func() {
		done <- rt.Lead(ctx, func(ctx context.Context) error { close(began); <-ctx.Done(); return nil })
	}()
	select {
	case <-began:
	case err := <-done:
		t.Fatalf("it never led: %v", err)
	case <-time.After(patience):
		t.Fatal("it never led")
	}
	return done
}

func TestOneReplicaWorks(t *testing.T) {
	sys := system(t)
	leased := func(c *kubernetes.Config) { c.Lease, c.LeaseTime, c.Home = "agent", leaseTime, sys }
	var cut atomic.Bool
	first := open(t, sys, leased, func(c *kubernetes.Config) {
		c.Wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if cut.Load() {
					return nil, errors.New("connection refused")
				}
				return next.RoundTrip(r)
			})
		}
	})
	second := open(t, sys, leased)
	id := unique("led")
	one := runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap(id, "1"))}
	if err := first.Apply(t.Context(), one); fault.Reason(err) != "not-leading" {
		t.Errorf("before it leads: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := leading(t, ctx, first)
	apply(t, first, one)
	await(t, first, id, is(1, runtime.Ready))
	if err := second.Apply(t.Context(), one); fault.Reason(err) != "not-leading" {
		t.Errorf("the second replica works too: %v", err)
	}
	// The first is cut off: it stops by itself, and the second takes over with
	// everything that the first has kept.
	cut.Store(true)
	after, stopSecond := context.WithCancel(t.Context())
	defer stopSecond()
	secondDone := leading(t, after, second)
	if err := <-done; fault.Reason(err) != "lease-lost" {
		t.Errorf("a replica that lost its lease returned %v", err)
	}
	await(t, second, id, is(1, runtime.Ready))
	apply(t, second, runtime.Item{ID: id, Generation: 2, Token: 2, Body: manifests(t, configMap(id, "2"))})
	await(t, second, id, is(2, runtime.Ready))
	cut.Store(false)
	if err := first.Apply(t.Context(), one); fault.Reason(err) != "not-leading" {
		t.Errorf("the old replica still applies: %v", err)
	}
	if err := first.Store().Save("x", []byte("y")); fault.Reason(err) != "not-leading" {
		t.Errorf("the old replica still saves: %v", err)
	}
	// A replica that leaves gives the lease back, and the other need not wait.
	stopSecond()
	if err := <-secondDone; err != nil {
		t.Errorf("a replica that was stopped returned %v", err)
	}
	again, stopAgain := context.WithCancel(t.Context())
	doneAgain := leading(t, again, first)
	await(t, first, id, is(2, runtime.Ready))
	stopAgain()
	<-doneAgain
}

// Terms are counted in the lease. One that somebody removed is counted anew, and
// whoever has it works on with what was kept under later terms.
// One that comes after another is not taken before that is held.
func TestALeaseAfterAnother(t *testing.T) {
	sys := system(t)
	rt := open(t, sys, func(c *kubernetes.Config) { c.Lease, c.LeaseTime, c.Home = "agent", leaseTime, sys })
	var ready atomic.Bool
	asked, began, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- rt.LeadAfter(t.Context(), func() bool {
			if ready.Load() {
				return true
			}
			asked <- struct{}{}
			return false
		}, func(context.Context) error { close(began); return nil })
	}()
	for range 3 {
		select {
		case <-asked:
		case <-began:
			t.Fatal("it leads before its time")
		case <-time.After(patience):
			t.Fatal("it does not try")
		}
	}
	ready.Store(true)
	for {
		select {
		case <-asked: // one that was under way
			continue
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			<-began
			return
		case <-time.After(patience):
			t.Fatal("it never led")
		}
	}
}

func TestALeaseThatWasRemovedIsNoEnd(t *testing.T) {
	sys := system(t)
	leased := func(c *kubernetes.Config) { c.Lease, c.LeaseTime, c.Home = "agent", leaseTime, sys }
	id := unique("anew")
	for term := range int64(3) {
		ctx, stop := context.WithCancel(t.Context())
		rt := open(t, sys, leased)
		done := leading(t, ctx, rt)
		apply(t, rt, runtime.Item{ID: id, Generation: term + 1, Token: term + 1, Body: manifests(t, configMap(id, "1"))})
		await(t, rt, id, is(term+1, runtime.Ready))
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if err := client(t).CoordinationV1().Leases(sys).Delete(t.Context(), "agent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for generation := int64(4); generation < 6; generation++ {
		ctx, stop := context.WithCancel(t.Context())
		rt := open(t, sys, leased)
		done := leading(t, ctx, rt)
		apply(t, rt, runtime.Item{ID: id, Generation: generation, Token: generation, Body: manifests(t, configMap(id, "2"))})
		await(t, rt, id, is(generation, runtime.Ready))
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever writes with an older view of an item is refused by the cluster, even
// if nobody told it that its time is over.
func TestOlderViewIsRefused(t *testing.T) {
	sys := system(t)
	home := func(c *kubernetes.Config) { c.Home = sys }
	old, young := open(t, sys, home), open(t, sys, home)
	id := unique("fenced")
	apply(t, old, runtime.Item{ID: id, Generation: 1, Token: 1, Body: manifests(t, configMap(id, "1"))})
	await(t, old, id, is(1, runtime.Ready))
	apply(t, young, runtime.Item{ID: id, Generation: 3, Token: 3, Body: manifests(t, configMap(id, "3"))})
	await(t, young, id, is(3, runtime.Ready))
	err := old.Apply(t.Context(), runtime.Item{ID: id, Generation: 2, Token: 2, Body: manifests(t, configMap(id, "2"))})
	if fault.Reason(err) != "fenced" {
		t.Errorf("an older view was written: %v", err)
	}
	// What the older one was about to write when the younger one came is put right by that.
	eventually(t, "the object is as the younger one wants it", func() bool { return value(t, sys, id) == "3" })
}

func TestStore(t *testing.T) {
	s := open(t, system(t)).Store()
	if _, err := s.Load("mark"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it was saved: %v", err)
	}
	big := bytes.Repeat([]byte("0123456789"), 200<<10)
	for _, want := range [][]byte{[]byte("one"), {}, big, []byte("two")} {
		if err := s.Save("a/../B c", want); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Load("a/../B c"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes came back as %d, %v", len(want), len(got), err)
		}
	}
	for range 2 {
		if err := s.Delete("a/../B c"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Load("a/../B c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it was deleted: %v", err)
	}
}

// What was read need not be asked for again before it is written, also where there was
// nothing; what another replica has written meanwhile is.
func TestStoreAsksOnce(t *testing.T) {
	sys := system(t)
	var mu sync.Mutex
	var asked []string
	s := open(t, sys, func(cfg *kubernetes.Config) {
		cfg.Wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "/secrets") {
					mu.Lock()
					asked = append(asked, r.Method)
					mu.Unlock()
				}
				return next.RoundTrip(r)
			})
		}
	}).Store()
	other := open(t, sys).Store()
	for _, c := range []struct {
		reason string
		before func()
		want   []string
	}{
		{"there is none", func() { _, _ = s.Load("x") }, []string{"GET", "POST"}},
		{"it was just written", func() {}, []string{"PUT"}},
		{"it was just read", func() { _, _ = s.Load("x") }, []string{"GET", "PUT"}},
		{"another replica has written it", func() {
			if err := other.Save("x", []byte("theirs")); err != nil {
				t.Fatal(err)
			}
		}, []string{"PUT", "GET", "PUT"}},
	} {
		asked = nil
		c.before()
		if err := s.Save("x", []byte(c.reason)); err != nil {
			t.Fatalf("%s: %v", c.reason, err)
		}
		if d := cmp.Diff(c.want, asked); d != "" {
			t.Errorf("%s: %s", c.reason, d)
		}
		if got, err := other.Load("x"); err != nil || string(got) != c.reason {
			t.Errorf("%s: %q came back, %v", c.reason, got, err)
		}
	}
}

func TestFacts(t *testing.T) {
	sys, c := system(t), client(t)
	now := time.Now()
	rt := open(t, sys, func(cfg *kubernetes.Config) {
		cfg.Home, cfg.Now = sys, func() time.Time { return now }
		cfg.Unit = corev1.ResourceList{"drover.dev/test": *quantity("1")}
	})
	f, err := rt.Facts(t.Context())
	if err != nil || f.Kind != "kubernetes" || f.Version == "" || f.Routes != "ingress" || f.Unready != "" {
		t.Fatalf("facts: %+v, %v", f, err)
	}
	if _, err := rt.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: unique("node")}, Status: corev1.NodeStatus{
		Allocatable: corev1.ResourceList{"drover.dev/test": *quantity("7")}, Capacity: corev1.ResourceList{"drover.dev/test": *quantity("8")},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	made, err := c.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
	made.Status = node.Status
	if _, err := c.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if again, _ := rt.Facts(t.Context()); again.Capacity != f.Capacity {
		t.Errorf("facts were asked for again within a moment: %+v", again)
	}
	now = now.Add(time.Minute)
	if f, err = rt.Facts(t.Context()); err != nil || f.Nodes < 1 || f.Capacity != 7 {
		t.Errorf("with a node: %+v, %v", f, err)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.drover.dev/test": *quantity("3")}}}
	if _, err := c.CoreV1().ResourceQuotas(sys).Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	if f, err = rt.Facts(t.Context()); err != nil || f.Capacity != 3 {
		t.Errorf("with a quota: %+v, %v", f, err)
	}
}

// A replica that may not have its lease says so: it would wait without a word.
func TestLeaseThatCannotBeHadIsTold(t *testing.T) {
	told := make(chan string, 100)
	rt := open(t, system(t), func(c *kubernetes.Config) {
		c.Lease, c.LeaseTime = "agent", 3*time.Second
		c.Logger = slog.New(slog.NewTextHandler(sayer(told), nil))
		c.Wrap = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "/leases/") {
					return nil, errors.New("a wall")
				}
				return next.RoundTrip(r)
			})
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- rt.Lead(ctx, func(context.Context) error { return nil }) }()
	select {
	case line := <-told:
		if !strings.Contains(line, "cannot have the lease") || !strings.Contains(line, "a wall") {
			t.Errorf("it says %s", line)
		}
	case <-time.After(patience):
		t.Error("it says nothing")
	}
	stop()
	<-done
}

type sayer chan string

func (s sayer) Write(p []byte) (int, error) { s <- string(p); return len(p), nil }
