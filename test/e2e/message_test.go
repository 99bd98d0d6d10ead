package e2e

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
)

// told is what goes over the bus.
type told struct {
	ID, Type, Subject, Sequence, Org string
	Data                             json.RawMessage
}

// answer is what the sender of a command hears.
type answer struct{ Command, Message, Phase, Operation, Object, Code, Reason, Progress string }

// broker is a RabbitMQ, and a control plane with a data plane on it.
type broker struct {
	*rabbitmq.Server
	s       *drover.Server
	line    *amqp.Connection
	channel *amqp.Channel
	answers <-chan amqp.Delivery
	reply   string
	holds   func(answer []byte) error // nil: it is as published
}

func onBroker(t *testing.T, args ...string) *broker {
	t.Helper()
	return aboveBroker(t, rabbitmq.Start(t), nil, args...)
}

// aboveBroker is onBroker with a broker that the control plane reaches by another way.
func aboveBroker(t *testing.T, r *rabbitmq.Server, way func(url string) string, args ...string) *broker {
	t.Helper()
	b := &broker{Server: r}
	url := b.URL
	if way != nil {
		url = way(url)
	}
	b.s = drover.Up(t, append([]string{"--bus", "rabbitmq", "--bus-options", "url=" + url}, args...)...)
	b.holds = b.answerHolds(t)
	b.open(t)
	return b
}

// open is another program's way to the broker.
func (b *broker) open(t *testing.T) {
	t.Helper()
	var err error
	if b.line, err = amqp.Dial(b.URL); err != nil {
		t.Fatal("the broker cannot be reached")
	}
	t.Cleanup(func() { _ = b.line.CloseDeadline(time.Now().Add(time.Second)) })
	if b.channel, err = b.line.Channel(); err != nil {
		t.Fatal(err)
	}
	if err := b.channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	q, err := b.channel.QueueDeclare("", false, false, true, false, nil)
	if err == nil {
		b.reply = q.Name
		b.answers, err = b.channel.Consume(q.Name, "", true, true, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *broker) send(t *testing.T, token string, body []byte) {
	t.Helper()
	b.sendAs(t, token, "", body)
}

// sendAs sends a message that the broker knows by an id, too.
func (b *broker) sendAs(t *testing.T, token, id string, body []byte) {
	t.Helper()
	m := amqp.Publishing{ReplyTo: b.reply, MessageId: id, Body: body, ContentType: "application/cloudevents+json", DeliveryMode: amqp.Persistent}
	if token != "" {
		m.Headers = amqp.Table{"authorization": "Bearer " + token}
	}
	b.ready(t)
	drover.Until(t, "the broker to keep a command", func() bool { // one that has just made a queue may refuse at first
		sure, err := b.channel.PublishWithDeferredConfirm("", "drover.commands", false, false, m)
		if err != nil {
			t.Fatal(err)
		}
		return sure.Wait()
	})
}

// ready waits until the server has made what it needs on the broker.
func (b *broker) ready(t *testing.T) {
	t.Helper()
	drover.Until(t, "the queue of commands and the exchange of events", func() bool {
		look, err := b.line.Channel() // a refusal closes it
		if err != nil {
			t.Fatal(err)
		}
		defer look.Close()
		if _, err = look.QueueDeclarePassive("drover.commands", true, false, false, false, nil); err != nil {
			return false
		}
		return look.ExchangeDeclarePassive("drover.events", "topic", true, false, false, false, nil) == nil
	})
}

func request(id, kind, subject, data string) []byte {
	return fmt.Appendf(nil, `{"specversion":"1.0","id":%q,"source":"/tests","type":"dev.drover.command.%s","subject":%q,"data":%s}`, id, kind, subject, data)
}

// hear waits for an answer to a command that says a word.
func (b *broker) hear(t *testing.T, id, word string) answer {
	t.Helper()
	for deadline := time.After(drover.Patience); ; {
		select {
		case d := <-b.answers:
			var e struct {
				Type string
				Data answer
			}
			if err := json.Unmarshal(d.Body, &e); err != nil {
				t.Fatalf("%v: %s", err, d.Body)
			}
			if err := b.holds(d.Body); err != nil {
				t.Errorf("an answer is not as published: %v\n%s", err, d.Body)
			}
			if e.Data.Message == id && strings.HasSuffix(e.Type, "."+word) {
				return e.Data
			}
			if e.Data.Message == id && (e.Data.Phase == "rejected" || e.Data.Phase == "failed") {
				t.Fatalf("%s: %+v", e.Type, e.Data)
			}
		case <-deadline:
			t.Fatalf("nobody says %s of %s\n%s", word, id, b.s.Log())
		}
	}
}

// refused waits until a command, or any, was.
func (b *broker) refused(t *testing.T, id string) answer {
	t.Helper()
	for deadline := time.After(drover.Patience); ; {
		select {
		case d := <-b.answers:
			var e struct{ Data answer }
			if err := b.holds(d.Body); err != nil {
				t.Errorf("an answer is not as published: %v\n%s", err, d.Body)
			}
			if json.Unmarshal(d.Body, &e) == nil && e.Data.Phase == "rejected" && (e.Data.Message == id || id == "") {
				return e.Data
			}
		case <-deadline:
			t.Fatalf("%q is never refused\n%s", id, b.s.Log())
		}
	}
}

// A command becomes a process in the data plane, its sender hears how, everybody else
// hears of every change, and sending it again does nothing.
func TestACommandByMessage(t *testing.T) {
	b := onBroker(t)
	tenant := token(t, b.s, "--org", "acme", "--user", "alice")
	b.ready(t)
	events, everything := rabbitmq.Follow(t, b.URL, "drover.events", "acme.instance.#"), rabbitmq.Follow(t, b.URL, "drover.events", "#")
	order := request("order-1", "instance.create", "dinosaurs", `{"name":"rex"}`)
	b.send(t, tenant, order)
	accepted := b.hear(t, "order-1", "accepted")
	done := b.hear(t, "order-1", "done")
	if !strings.HasPrefix(accepted.Object, "instance/") || done.Object != accepted.Object || done.Operation == "" {
		t.Errorf("accepted %+v, done %+v", accepted, done)
	}
	phases, last := []string{}, int64(0)
	for deadline := time.After(drover.Patience); len(phases) == 0 || phases[len(phases)-1] != "ready"; {
		var d amqp.Delivery
		select {
		case d = <-events:
		case <-deadline:
			t.Fatalf("it is told to be %v", phases)
		}
		var e told
		var change v1.Change
		if err := json.Unmarshal(d.Body, &e); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(e.Data, &change); err != nil {
			t.Fatal(err)
		}
		seq, _ := strconv.ParseInt(e.Sequence, 10, 64)
		if e.Org != "acme" || "instance/"+change.Object.ID != e.Subject || seq <= last || d.MessageId != e.ID {
			t.Errorf("event %+v of %s", e, d.RoutingKey)
		}
		last = seq
		phases = append(phases, change.Object.Phase)
	}
	if phases[0] != "accepted" {
		t.Errorf("it went %v", phases)
	}
	b.send(t, tenant, order)
	if again := b.hear(t, "order-1", "done"); again.Object != done.Object {
		t.Errorf("the second time it is %+v", again)
	}
	all, err := dial(t, b.s.URL(), tenant).List(t.Context(), "dinosaurs", client.ListOptions{})
	if err != nil || len(all.Items) != 1 {
		t.Errorf("%d dinosaurs, %v", len(all.Items), err)
	}
	out, _, code := b.s.Run("get", "commands")
	if code != 0 || !strings.Contains(out, "order-1") {
		t.Errorf("get commands: %d, %s", code, out)
	}
	b.send(t, tenant, request("order-2", "instance.delete", "dinosaurs/rex", "null"))
	b.hear(t, "order-2", "done")
	if kinds := b.asPublished(t, everything, "order-2"); !kinds["instance"] || !kinds["operation"] || !kinds["command"] {
		t.Errorf("there were events of %v", kinds)
	}
}

// Whatever comes: the sender is told, nothing is done, and what is no command is put
// aside with its reason.
func TestHostileMessages(t *testing.T) {
	b := onBroker(t)
	alice, mallory := token(t, b.s, "--org", "acme", "--user", "alice"), token(t, b.s, "--org", "evil", "--user", "mallory")
	b.send(t, alice, request("mine", "instance.create", "dinosaurs", `{"name":"rex"}`))
	b.hear(t, "mine", "done")
	topic := rabbitmq.Follow(t, b.URL, "drover.events", "*.command.*.rejected")
	for _, c := range []struct {
		reason, id, token string
		body              []byte
		want              string
	}{
		{"another organisation's object", "steal", mallory, request("steal", "instance.delete", "dinosaurs/rex", "null"), "rex"},
		{"a token that nobody issued", "forged", alice + "x", request("forged", "instance.delete", "dinosaurs/rex", "null"), "token"},
		{"no token", "none", "", request("none", "instance.delete", "dinosaurs/rex", "null"), "token"},
		{"what the API refuses", "odd", alice, request("odd", "instance.create", "dinosaurs", `{"nonsense":1}`), "nonsense"},
		{"a command of the future", "later", alice, request("later", "instance.teleport", "dinosaurs/rex", "{}"), "no command"},
		{"a subject that leads elsewhere", "up", alice, request("up", "instance.delete", "../clusters", "null"), "subject"},
		{"an envelope of the future", "v2", alice, bytes.Replace(request("v2", "instance.delete", "dinosaurs/rex", "null"), []byte(`"1.0"`), []byte(`"2.0"`), 1), "specversion"},
		{"a schema of the future", "schema", alice, bytes.Replace(request("schema", "instance.delete", "dinosaurs/rex", "null"), []byte(`"1.0"`), []byte(`"1.0","dataschema":"/api/v2/asyncapi"`), 1), "dataschema"},
		{"no UTF-8", "bytes", alice, []byte("{\"id\":\"\xff\"}"), "not UTF-8"},
		{"no JSON", "text", alice, []byte("not JSON"), "no CloudEvent"},
	} {
		b.sendAs(t, c.token, c.id, c.body)
		if a := b.refused(t, c.id); !strings.Contains(a.Reason, c.want) || strings.Contains(a.Reason, alice) {
			t.Errorf("%s: %+v", c.reason, a)
		}
	}
	b.send(t, alice, []byte(`{"specversion":"1.0","pad":"`+strings.Repeat("x", 20<<20)+`"}`))
	for !strings.Contains(b.refused(t, "").Reason, " bytes, and a command has at most ") {
	}
	var list v1.RejectedMessages
	drover.Until(t, "seven messages put aside", func() bool {
		out, _, _ := b.s.Run("bus", "dlq", "list", "-o", "json")
		list = v1.RejectedMessages{}
		return json.Unmarshal([]byte(out), &list) == nil && len(list.Items) == 7
	})
	key := ""
	for _, m := range list.Items {
		if m.Reason == "" || m.Key == "" {
			t.Errorf("put aside: %+v", m)
		}
		if strings.Contains(m.Reason, "teleport") {
			key = m.Key
		}
	}
	show, _, code := b.s.Run("bus", "dlq", "show", key)
	if code != 0 || !strings.Contains(show, "teleport") || strings.Contains(show, alice) {
		t.Errorf("%d: %s", code, show)
	}
	if out, _, code := b.s.Run("bus", "dlq", "retry", key); code != 0 {
		t.Errorf("retry: %d %s", code, out)
	}
	if a := b.refused(t, "later"); !strings.Contains(a.Reason, "no command") {
		t.Errorf("tried again: %+v", a)
	}
	got, err := dial(t, b.s.URL(), alice).Get(t.Context(), "dinosaurs", "rex", "")
	if err != nil || got.Phase != "ready" {
		t.Errorf("rex is %s, %v", got.Phase, err)
	}
	// Of those whose senders are known there is a record, and everybody hears of it.
	all, err := b.s.Client(t).List(t.Context(), "commands", client.ListOptions{Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	var known, heard []string
	for _, o := range all.Items {
		known = append(known, o.Name)
	}
	for len(heard) < 2 {
		select {
		case d := <-topic:
			var e struct{ Data v1.Change }
			if err := json.Unmarshal(d.Body, &e); err != nil {
				t.Fatal(err)
			}
			heard = append(heard, e.Data.Object.Name)
		case <-time.After(drover.Patience):
			t.Fatalf("on the topic %v were rejected", heard)
		}
	}
	slices.Sort(known)
	if !slices.Equal(known, []string{"mine", "odd", "steal"}) || !slices.Equal(heard, []string{"steal", "odd"}) {
		t.Errorf("there are commands %v, and on the topic %v were rejected", known, heard)
	}
	drover.Until(t, "all that was refused to be in the log", func() bool { // its sender hears of it first
		return strings.Count(b.s.Log(), `msg="message refused" `) >= 10
	})
	log := b.s.Log()
	if strings.Contains(log, alice) || strings.Contains(log, mallory) || strings.Contains(log, "not JSON") {
		t.Error("a token, or what a message says, is in the log")
	}
	for _, want := range []string{`outcome=denied message=forged source=/tests command=instance.delete request=`, `outcome=denied message=none source=/tests`,
		`outcome=malformed message=later source=/tests request=`, `outcome=malformed message=up source=/tests`} {
		if !strings.Contains(log, `msg="message refused" `+want) {
			t.Errorf("the log does not have %s", want)
		}
	}
	if n := strings.Count(log, `msg="message refused" `); n != 10 { // two without a good token, seven that are no commands, one of them twice
		t.Errorf("%d refused messages are in the log", n)
	}
	b.audited(t)
}

// The broker dies and comes back, and so does the server: nothing is lost, nothing is
// done twice.
func TestTheBrokerDies(t *testing.T) {
	b := onBroker(t)
	tenant := token(t, b.s, "--org", "acme", "--user", "alice")
	b.send(t, tenant, request("a", "instance.create", "dinosaurs", `{"name":"a"}`))
	b.hear(t, "a", "done")
	hooked := make(chan told, 10_000)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e told
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Error(err)
		}
		hooked <- e
	}))
	t.Cleanup(receiver.Close)
	goes(t, b.s, "subscription", "create", "ops", "--url", receiver.URL)
	watched := watch(t, b.s)
	follow := func() <-chan amqp.Delivery { // a queue that outlives the broker
		ch := rabbitmq.Channel(t, b.URL)
		if _, err := ch.QueueDeclare("audit", true, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind("audit", "*.instance.#", "drover.events", false, nil); err != nil {
			t.Fatal(err)
		}
		out, err := ch.Consume("audit", "", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	follow()
	b.Kill(t)
	if out, _, code := b.s.Run("create", "dinosaur", "b", "--wait", "--timeout", "2m"); code != 0 { // the control plane works on
		t.Fatalf("without its broker: %d %s", code, out)
	}
	watched.until(t, "b", "ready") // whoever follows without the broker hears of it
	for deadline := time.After(drover.Patience); ; {
		select {
		case e := <-hooked:
			if !isNow(e, "b", "ready") {
				continue
			}
		case <-deadline:
			t.Fatalf("the webhook is not called\n%s", b.s.Log())
		}
		break
	}
	drover.Until(t, "the doctor to name the broker", func() bool {
		out, _, code := b.s.Run("doctor")
		return code == 7 && strings.Contains(out, "CRITICAL  the broker cannot be reached")
	})
	b.s.Kill()
	b.s.Start(t)
	b.Server.Start(t)
	events := follow()
	seen, order, last := map[string]bool{}, map[int64]bool{}, int64(0)
	for deadline := time.After(drover.Patience); !seen["ready"]; {
		select {
		case d := <-events:
			var e told
			var c v1.Change
			if json.Unmarshal(d.Body, &e) == nil && json.Unmarshal(e.Data, &c) == nil && c.Object.Name == "b" {
				if seen[c.Object.Phase] = true; c.Seq < last && !order[c.Seq] { // what comes again has come in order before
					t.Errorf("change %d is told after %d", c.Seq, last)
				}
				order[c.Seq], last = true, max(last, c.Seq)
			}
		case <-deadline:
			t.Fatalf("what happened while the broker was away is not told: %v\n%s", seen, b.s.Log())
		}
	}
	if !seen["accepted"] || !seen["provisioning"] {
		t.Errorf("of what happened while the broker was away is told %v", seen)
	}
	b.open(t)
	b.send(t, tenant, request("a", "instance.create", "dinosaurs", `{"name":"a"}`)) // a duplicate of before
	b.send(t, tenant, request("c", "instance.create", "dinosaurs", `{"name":"c"}`))
	b.hear(t, "c", "done")
	all, err := b.s.Client(t).List(t.Context(), "dinosaurs", client.ListOptions{})
	if err != nil || len(all.Items) != 3 {
		t.Errorf("%d dinosaurs, %v", len(all.Items), err)
	}
}

// isNow tells whether an event is that of an instance that has come to a phase.
func isNow(e told, name, phase string) bool {
	var c v1.Change
	return json.Unmarshal(e.Data, &c) == nil && c.Object.Kind == "instance" && c.Object.Name == name && c.Object.Phase == phase
}

// A receiver hears of its organisation's changes, in order, signed, and of what it
// missed. It hears, too, that nothing is sent to another one any more.
func TestSubscription(t *testing.T) {
	var mu sync.Mutex
	var got []told
	secret, away := "", true
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if away {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
		if r.Header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
			t.Errorf("signature %q", r.Header.Get("webhook-signature"))
		}
		var e told
		if err := json.Unmarshal(body, &e); err != nil {
			t.Error(err)
		}
		got = append(got, e)
	}))
	t.Cleanup(receiver.Close)
	s := drover.Up(t)
	admin := token(t, s, "--org", "acme", "--user", "boss", "--org-admin")
	out, errs, code := s.Run("subscription", "create", "ops", "--url", receiver.URL, "-o", "json", "--token", admin)
	var made v1.Subscription
	if code != 0 || json.Unmarshal([]byte(out), &made) != nil || !strings.HasPrefix(made.Secret, "whsec_") {
		t.Fatalf("%d %s %s", code, out, errs)
	}
	mu.Lock()
	secret = made.Secret
	mu.Unlock()
	if out, _, code := s.Run("create", "dinosaur", "theirs", "--wait"); code != 0 { // of another organisation
		t.Fatal(out)
	}
	if out, _, code := s.Run("create", "dinosaur", "rex", "--wait", "--token", admin); code != 0 {
		t.Fatal(out)
	}
	drover.Until(t, "the subscription to say that it fails", func() bool {
		o, err := dial(t, s.URL(), admin).Get(t.Context(), "subscriptions", "ops", "")
		return err == nil && o.Phase == "failing" && strings.Contains(string(o.Status), "500") && !strings.Contains(string(o.Spec), "secret:")
	})
	mu.Lock()
	away = false
	mu.Unlock()
	drover.Until(t, "rex to be told as ready", func() bool {
		mu.Lock()
		defer mu.Unlock()
		for _, e := range got {
			if strings.Contains(string(e.Data), `"phase":"ready"`) && strings.Contains(string(e.Data), `"rex"`) {
				return true
			}
		}
		return false
	})
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	t.Cleanup(gone.Close)
	goes(t, s, "subscription", "create", "unwanted", "--url", gone.URL, "--kind", "instance", "--token", admin)
	goes(t, s, "create", "dinosaur", "ann", "--token", admin)
	drover.Until(t, "the end of the other subscription to be told", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(got, func(e told) bool {
			var c v1.Change
			return e.Type == "dev.drover.subscription.moved" && json.Unmarshal(e.Data, &c) == nil && c.Object.Name == "unwanted" && c.Object.Phase == "disabled"
		})
	})
	mu.Lock()
	defer mu.Unlock()
	last := int64(0)
	for _, e := range got {
		seq, _ := strconv.ParseInt(e.Sequence, 10, 64)
		if seq < last || e.Org != "acme" || strings.Contains(string(e.Data), "theirs") || strings.Contains(string(e.Data), "secret:") {
			t.Errorf("told: %+v", e)
		}
		last = max(last, seq)
	}
	if log := s.Log(); strings.Contains(log, secret) {
		t.Error("the secret is in the log")
	}
}
