package app

import (
	"cmp"
	"context"
	"maps"
	"os/exec"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/connection"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/manifest"
)

// kubernetesSite is a cluster: the one of a context, of an address, or microk8s on
// this machine.
func (b *bootstrap) kubernetesSite() (metaSite, error) {
	kubeconfig, err := b.kubeconfig()
	if err != nil {
		return metaSite{}, err
	}
	public, err := publicParameters(b.PublicHost, b.ServiceType)
	if err != nil {
		return metaSite{}, err
	}
	cluster, err := manifest.Open(manifest.Config{Kubeconfig: kubeconfig})
	if err != nil {
		return metaSite{}, err
	}
	certificates, err := hasCertManager(cluster.Mapper())
	if err != nil {
		return metaSite{}, err
	}
	where := metaSite{kind: "kubernetes", cluster: cluster, parameters: map[string]any{
		"namespace": b.Namespace, "image": cmp.Or(b.Image, "droverhq/drover:"+cmp.Or(b.Version, "latest")), "cert_manager": certificates,
	}, once: []string{"cert_manager"}}
	maps.Copy(where.parameters, public)
	where.connections = []connection.Connection{{Name: "default", Executor: "kubernetes", Options: map[string]string{"kubeconfig": string(kubeconfig)}}}
	room := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.Namespace, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}}}
	where.ready = func(ctx context.Context) error { // a plan asks for what would be in it
		if err := cluster.Kube().Create(ctx, room); err != nil && !apierrors.IsAlreadyExists(err) {
			return fault.New(fault.Unavailable, "the namespace %s cannot be made: %w", b.Namespace, err)
		}
		return nil
	}
	where.absent = func(ctx context.Context) bool {
		return apierrors.IsNotFound(cluster.Kube().Get(ctx, client.ObjectKeyFromObject(room), room.DeepCopy()))
	}
	return where, nil
}

// publicParameters are those of the way in from outside; none where nobody asks for one,
// so that a template that knows none is as good.
func publicParameters(host, service string) (map[string]any, error) {
	out := map[string]any{}
	name, text, given := strings.Cut(host, ":")
	port, err := strconv.ParseUint(text, 10, 16)
	if given && (err != nil || port == 0 || name == "") {
		return nil, fault.New(fault.Invalid, "--public-host %.255s: want NAME or NAME:PORT", host)
	}
	if name != "" {
		out["public_host"] = name
	}
	if given {
		out["public_port"] = int64(port)
	}
	switch service {
	case "", "ClusterIP":
		return out, nil
	case "LoadBalancer":
		if name == "" {
			return nil, fault.New(fault.Invalid, "--service-type LoadBalancer: say by which name others will come, with --public-host NAME: it is in the certificate")
		}
	case "NodePort":
		if !given {
			return nil, fault.New(fault.Invalid, "--service-type NodePort: say which port of the nodes it is, with --public-host NAME:PORT (30000 to 32767, unless the cluster has others)")
		}
	default:
		return nil, fault.New(fault.Invalid, "--service-type %.64s: want ClusterIP, LoadBalancer or NodePort", service)
	}
	out["service_type"] = service
	return out, nil
}

// hasCertManager asks the cluster. Only its word that there is none counts as that: what
// cannot be asked must not end up without certificates.
func hasCertManager(of apimeta.RESTMapper) (bool, error) {
	_, err := of.RESTMapping(schema.GroupKind{Group: "cert-manager.io", Kind: "Certificate"})
	if err != nil && !apimeta.IsNoMatchError(err) {
		return false, fault.New(fault.Unavailable, "the cluster does not tell whether it has cert-manager: %w", err)
	}
	return err == nil, nil
}

// microk8sTimeout bounds a microk8s that does not answer, as while it is being upgraded.
const microk8sTimeout = 30 * time.Second

// microk8s asks for its kubeconfig.
func microk8s(within time.Duration) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	cmd := exec.CommandContext(ctx, "microk8s", "config")
	cmd.WaitDelay = time.Second // what it has started may keep its output open
	out, err := cmd.Output()
	switch {
	case ctx.Err() != nil:
		return nil, fault.New(fault.Unavailable, "`microk8s config` has said nothing within %s: look at `microk8s status`, and run the same command again", within)
	case err != nil:
		return nil, fault.New(fault.Invalid, "microk8s is not on this machine, or may not be asked: `microk8s config` has failed")
	}
	return out, nil
}

// kubeconfig is that of the location alone, with everything in it.
func (b *bootstrap) kubeconfig() ([]byte, error) {
	var config *api.Config
	if b.Location == "microk8s" && b.Kubeconfig == "" {
		out, err := microk8s(microk8sTimeout)
		if err != nil {
			return nil, err
		}
		if config, err = clientcmd.Load(out); err != nil {
			return nil, fault.New(fault.Invalid, "what `microk8s config` says is no kubeconfig")
		}
	} else {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = b.Kubeconfig
		var err error
		if config, err = rules.Load(); err != nil {
			return nil, fault.New(fault.Invalid, "the kubeconfig cannot be read: name another with --kubeconfig")
		}
		if config.CurrentContext, err = b.context(config); err != nil {
			return nil, err
		}
	}
	if err := api.MinifyConfig(config); err != nil {
		return nil, fault.New(fault.Invalid, "the kubeconfig has no whole context %q", config.CurrentContext)
	}
	if err := api.FlattenConfig(config); err != nil {
		return nil, fault.New(fault.Invalid, "a file that the kubeconfig names cannot be read")
	}
	return clientcmd.Write(*config)
}

// context is the one that a location names: by itself, or by the address of its
// cluster.
func (b *bootstrap) context(config *api.Config) (string, error) {
	if _, ok := config.Contexts[b.Location]; ok {
		return b.Location, nil
	}
	for name, c := range config.Contexts {
		if at := config.Clusters[c.Cluster]; at != nil && strings.TrimSuffix(at.Server, "/") == strings.TrimSuffix(b.Location, "/") {
			return name, nil
		}
	}
	return "", fault.New(fault.NotFound, "--location %s: the kubeconfig has no such context, and no cluster of that address", b.Location)
}
