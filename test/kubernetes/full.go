package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fill writes into a namespace until etcd takes no more; the cluster was started
// WithQuota.
func (c *Cluster) Fill(t testing.TB, namespace string) {
	t.Helper()
	all, load := c.Client(t).CoreV1().ConfigMaps(namespace), strings.Repeat("x", 500<<10)
	for range 2000 {
		_, err := all.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "fill-"}, Data: map[string]string{"x": load}}, metav1.CreateOptions{})
		if err != nil && strings.Contains(err.Error(), "database space exceeded") {
			return
		}
		if apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) {
			continue // of a machine that is busy
		}
		if err != nil {
			t.Fatalf("cannot fill etcd: %v", err)
		}
	}
	t.Fatal("etcd does not become full")
}

// Reclaim does what an administrator does about a full etcd: it takes away what
// Fill wrote, past the API server, gives the room back, and lifts the alarm.
func (c *Cluster) Reclaim(t testing.TB, namespace string) {
	t.Helper()
	from := []byte("/registry/configmaps/" + namespace + "/fill-")
	end := append(bytes.Clone(from[:len(from)-1]), from[len(from)-1]+1)
	removed := c.etcd(t, "kv/deleterange", map[string]any{"key": from, "range_end": end})
	// The API server must have seen that before it is compacted away: etcd tells of a
	// removal with what was removed, and without it the API server drops the news and
	// lists what is not there any more for ever.
	for late := time.Now().Add(3 * time.Minute); ; <-time.After(20 * time.Millisecond) {
		all, err := c.Client(t).CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}) // out of its cache; never nil
		left := 0
		for i := range all.Items {
			if strings.HasPrefix(all.Items[i].Name, "fill-") {
				left++
			}
		}
		if err == nil && left == 0 {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("the API server does not see what was removed: %v", err)
		}
	}
	c.etcd(t, "kv/compaction", map[string]any{"revision": removed.Header.Revision, "physical": true})
	c.etcd(t, "maintenance/defragment", map[string]any{})
	for _, a := range c.etcd(t, "maintenance/alarm", map[string]any{"action": "GET"}).Alarms {
		c.etcd(t, "maintenance/alarm", map[string]any{"action": "DEACTIVATE", "alarm": a.Alarm, "memberID": a.Member})
	}
}

type etcdAnswer struct {
	Header struct {
		Revision string `json:"revision"`
	} `json:"header"`
	Alarms []struct {
		Member string `json:"memberID"`
		Alarm  string `json:"alarm"`
	} `json:"alarms"`
}

func (c *Cluster) etcd(t testing.TB, call string, body any) (out etcdAnswer) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Post(fmt.Sprintf("http://127.0.0.1:%s/v3/%s", c.etcdPort, call), "application/json", bytes.NewReader(data))
	if err != nil {
		t.Fatalf("etcd, %s: %v", call, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("etcd, %s: %d %s %v", call, res.StatusCode, text, err)
	}
	return out
}
