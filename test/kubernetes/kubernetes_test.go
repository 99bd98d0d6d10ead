//go:build e2e

package kubernetes_test

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/droverhq/drover/test/kubernetes"
)

func TestClustersAreApart(t *testing.T) {
	one, two := kubernetes.Start(t), kubernetes.Start(t)
	ns := one.Namespace(t)
	if _, err := two.Client(t).CoreV1().Namespaces().Get(t.Context(), ns, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the other cluster has it too: %v", err)
	}
	stranger := two.Admin()
	stranger.Host = one.URL
	client, err := clientset.NewForConfig(stranger)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("the key of one cluster opens the other")
	}
	version, err := one.Client(t).Discovery().ServerVersion()
	if err != nil || !strings.HasPrefix(version.GitVersion, "v1.37.") {
		t.Errorf("version %v, %v", version, err)
	}
}

func TestControllersFinishDeletions(t *testing.T) {
	c := kubernetes.Shared(t)
	if again := kubernetes.Shared(t); again != c {
		t.Fatal("a second cluster was started")
	}
	client, ns := c.Client(t), c.Namespace(t)
	if _, err := client.CoreV1().ConfigMaps(ns).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + ns})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if err := client.CoreV1().Namespaces().Delete(t.Context(), ns, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for e := range w.ResultChan() {
		if e.Type == "DELETED" {
			return
		}
	}
	t.Error("the namespace is still there")
}

func TestRightsAreChecked(t *testing.T) {
	c := kubernetes.Shared(t)
	config, err := clientcmd.RESTConfigFromKubeConfig(c.KubeconfigOf(t, "somebody", "people"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientset.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("somebody reads secrets: %v", err)
	}
	config, err = clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if client, err = clientset.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the administrator does not: %v", err)
	}
}

func TestServersStopAndComeBack(t *testing.T) {
	c := kubernetes.Start(t)
	ns := c.Namespace(t)
	get := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := c.Client(t).CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{})
		return err
	}
	for _, fault := range []struct {
		reason     string
		fail, heal func() error
	}{
		{"the API server is stopped", c.API.Stop, c.API.Start},
		{"the API server is killed", c.API.Kill, c.API.Start},
		{"the API server is paused", c.API.Pause, c.API.Resume},
		{"etcd is paused", c.Etcd.Pause, c.Etcd.Resume},
		{"etcd is killed", c.Etcd.Kill, c.Etcd.Start},
	} {
		if err := fault.fail(); err != nil {
			t.Fatalf("%s: %v", fault.reason, err)
		}
		if err := get(2 * time.Second); err == nil {
			t.Errorf("%s, and it answers", fault.reason)
		}
		if err := fault.heal(); err != nil {
			t.Fatalf("after %s: %v", fault.reason, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		if err := c.Ready(ctx); err != nil {
			t.Fatalf("after %s: %v", fault.reason, err)
		}
		cancel()
		if err := get(time.Minute); err != nil {
			t.Errorf("after %s: %v", fault.reason, err)
		}
	}
}

func TestTheKubeletIsPlayed(t *testing.T) {
	c := kubernetes.Shared(t)
	client, ns := c.Client(t), c.Namespace(t)
	c.Node(t, "n1", "4", "16Gi")
	c.Node(t, "n1", "8", "16Gi")
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil || node.Status.Allocatable.Cpu().String() != "8" {
		t.Errorf("node: %v, %v", node, err)
	}
	labels := map[string]string{"app": "web"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
	two := int32(2)
	if _, err := client.AppsV1().Deployments(ns).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: pod},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.MakeReady(t, ns, "web")
	d, err := client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || d.Status.AvailableReplicas != 2 || d.Status.ObservedGeneration != d.Generation {
		t.Errorf("deployment: %+v, %v", d.Status, err)
	}
	c.MakeFail(t, ns, "web", "no such image")
	d, err = client.AppsV1().Deployments(ns).Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || d.Status.AvailableReplicas != 0 || d.Status.Conditions[1].Message != "no such image" {
		t.Errorf("deployment: %+v, %v", d.Status, err)
	}
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(50 * time.Millisecond) { // a Pod needs an account, which a controller makes
		if _, err := client.CoreV1().ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{}); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatalf("the namespace has no account: %v", err)
		}
	}
	if _, err := client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: pod.Spec}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.RunPod(t, ns, "p")
	p, err := client.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{})
	if err != nil || p.Status.Phase != corev1.PodRunning {
		t.Errorf("pod: %+v, %v", p.Status, err)
	}
}
