package kubernetes

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// kubeletClient is as whom the API server asks kubelets.
const kubeletClient = "kube-apiserver-kubelet-client"

// WithWorkloads adds, besides the other controllers, those that make pods of
// Deployments and StatefulSets and tell how these are. What nodes do is up to the
// test: Bind, RunPod and Forward.
func WithWorkloads() Option {
	return func(o *options) { o.controllers, o.workloads = true, true }
}

// Bind has a pod be on a node, as a scheduler does.
func (c *Cluster) Bind(t testing.TB, namespace, pod, node string) {
	t.Helper()
	err := c.Client(t).CoreV1().Pods(namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("pod %s cannot be on node %s: %v", pod, node, err)
	}
}

// Forward stands for the part of a node's kubelet that leads into its pods: an HTTPS
// server on loopback that the API server, and nobody else, asks. Where a port of a pod
// really is, to says; its error is told to whoever wanted to go there.
func (c *Cluster) Forward(t testing.TB, node string, to Forwarder) {
	t.Helper()
	if c.ca == nil {
		t.Skip("somebody else's cluster has nodes of its own")
	}
	cert, key, err := c.ca.server()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	callers := x509.NewCertPool()
	callers.AddCert(c.ca.cert)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		if len(parts) != 3 || parts[0] != "portForward" || r.TLS.PeerCertificates[0].Subject.CommonName != kubeletClient {
			http.Error(w, "this kubelet leads into pods, and the API server alone", http.StatusForbidden)
			return
		}
		to.Lead(w, r, parts[1], parts[2])
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: callers, ClientAuth: tls.RequireAndVerifyClientCert}
	s.StartTLS()
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(at.Port())
	nodes := c.Client(t).CoreV1().Nodes()
	update(t, "node "+node, func() error {
		n, err := nodes.Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: at.Hostname()}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
		_, err = nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
		return err
	})
}

// Forwarder tells where a port of a pod really is.
type Forwarder func(namespace, pod string, port int) (address string, err error)

// Lead leads whoever asks into a pod. It speaks SPDY, as kubelets do: a connection to
// a port is two streams of one number, one for what is said, another for why it could
// not be.
func (to Forwarder) Lead(w http.ResponseWriter, r *http.Request, namespace, pod string) {
	if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	streams, ended := make(chan httpstream.Stream), make(chan struct{})
	defer close(ended)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		go func() { // handed on at once; it must not keep back the others
			select {
			case streams <- s:
			case <-ended:
			}
		}()
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	waiting := map[string]httpstream.Stream{}
	for {
		var s httpstream.Stream
		select {
		case <-conn.CloseChan():
			return
		case s = <-streams:
		}
		id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
		other, both := waiting[id]
		if !both {
			waiting[id] = s
			continue
		}
		delete(waiting, id)
		if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			s, other = other, s
		}
		go func() { // one per connection; ends with it
			if err := to.pipe(namespace, pod, s); err != nil {
				fmt.Fprint(other, err)
			}
			s.Close()
			other.Close()
			conn.RemoveStreams(s, other)
		}()
	}
}

// pipe carries what is said both ways, until the server has ended.
func (to Forwarder) pipe(namespace, pod string, data httpstream.Stream) error {
	port, err := strconv.Atoi(data.Headers().Get(corev1.PortHeader))
	if err != nil {
		return err
	}
	address, err := to(namespace, pod, port)
	if err != nil {
		return err
	}
	server, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer server.Close()
	go func() { // ends with the stream
		_, _ = io.Copy(server, data)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(data, server)
	return nil
}
