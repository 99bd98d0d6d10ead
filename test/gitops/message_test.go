//go:build e2e

package gitops_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/test/kubernetes"
	"github.com/droverhq/drover/test/rabbitmq"
)

// A deployment is synced by a message: its sender hears that it is accepted and, once
// the commit is there, done. The same message again syncs nothing.
func TestSyncByMessage(t *testing.T) {
	broker := rabbitmq.Start(t)
	w := prepare(t, kubernetes.Start(t, kubernetes.WithControllers()), "--bus", "rabbitmq", "--bus-options", "url="+broker.URL)
	w.run(t, "create", "cluster", "plain", "--provider", "metal", "--region", "south")
	w.plain = w.join(t, "plain", w.k.Kubeconfig(), "--runtime", "kubernetes")
	ns := w.namespace(t)
	repo := w.git.Repo(t, ns)
	repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "1")})
	w.run(t, "deploy", "create", "shop", "--repo", repo.URL, "--path", "k8s", "--revision", "main", "--to", "plain/"+ns, "--wait")
	w.value(t, ns, "a", "1")
	w.run(t, "deploy", "update", "shop", "--manual", "--wait")
	second := repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "2")})
	w.run(t, "deploy", "refresh", "shop")
	until(t, "it to be out of sync", func() bool { return w.state(t, "shop").Sync == "OutOfSync" })

	ch := rabbitmq.Channel(t, broker.URL)
	q, err := ch.QueueDeclare("", false, false, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	answers, err := ch.Consume(q.Name, "", true, true, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := w.s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	send := func() {
		t.Helper()
		body := `{"specversion":"1.0","id":"sync-1","source":"/tests","type":"dev.drover.command.deployment.sync","subject":"shop","data":{}}`
		m := amqp.Publishing{ReplyTo: q.Name, Body: []byte(body), DeliveryMode: amqp.Persistent, Headers: amqp.Table{"authorization": "Bearer " + admin}}
		if err := ch.PublishWithContext(t.Context(), "", "drover.commands", false, false, m); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(word string) (object string) {
		t.Helper()
		for deadline := time.After(patience); ; {
			select {
			case d := <-answers:
				var e struct {
					Type string
					Data struct{ Phase, Object, Reason string }
				}
				if err := json.Unmarshal(d.Body, &e); err != nil {
					t.Fatal(err)
				}
				if e.Data.Phase == "rejected" || e.Data.Phase == "failed" {
					t.Fatalf("%s: %+v", e.Type, e.Data)
				}
				if strings.HasSuffix(e.Type, "."+word) {
					return e.Data.Object
				}
			case <-deadline:
				t.Fatalf("nobody says %s", word)
			}
		}
	}
	runs := func() string { t.Helper(); return w.run(t, "get", "syncruns", "-o", "json") }
	send()
	accepted, done := hear("accepted"), hear("done")
	if accepted == "" || accepted != done {
		t.Errorf("accepted is %q, done %q", accepted, done)
	}
	w.value(t, ns, "a", "2")
	until(t, "the second commit to be there", func() bool { s := w.state(t, "shop"); return s.Sync == "Synced" && s.Revision == second })
	repo.Commit(t, "main", files{"k8s/a.yaml": configMap("a", "3")})
	w.run(t, "deploy", "refresh", "shop")
	until(t, "it to be out of sync again", func() bool { return w.state(t, "shop").Sync == "OutOfSync" })
	before := count(t, runs())
	send()
	if again := hear("done"); again != done {
		t.Errorf("the second time it is %q", again)
	}
	if n := count(t, runs()); n != before {
		t.Errorf("there were %d runs, and are %d since it came again", before, n)
	}
	w.value(t, ns, "a", "2")
}

func count(t *testing.T, page string) int {
	t.Helper()
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal([]byte(page), &list); err != nil {
		t.Fatal(fmt.Errorf("%w: %s", err, page))
	}
	return len(list.Items)
}
