//go:build e2e

package dataplane_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/droverhq/drover/internal/cluster"
)

// The control plane is away, and the agent starts anew: it goes on with what it
// kept, if that is what the control plane said.
func TestAgentStartsWithoutAControlPlane(t *testing.T) {
	t.Parallel()
	p, ns := edge(t)
	other := p.order("market", "north", map[string]any{"greeting": "fresh fish"})
	p.is("shops", "market", "ready")
	before := look(t, p.k)
	p.until("the agent and the runtime to have kept both", func() bool { return p.keeps("hello") > 1 && p.keeps("fresh fish") > 1 })

	p.s.Kill()
	p.agent.Kill()
	p.spoil(ns) // while nobody looks
	p.spoil(other)
	p.agent.Start(t)
	p.greets(ns, "hello")
	p.greets(other, "fresh fish")
	p.spoil(ns) // while the agent looks
	p.greets(ns, "hello")
	unharmed(t, p.k, before)

	t.Run("what was changed where it is kept is refused", func(t *testing.T) {
		p.agent.Kill()
		if n := p.tamper("hello", "pwned"); n < 2 {
			t.Fatalf("the item is kept in %d Secrets, not in the agent's and in the runtime's", n)
		}
		p.spoil(other)
		p.agent.Start(t)
		p.greets(other, "fresh fish") // the others go on
		p.until("the agent to refuse it", func() bool { return strings.Contains(p.agent.Log(), "a kept item is refused") })
		if got := p.greeting(ns); got != "hello" {
			t.Errorf("the shop says %q: what was made up is applied", got)
		}
		unharmed(t, p.k, before)
	})

	p.s.Start(t)
	p.await("ready")
	p.greets(ns, "hello")
	p.converges(ns, "open again")
	p.is("shops", "market", "ready")
	unharmed(t, p.k, before)
}

// tamper changes a text in whatever the agent keeps, as somebody with rights to its
// namespace can, and returns in how many Secrets.
func (p *plane) tamper(old, new string) (changed int) {
	t := p.t
	t.Helper()
	secrets := p.k.Client(t).CoreV1().Secrets(cluster.AgentNamespace)
	list, err := secrets.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Items {
		if !replaceIn(&s, old, new) {
			continue
		}
		if _, err := secrets.Update(context.Background(), &s, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Logf("changed %s", s.Name)
		changed++
	}
	return changed
}

// keeps tells in how many Secrets the agent keeps a text.
func (p *plane) keeps(text string) (n int) {
	p.t.Helper()
	list, err := p.k.Client(p.t).CoreV1().Secrets(cluster.AgentNamespace).List(p.t.Context(), metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range list.Items {
		if replaceIn(&s, text, "") { // in this copy of it
			n++
		}
	}
	return n
}

// replaceIn looks into packed data too.
func replaceIn(s *corev1.Secret, old, new string) (changed bool) {
	for name, data := range s.Data {
		plain, packed := data, false
		if z, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
			if all, err := io.ReadAll(z); err == nil {
				plain, packed = all, true
			}
		}
		next := bytes.ReplaceAll(plain, []byte(old), []byte(new))
		next = bytes.ReplaceAll(next, []byte(base64.StdEncoding.EncodeToString([]byte(old))), []byte(base64.StdEncoding.EncodeToString([]byte(new))))
		if bytes.Equal(next, plain) {
			continue
		}
		if packed {
			var b bytes.Buffer
			z := gzip.NewWriter(&b)
			_, _ = z.Write(next)
			_ = z.Close()
			next = b.Bytes()
		}
		s.Data[name], changed = next, true
	}
	return changed
}
