package kubeapi

import (
	"context"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
	"github.com/droverhq/drover/internal/manifest"
)

// Access says how a home is reached.
type Access struct {
	// Name of the home. What the ledger has of it is kept under this name, so it must
	// not be given to another Kubernetes API later.
	Name string
	// Kubeconfig to reach it with; nil: the account of the pod that the program runs
	// in. As for clusters it may name neither files nor programs.
	Kubeconfig []byte
	// Renew is how long a watch lives; default as in package manifest.
	Renew time.Duration
	// Wrap sees every request, for tests; nil: nobody does.
	Wrap func(http.RoundTripper) http.RoundTripper
	Now  func() time.Time // default time.Now
}

// Home is a Kubernetes API in whose namespaces people write down what they want.
// Methods may be called concurrently.
type Home struct {
	Access
	scheme  *runtime.Scheme
	cluster *manifest.Client
	rest    *rest.Config
	kube    client.Client // of the API itself: nothing is cached
	recent  recent
	events  events
}

// Open prepares to talk to a home; nothing is sent yet.
func Open(a Access) (*Home, error) {
	if a.Name == "" {
		return nil, fault.New(fault.Invalid, "a Kubernetes API whose custom resources are to be followed needs a name")
	}
	if a.Now == nil {
		a.Now = time.Now
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	cluster, err := manifest.Open(manifest.Config{Kubeconfig: a.Kubeconfig, Wrap: a.Wrap, Renew: a.Renew})
	if err != nil {
		return nil, err
	}
	reach := cluster.REST()
	// Thousands of statuses may change at once, and the server has fair queues.
	reach.QPS, reach.Burst = -1, 0
	kube, err := client.New(reach, client.Options{HTTPClient: cluster.HTTP(), Mapper: cluster.Mapper(), Scheme: scheme})
	if err != nil {
		return nil, fault.New(fault.Invalid, "the kubeconfig cannot be used: %w", err)
	}
	return &Home{Access: a, scheme: scheme, cluster: cluster, rest: reach, kube: kube}, nil
}

// Identity is the UID of the API's first namespace, which no other API has: a
// kubeconfig that has come to mean another cluster can be told by it.
func (h *Home) Identity(ctx context.Context) (string, error) {
	var ns metav1.PartialObjectMetadata
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := h.kube.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, &ns); err != nil {
		return "", h.explain(err)
	}
	return string(ns.UID), nil
}

// explain gives an error of the API a kind. One that says that there is no such
// kind of thing, as while definitions are being replaced, is not a NotFound: it
// tells nothing about the thing.
func (h *Home) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case missing(err):
		return fault.New(fault.NotFound, "the Kubernetes API %q does not have it: %w", h.Name, err)
	case apierrors.IsConflict(err):
		return fault.New(fault.Conflict, "somebody else was faster at the Kubernetes API %q: %w", h.Name, err)
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err):
		return fault.New(fault.Internal, "the Kubernetes API %q does not take what it was sent: %w", h.Name, err)
	}
	return fault.New(fault.Unavailable, "the Kubernetes API %q does not answer: %w", h.Name, err)
}

// missing tells that an object is not there, by an API that serves its kind.
func missing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
