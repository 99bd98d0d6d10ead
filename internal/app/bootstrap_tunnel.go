package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

// tunnel leads from this machine to what is within a cluster: the API server's own
// port-forward, to a pod of the service that an address names. It is encrypted as far
// as the pod's machine, and needs no way in besides the API that everything was made by.
type tunnel struct {
	cluster *manifest.Client
	ctx     context.Context // it ends with this
	lost    context.CancelCauseFunc
	here    map[string]string // address on this machine, by the one in the cluster
}

// dig begins a tunnel. The context that it returns ends when a part of it is lost,
// which is its cause then; end ends the tunnel.
func dig(ctx context.Context, cluster *manifest.Client) (t *tunnel, inside context.Context, end func()) {
	inside, lost := context.WithCancelCause(ctx)
	return &tunnel{cluster: cluster, ctx: inside, lost: lost, here: map[string]string{}}, inside, func() { lost(nil) }
}

// at is the address on this machine that leads to one in the cluster. An address that
// names no service of the cluster is as it was. nil: there is nothing to lead through.
func (t *tunnel) at(address string) (string, error) {
	if t == nil {
		return address, nil
	}
	u, err := url.Parse(address)
	if err != nil { // not quoted: it may have a password in it
		return "", fault.New(fault.Invalid, "an output of the meta template is no address").Because("outputs")
	}
	namespace, name, ok := serviceOf(u.Hostname())
	if !ok {
		return address, nil
	}
	here, open := t.here[u.Host]
	if !open {
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			return "", fault.New(fault.Invalid, "an output of the meta template names no port of the service %s", name).Because("outputs")
		}
		if here, err = t.open(client.ObjectKey{Namespace: namespace, Name: name}, int32(port)); err != nil {
			return "", err
		}
		t.here[u.Host] = here
	}
	u.Host = here
	return u.String(), nil
}

// through dials addresses where they really are; nil: all are what they say.
func through(hosts map[string]string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	if len(hosts) == 0 {
		return nil
	}
	by := &net.Dialer{Timeout: tunnelPatience}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		return by.DialContext(ctx, network, cmp.Or(hosts[addr], addr))
	}
}

// serviceOf tells which service of a cluster a host is: <name>.<namespace>.svc, with
// or without the cluster's domain.
func serviceOf(host string) (namespace, name string, ok bool) {
	parts := strings.Split(host, ".")
	if len(parts) < 3 || parts[2] != "svc" || parts[0] == "" || parts[1] == "" {
		return "", "", false
	}
	return parts[1], parts[0], true
}

// open leads to a port of a service. One goroutine stays, which ends with the tunnel.
func (t *tunnel) open(key client.ObjectKey, port int32) (string, error) {
	pod, inner, err := t.behind(key, port)
	if err != nil {
		return "", err
	}
	dialer, err := t.dialer(pod)
	if err != nil {
		return "", fault.New(fault.Internal, "the pod %s cannot be reached through the Kubernetes API: %w", pod.Name, err)
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	forward, err := portforward.NewOnAddressesForStreamingWithContext(t.ctx, dialer, []string{"127.0.0.1"}, []string{"0:" + strconv.Itoa(int(inner))}, ready, io.Discard, io.Discard)
	if err != nil {
		return "", err
	}
	away := func(err error) error {
		return fault.New(fault.Unavailable, "the pod %s cannot be reached through the Kubernetes API (port-forward): %w; run the same command again: it goes on where it stopped", pod.Name, err).Because("tunnel")
	}
	go func() {
		err := forward.ForwardPorts()
		ended <- err
		if err != nil {
			t.lost(away(err))
		}
	}()
	select {
	case <-t.ctx.Done():
		return "", context.Cause(t.ctx)
	case err := <-ended:
		return "", away(err)
	case <-ready:
	}
	ports, err := forward.GetPorts()
	if err != nil || len(ports) == 0 {
		return "", away(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))), nil
}

// behind is a pod that a service leads to, and the port there.
func (t *tunnel) behind(key client.ObjectKey, port int32) (*corev1.Pod, int32, error) {
	ctx, cancel := context.WithTimeout(t.ctx, tunnelPatience)
	defer cancel()
	var service corev1.Service
	if err := t.cluster.Kube().Get(ctx, key, &service); err != nil {
		return nil, 0, notFound(err, "the service "+key.String())
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 || len(service.Spec.Selector) == 0 {
		return nil, 0, fault.New(fault.Invalid, "the service %s leads to no pods by port %d", key, port).Because("outputs")
	}
	var all corev1.PodList
	if err := t.cluster.Kube().List(ctx, &all, client.InNamespace(key.Namespace), client.MatchingLabels(service.Spec.Selector)); err != nil {
		return nil, 0, notFound(err, "the pods of "+key.String())
	}
	for _, pod := range all.Items {
		if inner := portOf(pod, service.Spec.Ports[i]); inner > 0 && works(pod) {
			return &pod, inner, nil
		}
	}
	return nil, 0, fault.New(fault.Unavailable, "no pod of the service %s is ready; run the same command again when one is: it goes on where it stopped", key).Because("tunnel")
}

// tunnelPatience bounds a question, as everything that is asked of a cluster.
const tunnelPatience = 15 * time.Second

// notFound tells why something of the cluster could not be looked up.
func notFound(err error, what string) error {
	kind := fault.Unavailable
	switch {
	case apierrors.IsForbidden(err):
		kind = fault.Denied
	case apierrors.IsNotFound(err):
		kind = fault.NotFound
	}
	return fault.New(kind, "%s cannot be looked up: %w", what, err).Because("tunnel")
}

func works(pod corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// portOf is where a service's port leads to in a pod; 0: nowhere.
func portOf(pod corev1.Pod, p corev1.ServicePort) int32 {
	if p.TargetPort.Type == intstr.Int {
		return max(p.TargetPort.IntVal, 0)
	}
	for _, c := range pod.Spec.Containers {
		for _, has := range c.Ports {
			if has.Name == p.TargetPort.StrVal {
				return has.ContainerPort
			}
		}
	}
	return 0
}

// dialer speaks WebSocket, as today's API servers do, or SPDY where it must.
func (t *tunnel) dialer(pod *corev1.Pod) (httpstream.Dialer, error) {
	config := t.cluster.REST()
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	api, err := rest.RESTClientForConfigAndClient(config, t.cluster.HTTP())
	if err != nil {
		return nil, err
	}
	at := api.Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	carrier, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	today, err := portforward.NewSPDYOverWebsocketDialerForStreaming(at, config)
	if err != nil {
		return nil, err
	}
	before := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: carrier}, http.MethodPost, at)
	return portforward.NewFallbackDialerForStreaming(today, before, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// answers asks the Drover in the cluster whether it works: nothing is handed over to
// one that does not. Where it has a certificate, what vouches for it is in a secret of
// its namespace.
func (t *tunnel) answers(server, secret string) error {
	if t == nil {
		return nil // it was seen to work when it was started
	}
	here, err := t.at(server)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.ctx, tunnelPatience)
	defer cancel()
	carrier := &http.Transport{DisableKeepAlives: true}
	if u, _ := url.Parse(server); secret != "" && u.Scheme == "https" {
		namespace, _, _ := serviceOf(u.Hostname())
		var s corev1.Secret
		if err := t.cluster.Kube().Get(ctx, client.ObjectKey{Namespace: namespace, Name: secret}, &s); err != nil {
			return notFound(err, "the secret "+secret)
		}
		carrier.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), ServerName: u.Hostname()}
		carrier.TLSClientConfig.RootCAs.AppendCertsFromPEM(s.Data["ca.crt"])
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(here, "/")+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Transport: carrier}).Do(request)
	if err != nil {
		return fault.New(fault.Unavailable, "the new Drover does not answer, and nothing was handed over: %w", err).Because("tunnel")
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fault.New(fault.Unavailable, "the new Drover is not ready (%s), and nothing was handed over", answer.Status).Because("tunnel")
	}
	return nil
}
