package kubernetes

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
)

// Namespace makes a namespace of a new name, which is deleted with the test.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	client := c.Client(t)
	ns, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "t-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("cannot create a namespace: %v", err)
	}
	t.Cleanup(func() {
		// Best effort: the test may have stopped the server.
		ctx, cancel := context.WithTimeout(context.Background(), patience/18)
		defer cancel()
		client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}) //nolint:errcheck
	})
	return ns.Name
}

// Node adds a node that is ready and has this much to give ("4", "16Gi"), or
// changes what an existing one has.
func (c *Cluster) Node(t testing.TB, name, cpu, memory string) {
	t.Helper()
	nodes := c.Client(t).CoreV1().Nodes()
	if _, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatalf("cannot create node %s: %v", name, err)
	}
	has := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110"),
	}
	update(t, "node "+name, func() error {
		n, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(n.Spec.Taints) > 0 { // a new node is tainted as not ready, which a controller would undo
			n.Spec.Taints = nil
			if n, err = nodes.Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		n.Status.Capacity, n.Status.Allocatable = has, has
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
		_, err = nodes.UpdateStatus(t.Context(), n, metav1.UpdateOptions{})
		return err
	})
}

// MakeReady gives a Deployment the status of one whose replicas all run as it
// wants them now.
func (c *Cluster) MakeReady(t testing.TB, namespace, name string) {
	t.Helper()
	c.deployment(t, namespace, name, func(d *appsv1.Deployment) {
		n := int32(1)
		if d.Spec.Replicas != nil {
			n = *d.Spec.Replicas
		}
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		}
	})
}

// MakeFail gives a Deployment the status of one that gave up, with the message.
func (c *Cluster) MakeFail(t testing.TB, namespace, name, message string) {
	t.Helper()
	c.deployment(t, namespace, name, func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable"},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: message},
			},
		}
	})
}

func (c *Cluster) deployment(t testing.TB, namespace, name string, change func(*appsv1.Deployment)) {
	t.Helper()
	all := c.Client(t).AppsV1().Deployments(namespace)
	update(t, "deployment "+namespace+"/"+name, func() error {
		d, err := all.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(d)
		_, err = all.UpdateStatus(t.Context(), d, metav1.UpdateOptions{})
		return err
	})
}

// RunPod gives a Pod the status of one that runs and is ready.
func (c *Cluster) RunPod(t testing.TB, namespace, name string) {
	t.Helper()
	all := c.Client(t).CoreV1().Pods(namespace)
	update(t, "pod "+namespace+"/"+name, func() error {
		p, err := all.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue},
		}
		_, err = all.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		return err
	})
}

// update tries again when somebody else wrote in between.
func update(t testing.TB, what string, change func() error) {
	t.Helper()
	often := wait.Backoff{Steps: 30, Duration: 10 * time.Millisecond, Factor: 1.2, Jitter: 0.2}
	if err := retry.RetryOnConflict(often, change); err != nil {
		t.Fatalf("cannot set the status of %s: %v", what, err)
	}
}
