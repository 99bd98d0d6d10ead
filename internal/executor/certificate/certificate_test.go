package certificate_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/authority"
	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/certificate"
	"github.com/droverhq/drover/internal/fault"
)

// The suite of all executors looks at what is outside. Here nothing is.

type kept struct {
	executor.Resource
	now  time.Time
	log  strings.Builder
	fail error
}

func thing(inputs map[string]any) *kept {
	k := &kept{Resource: executor.Resource{ID: "r", Address: "c", Inputs: inputs}}
	k.Log = &k.log
	k.Save = func(_ context.Context, state []byte) error {
		if k.fail != nil {
			return k.fail
		}
		k.State = state
		return nil
	}
	return k
}

func (k *kept) by() certificate.Executor {
	if k.now.IsZero() {
		return certificate.New()
	}
	return certificate.Executor{Now: func() time.Time { return k.now }}
}

func (k *kept) apply(t *testing.T) (cert, key string) {
	t.Helper()
	res, err := k.by().Apply(t.Context(), k.Resource)
	if err != nil || !res.Done {
		t.Fatal(res, err)
	}
	hidden, ok := res.Outputs["key"].(executor.Secret)
	if !ok {
		t.Fatalf("the key is not wrapped: %T", res.Outputs["key"])
	}
	key = executor.Reveal(hidden).(string)
	if cert = res.Outputs["certificate"].(string); strings.Contains(cert, "PRIVATE") {
		t.Error("the certificate has a key")
	}
	if strings.Contains(k.log.String()+fmt.Sprintf("%v %+v %#v", res, res, res), "PRIVATE") {
		t.Error("the key is told")
	}
	return cert, key
}

func (k *kept) plan(t *testing.T) executor.Change {
	t.Helper()
	c, err := k.by().Plan(t.Context(), k.Resource)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func ca(turn string) map[string]any {
	return map[string]any{"use": "authority", "name": "Test", "turn": turn}
}

func server(signer string) map[string]any {
	return map[string]any{"use": "server", "name": "drover", "hosts": []any{"127.0.0.1", "localhost"}, "signer": executor.NewSecret(signer)}
}

// believed tells why a pair is not that of a server for who has the bundle.
func believed(t *testing.T, cert, key, bundle string) error {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(bundle))
	for _, der := range pair.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		between.AddCert(c)
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: "127.0.0.1", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}

func TestMadeOnceAndKept(t *testing.T) {
	root := thing(ca(""))
	if c := root.plan(t); c.Action != executor.Create || executor.Whole(c.Outputs["certificate"]) {
		t.Errorf("the plan of a new one is %+v", c)
	}
	bundle, signer := root.apply(t)
	if again, _ := root.apply(t); again != bundle {
		t.Error("to apply twice makes another authority")
	}
	leaf := thing(server(signer))
	cert, key := leaf.apply(t)
	if err := believed(t, cert, key, bundle); err != nil {
		t.Error(err)
	}
	if again, _ := leaf.apply(t); again != cert {
		t.Error("to apply twice makes another certificate")
	}
	if c := leaf.plan(t); c.Action != executor.None || c.Outputs["certificate"] != cert || c.Outputs["fingerprint"] != authority.Print(cert) {
		t.Errorf("the plan of one that is there is to %s, with %v", c.Action, c.Outputs["fingerprint"])
	}
	if one := authority.Print(cert); one == "" || one == authority.Print(bundle) || strings.Contains(one, "\n") {
		t.Errorf("its fingerprint is %q", one)
	}
	if o, err := leaf.by().Observe(t.Context(), leaf.Resource); err != nil || !o.Exists || len(o.Drift) > 0 {
		t.Errorf("it is seen as %+v, %v", o, err)
	}
	leaf.Outputs = map[string]any{"certificate": cert} // of a time before there was a fingerprint
	if c := leaf.plan(t); c.Action != executor.Update || c.Fields[0].Path != "fingerprint" {
		t.Errorf("the plan of one that was made before is %+v", c)
	}
	if again, _ := leaf.apply(t); again != cert {
		t.Error("to tell a fingerprint makes another certificate")
	}
	leaf.Outputs = nil
	leaf.Inputs["hosts"] = []any{"127.0.0.1"}
	if c := leaf.plan(t); c.Action != executor.Update || c.Fields[0].Path != "hosts" {
		t.Errorf("the plan of another host is %+v", c)
	}
}

// Another turn of the authority: everybody believes everybody, whatever is carried
// first, and what is of the old one is made anew.
func TestRotation(t *testing.T) {
	root := thing(ca("1"))
	oldBundle, oldSigner := root.apply(t)
	leaf := thing(server(oldSigner))
	oldCert, oldKey := leaf.apply(t)

	root.Inputs = ca("2")
	c := root.plan(t)
	if c.Action != executor.Update || c.Fields[0].Path != "turn" {
		t.Fatalf("the plan is %+v", c)
	}
	root.Mark = c.Mark
	bundle, signer := root.apply(t)
	if bundle == oldBundle || signer == oldSigner {
		t.Fatal("it is still the same authority")
	}
	leaf.Inputs["signer"] = executor.Unknown{}
	if c := leaf.plan(t); c.Action != executor.Update || executor.Whole(c.Outputs["key"]) || executor.Whole(c.Outputs["fingerprint"]) {
		t.Errorf("the plan before the authority is there is %+v", c)
	}
	leaf.Inputs = server(signer)
	if c := leaf.plan(t); c.Action != executor.Update || c.Fields[0].Path != "signer" {
		t.Errorf("the plan is %+v", c)
	}
	cert, key := leaf.apply(t)
	for reason, tc := range map[string][3]string{
		"new certificate, new bundle": {cert, key, bundle}, "new certificate, old bundle": {cert, key, oldBundle}, "old certificate, new bundle": {oldCert, oldKey, bundle},
	} {
		if err := believed(t, tc[0], tc[1], tc[2]); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
	root.Inputs, root.Mark = ca("3"), ""
	if last, _ := root.apply(t); believed(t, oldCert, oldKey, last) == nil || believed(t, cert, key, last) != nil {
		t.Error("after two turns the first authority is believed, or the second is not")
	}
}

func TestWhatEndsSoonIsMadeAnew(t *testing.T) {
	_, signer := thing(ca("")).apply(t)
	leaf := thing(server(signer))
	before, _ := leaf.apply(t)
	leaf.now = time.Now().Add(70 * 24 * time.Hour) // of 90 days
	if o, err := leaf.by().Observe(t.Context(), leaf.Resource); err != nil || len(o.Drift) != 1 || o.Drift[0].Path != "ends" {
		t.Errorf("it is seen as %+v, %v", o, err)
	}
	if c := leaf.plan(t); c.Action != executor.Update || !strings.Contains(c.Why, "it ends on") {
		t.Errorf("the plan is %+v", c)
	}
	if after, _ := leaf.apply(t); after == before {
		t.Error("it is still the same")
	}
}

func TestRefuses(t *testing.T) {
	_, signer := thing(ca("")).apply(t)
	for reason, inputs := range map[string]map[string]any{
		"a server that nobody signs for":       {"use": "server", "name": "x", "hosts": []any{"x"}},
		"an authority that somebody signs for": {"use": "authority", "name": "x", "signer": executor.NewSecret(signer)},
		"something that does not sign":         {"use": "client", "name": "x", "signer": executor.NewSecret("x")},
		"a client with hosts":                  {"use": "client", "name": "x", "hosts": []any{"x"}, "signer": executor.NewSecret(signer)},
		"a moment's life":                      {"use": "client", "name": "x", "lifetime": "1s", "signer": executor.NewSecret(signer)},
		"a secret that everybody reads":        {"use": "client", "name": executor.NewSecret("x"), "signer": executor.NewSecret(signer)},
	} {
		if _, err := certificate.New().Apply(t.Context(), thing(inputs).Resource); !fault.Is(err, fault.Invalid) || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s: %v", reason, err)
		}
	}
	k := thing(ca(""))
	k.fail = errors.New("the ledger is away")
	if res, err := k.by().Apply(t.Context(), k.Resource); !errors.Is(err, k.fail) || res.Outputs != nil {
		t.Errorf("what cannot be kept is told: %v, %v", res, err)
	}
	k = thing(ca("1"))
	k.apply(t)
	k.Inputs, k.Mark = ca("2"), "another"
	if _, err := k.by().Apply(t.Context(), k.Resource); fault.Reason(err) != "moved" {
		t.Errorf("a plan of something else holds: %v", err)
	}
	k = thing(ca(""))
	before, _ := k.apply(t)
	k.Mark, k.now = "another", time.Now().AddDate(50, 0, 0)
	if after, _ := k.apply(t); after == before {
		t.Error("one that has ended since the plan stays as it is")
	}
}
