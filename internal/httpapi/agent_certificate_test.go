package httpapi_test

import (
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
)

// A certificate that cannot be used is missing in its own instance's document, and
// the others on the cluster are listed as ever: outside agents remove what is not.
func TestOneBadCertificateStopsNobodyElse(t *testing.T) {
	o := newOffice(t)
	o.dataPlane(t, "c1", "account")
	bad, good := o.provisioned(t, "alice", "bad"), o.provisioned(t, "alice", "good")
	host := o.awaitPhase(t, bad, instance.Provisioning).Status.Routes[0].Host
	o.certs.failFor(host, fault.New(fault.Unavailable, "the certificate at broken.pem cannot be used"))
	told := o.told(t, "account", "c1")
	if tls := told[good].Spec.Endpoint.TLS; tls == nil || !strings.HasPrefix(tls.Key, tlsKey) || tls.Cert == "" {
		t.Errorf("the certificate of the other one: %+v", tls)
	}
	got, ok := told[bad]
	if tls := got.Spec.Endpoint.TLS; !ok || tls != nil && (tls.Cert != "" || tls.Key != "") {
		t.Errorf("listed: %v, with %+v", ok, tls)
	}
	if len(got.Spec.ServiceAccounts) != 1 || got.Spec.ServiceAccounts[0].Password == "" {
		t.Errorf("its account went with the certificate: %+v", got.Spec.ServiceAccounts)
	}
	if log := o.logs.String(); !strings.Contains(log, bad) || !strings.Contains(log, "broken.pem") || strings.Contains(log, tlsKey) {
		t.Error("the log does not name the instance and the certificate, or has its key")
	}
	o.certs.fail(nil)
	if tls := o.told(t, "account", "c1")[bad].Spec.Endpoint.TLS; tls == nil || tls.Key != tlsKey+host {
		t.Errorf("after it was mended: %+v", tls)
	}
}
