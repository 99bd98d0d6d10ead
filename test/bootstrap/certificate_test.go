//go:build e2e && linux

package bootstrap_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/droverhq/drover/test/drover"
)

// certManager makes the kinds of cert-manager known, which is all that there is of it:
// its work is the test's.
func (p *plane) certManager() {
	p.t.Helper()
	for kind, plural := range map[string]string{"Issuer": "issuers", "Certificate": "certificates"} {
		definition := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + ".cert-manager.io"},
			"spec": map[string]any{"group": "cert-manager.io", "scope": "Namespaced",
				"names": map[string]any{"kind": kind, "plural": plural, "singular": strings.ToLower(kind)},
				"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
					"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}},
		}}
		if _, err := p.dynamic("apiextensions.k8s.io", "customresourcedefinitions").Create(p.t.Context(), definition, metav1.CreateOptions{}); err != nil {
			p.t.Fatal(err)
		}
		drover.Until(p.t, "the kind "+kind+" is served", func() bool {
			_, err := p.dynamic("cert-manager.io", plural).List(p.t.Context(), metav1.ListOptions{})
			return err == nil
		})
	}
}

func (p *plane) dynamic(group, plural string) dynamic.NamespaceableResourceInterface {
	p.t.Helper()
	all, err := dynamic.NewForConfig(p.c.Admin())
	if err != nil {
		p.t.Fatal(err)
	}
	return all.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: plural})
}

// certify signs what the template asks for, by itself, as the template says. It is for
// loopback too, where the test asks the servers.
func (p *plane) certify() (pair [2][]byte) {
	p.t.Helper()
	asked, err := p.dynamic("cert-manager.io", "certificates").Namespace(p.room).Get(p.t.Context(), "drover", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	names, _, err := unstructured.NestedStringSlice(asked.Object, "spec", "dnsNames")
	if err != nil || len(names) == 0 {
		p.t.Fatalf("the certificate is for %v, %v", names, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<62))
	c := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		p.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	return [2][]byte{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})}
}

// trust puts a certificate where cert-manager would, with what vouches for it.
func (p *plane) trust(pair, by [2][]byte) {
	p.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "drover-tls"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": pair[0], "tls.key": pair[1], "ca.crt": by[0]}}
	_, err := p.kube.CoreV1().Secrets(p.room).Create(p.t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = p.kube.CoreV1().Secrets(p.room).Update(p.t.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
