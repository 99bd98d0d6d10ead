package argocd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

// mount keeps the files that the repository server reads as the ConfigMaps are,
// which is a kubelet's work. It ends with the context.
func (s *Server) mount(ctx context.Context) {
	client, err := kubernetes.NewForConfig(s.Cluster.Admin())
	if err != nil {
		return
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(s.Namespace))
	lay := func(object any) {
		if m, is := object.(*corev1.ConfigMap); is {
			s.lay(m) //nolint:errcheck // who waits for the file tells it
		}
	}
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: lay, UpdateFunc: func(_, now any) { lay(now) }}); err != nil {
		return
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
}

// directory is where a ConfigMap is seen; empty: nowhere.
func (s *Server) directory(name string) string {
	switch name {
	case hostKeys:
		return s.file("ssh")
	case authorities:
		return s.file("tls")
	}
	return ""
}

func (s *Server) lay(m *corev1.ConfigMap) error {
	dir := s.directory(m.Name)
	if dir == "" {
		return nil
	}
	var failed error
	for name, text := range m.Data {
		// A reader sees the old file or the new one.
		failed = errors.Join(failed, os.WriteFile(filepath.Join(dir, ".new"), []byte(text), 0o600),
			os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, name)))
	}
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if _, is := m.Data[f.Name()]; !is {
			failed = errors.Join(failed, os.Remove(filepath.Join(dir, f.Name())))
		}
	}
	return errors.Join(failed, err)
}

// TrustHost adds a line of a known_hosts file, and waits until the repository
// server would see it.
func (s *Server) TrustHost(t testing.TB, line string) {
	t.Helper()
	s.set(t, hostKeys, "ssh_known_hosts", func(was string) string {
		return strings.TrimSuffix(was, "\n") + "\n" + strings.TrimSpace(line) + "\n"
	})
}

// TrustAuthority has a certificate (PEM) trusted for a host, and waits until the
// repository server would see it.
func (s *Server) TrustAuthority(t testing.TB, host string, certificate []byte) {
	t.Helper()
	s.set(t, authorities, host, func(string) string { return string(certificate) })
}

func (s *Server) set(t testing.TB, name, key string, change func(was string) string) {
	t.Helper()
	maps := s.Cluster.Client(t).CoreV1().ConfigMaps(s.Namespace)
	want := ""
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		m, err := maps.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		want = change(m.Data[key])
		m.Data[key] = want
		_, err = maps.Update(t.Context(), m, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatalf("cannot change %s: %v", name, err)
	}
	for end := time.Now().Add(patience); ; {
		got, err := os.ReadFile(filepath.Join(s.directory(name), key))
		if err == nil && string(got) == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not become a file: %v", name, err)
		}
		time.Sleep(10 * time.Millisecond) // files offer no signal to wait for
	}
}
