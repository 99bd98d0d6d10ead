//go:build e2e

package kubeapi_test

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/kubeapi"
	"github.com/droverhq/drover/internal/kubeapi/v1alpha1"
)

// lines is what was logged.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func secret(ns, name, typed, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Type: corev1.SecretType(typed),
		StringData: map[string]string{"password": value, "kubeconfig": value},
	}
}

func TestSecretsComeChangeAndGo(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	r, log := newRecorder(), &lines{}
	w.follow(t, kubeapi.Config{Service: r, Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	cred := &v1alpha1.GitOpsDeploymentRepositoryCredential{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "git"},
		Spec:       v1alpha1.GitOpsDeploymentRepositoryCredentialSpec{Repository: "https://git.example.com/shop.git", Secret: "git"},
	}
	env := &v1alpha1.GitOpsDeploymentManagedEnvironment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prod"},
		Spec:       v1alpha1.GitOpsDeploymentManagedEnvironmentSpec{APIURL: "https://api.example.com", ClusterCredentialsSecret: "prod"},
	}
	w.create(t, cred)
	w.create(t, env)
	for _, c := range []struct {
		reason string
		told   func(call) bool
		name   string
		typed  string
	}{
		{"the credential", of(cred), "git", v1alpha1.RepositorySecret},
		{"the environment", of(env), "prod", v1alpha1.EnvironmentSecret},
	} {
		t.Run(c.reason, func(t *testing.T) {
			has := func(value string) func(call) bool {
				return func(got call) bool {
					return c.told(got) && got.secret != nil && string(got.secret.Data["password"]) == value && got.secret.Type == c.typed
				}
			}
			before := func() int { return len(r.all(c.told)) }
			r.await(t, "it without a Secret", func(got call) bool { return c.told(got) && got.secret == nil })
			s := secret(ns, c.name, c.typed, "hunter1")
			w.create(t, s)
			r.await(t, "the Secret that came", has("hunter1"))
			s.StringData = map[string]string{"password": "hunter2"}
			if err := w.Update(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			r.await(t, "the Secret that changed", has("hunter2"))
			n := before()
			w.delete(t, s)
			r.await(t, "the Secret that went", func(call) bool {
				all := r.calls // the recorder is locked
				seen := 0
				for _, got := range all {
					if c.told(got) {
						if seen++; seen > n && got.secret == nil {
							return true
						}
					}
				}
				return false
			})
			w.create(t, secret(ns, c.name, c.typed, "hunter3"))
			r.await(t, "the Secret that came back", has("hunter3"))
		})
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	if bytes.Contains(log.Bytes(), []byte("hunter")) {
		t.Errorf("a Secret is in the log: %s", log.String())
	}
}

// What a Secret of another type holds is not ours to read.
func TestSecretOfAnotherType(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	w.create(t, secret(ns, "git", "Opaque", "hunter1"))
	cred := &v1alpha1.GitOpsDeploymentRepositoryCredential{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "git"},
		Spec:       v1alpha1.GitOpsDeploymentRepositoryCredentialSpec{Repository: "https://git.example.com/shop.git", Secret: "git"},
	}
	w.create(t, cred)
	r := newRecorder()
	w.follow(t, kubeapi.Config{Service: r})
	got := r.await(t, "it", of(cred))
	if got.secret == nil || got.secret.Type != "Opaque" || len(got.secret.Data) != 0 {
		t.Errorf("told %+v", got.secret)
	}
	w.delete(t, secret(ns, "git", "", ""))
	w.create(t, secret(ns, "git", v1alpha1.RepositorySecret, "hunter2"))
	r.await(t, "one of the right type", func(c call) bool { return of(cred)(c) && c.secret != nil && len(c.secret.Data) > 0 })
}

// No watch tells of one of another type that comes later.
func TestSecretOfAnotherTypeThatComesLater(t *testing.T) {
	w := enter(t)
	ns := w.Namespace(t)
	r := newRecorder()
	w.follow(t, kubeapi.Config{Service: r, Seek: 50 * time.Millisecond})
	cred := &v1alpha1.GitOpsDeploymentRepositoryCredential{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "git"},
		Spec:       v1alpha1.GitOpsDeploymentRepositoryCredentialSpec{Repository: "https://git.example.com/shop.git", Secret: "git"},
	}
	env := &v1alpha1.GitOpsDeploymentManagedEnvironment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "prod"},
		Spec:       v1alpha1.GitOpsDeploymentManagedEnvironmentSpec{APIURL: "https://api.example.com", ClusterCredentialsSecret: "git"},
	}
	for _, o := range []client.Object{cred, env} {
		w.create(t, o)
		r.await(t, o.GetName()+" without a Secret", func(c call) bool { return of(o)(c) && c.secret == nil })
	}
	w.create(t, secret(ns, "git", "Opaque", "hunter1"))
	for _, o := range []client.Object{cred, env} {
		r.await(t, o.GetName()+" with a wrong one", func(c call) bool { return of(o)(c) && c.secret != nil && c.secret.Type == "Opaque" })
	}
}
