package kubeapi_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"
	admission "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/kubeapi"
)

func authorityPEM(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestWebhookAt(t *testing.T) {
	ca := authorityPEM(t)
	for _, c := range []struct {
		reason, at string
		ca         []byte
		want       string // URL; empty: it is refused
	}{
		{"with an authority", "https://drover.example.org:8443", ca, "https://drover.example.org:8443" + kubeapi.AdmissionPath},
		{"below a path", "https://example.org/drover/", ca, "https://example.org/drover" + kubeapi.AdmissionPath},
		{"with one that the API trusts", "https://drover.example.org", nil, "https://drover.example.org" + kubeapi.AdmissionPath},
		{"no API calls without TLS", "http://drover.example.org", ca, ""},
		{"no host", "https://", ca, ""},
		{"a query", "https://a?b=c", ca, ""},
		{"a file without a certificate", "https://a", []byte("none"), ""},
	} {
		t.Run(c.reason, func(t *testing.T) {
			out, err := kubeapi.WebhookAt(c.at, c.ca)
			if c.want == "" {
				if !fault.Is(err, fault.Invalid) {
					t.Fatalf("got %s, %v", out, err)
				}
				return
			}
			var got admission.ValidatingWebhookConfiguration
			if err == nil {
				err = yaml.UnmarshalStrict(out, &got)
			}
			if err != nil || len(got.Webhooks) != 1 {
				t.Fatalf("%v: %s", err, out)
			}
			hook := got.Webhooks[0]
			if d := cmp.Diff(admission.WebhookClientConfig{URL: &c.want, CABundle: c.ca}, hook.ClientConfig); d != "" {
				t.Error(d)
			}
			if *hook.FailurePolicy != admission.Ignore {
				t.Errorf("a server that is away stops sync runs: %s", *hook.FailurePolicy)
			}
		})
	}
}
