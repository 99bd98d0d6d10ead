package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/rabbitmq"
)

// booth is a template with a file, and an action that leaves a line each time.
const booth = `
apiVersion: drover.dev/v1
kind: Template
metadata: {name: booth}
spec:
  version: 1.0.0
  resources:
    - {name: sign, executor: file, with: {path: "${env.name}/sign.txt", content: "${env.name}"}}
  actions:
    - name: ring
      parameters: {type: object, required: [bell], properties: {bell: {type: string}}}
      app: {name: ring, url: "file:./ring.sh"}
      command: [ring]
      env: {BELL: "${args.bell}"}
      timeout: 60s
`

// elsewhere are commands that need more than a broker, and the tests of them.
var elsewhere = map[string]string{"deployment.sync": "../gitops/message_test.go:TestSyncByMessage"}

// commands are those that the server publishes, which are all.
func (b *broker) commands(t *testing.T) (names []string) {
	t.Helper()
	a, err := drover.Ask(drover.Request{URL: b.s.URL() + "/api/v1/asyncapi", Token: admin(t, b.s)})
	var doc struct {
		Components struct {
			Messages map[string]struct {
				Payload struct {
					Properties struct{ Type struct{ Const string } }
				}
			}
		}
	}
	if err == nil {
		err = json.Unmarshal(a.Body, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range doc.Components.Messages {
		if name, is := strings.CutPrefix(m.Payload.Properties.Type.Const, "dev.drover.command."); is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// heeded is what the topic tells of commands, by their ids.
type heeded struct {
	from <-chan amqp.Delivery
	told map[string][]string
}

// until waits for a word of a command, and returns all that was told of it before, in order.
func (h *heeded) until(t *testing.T, id, word string) []string {
	t.Helper()
	for deadline := time.After(drover.Patience); !slices.Contains(h.told[id], word); {
		select {
		case d := <-h.from:
			var e struct {
				Type string
				Data v1.Change
			}
			if err := json.Unmarshal(d.Body, &e); err != nil {
				t.Fatal(err)
			}
			said, is := strings.CutPrefix(e.Type, "dev.drover.command.")
			if !is || !strings.HasSuffix(d.RoutingKey, "."+said) {
				t.Errorf("%s is told as %s: %s", d.RoutingKey, e.Type, d.Body)
			}
			h.told[e.Data.Object.Name] = append(h.told[e.Data.Object.Name], said)
		case <-deadline:
			t.Fatalf("of %s the topic tells %v", id, h.told[id])
		}
	}
	return h.told[id]
}

// Each command as a message: it is accepted, does what its request does, and is done by
// when that is done, at its reply address and on the topic. The same message once more does
// nothing more, and is no news.
func TestEveryCommandByMessage(t *testing.T) {
	b := onBroker(t)
	b.ready(t)
	topic := &heeded{rabbitmq.Follow(t, b.URL, "drover.events", "*.command.#"), map[string][]string{}}
	goes(t, b.s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": booth, "ring.sh": "#!/bin/sh\necho rung >> \"$BELL\"\n"}))
	admin, err := b.s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	c := b.s.Client(t)
	bell := filepath.Join(t.TempDir(), "bell")
	counts := func() map[string]int64 {
		t.Helper()
		out := map[string]int64{}
		for _, resource := range []string{"operations", "commands", "environments", "resources", "dinosaurs"} {
			page, err := c.List(t.Context(), resource, client.ListOptions{Size: 1})
			if err != nil {
				t.Fatal(err)
			}
			out[resource] = int64(page.Total)
		}
		return out
	}
	ends := func() time.Time {
		t.Helper()
		o, err := c.Get(t.Context(), "environments", "demo", "")
		var spec struct{ Ends time.Time }
		if err == nil {
			err = json.Unmarshal(o.Spec, &spec)
		}
		if err != nil || spec.Ends.IsZero() {
			t.Fatalf("demo ends at %s, %v: %s", spec.Ends, err, o.Spec)
		}
		return spec.Ends
	}
	phase := func(resource, name string) string {
		o, err := c.Get(t.Context(), resource, name, "")
		if client.Status(err) == 404 {
			return "Destroyed"
		}
		if err != nil {
			t.Fatal(err)
		}
		return o.Phase
	}
	var plan string
	var planned time.Time
	steps := []struct {
		command, subject string
		data             func() string
		so               func() bool // once it is done, and after it came again
	}{
		{"environment.plan", "shop", func() string { return `{"template":"booth"}` }, func() bool { return plan != "" }},
		{"environment.apply", "shop", func() string { return `{"plan":"` + plan + `"}` }, func() bool { return phase("environments", "shop") == "Deployed-OK" }},
		{"environment.create", "", func() string { return `{"name":"demo","template":"booth","ttl":"8h"}` }, func() bool { return phase("environments", "demo") == "Deployed-OK" }},
		{"environment.extend", "demo", func() string { planned = ends(); return `{"ends":"+4h"}` }, func() bool { return ends().Equal(planned.Add(4 * time.Hour)) }},
		{"environment.action", "demo/ring", func() string { return `{"arguments":{"bell":"` + bell + `"}}` }, func() bool {
			rung, err := os.ReadFile(bell)
			return err == nil && string(rung) == "rung\n"
		}},
		{"environment.destroy", "demo", func() string { return `{}` }, func() bool { return phase("environments", "demo") == "Destroyed" }},
		{"instance.create", "dinosaurs", func() string { return `{"name":"rex"}` }, func() bool { return phase("dinosaurs", "rex") == "ready" }},
		{"instance.update", "dinosaurs/rex", func() string { return `{"owner":"bob"}` }, func() bool {
			o, err := c.Get(t.Context(), "dinosaurs", "rex", "")
			return err == nil && o.Owner == "bob" && o.Phase == "ready"
		}},
		{"instance.update", "dinosaurs/rex", func() string { return `{"parameters":{"species":"Allosaurus"}}` }, func() bool {
			o, err := c.Get(t.Context(), "dinosaurs", "rex", "")
			_, page := drover.Reach(b.s.Routes, host("rex"))
			return err == nil && o.Phase == "ready" && strings.Contains(page, "Allosaurus")
		}},
		{"instance.delete", "dinosaurs/rex", func() string { return "null" }, func() bool { return phase("dinosaurs", "rex") == "Destroyed" }},
	}
	var tried []string
	for _, s := range steps {
		if !slices.Contains(tried, s.command) {
			tried = append(tried, s.command)
		}
	}
	for command, where := range elsewhere {
		file, name, _ := strings.Cut(where, ":")
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "func "+name+"(") || !strings.Contains(string(text), command) {
			t.Errorf("%s is not tested by %s: %v", command, where, err)
		}
		tried = append(tried, command)
	}
	slices.Sort(tried)
	if all := b.commands(t); !slices.Equal(all, tried) {
		t.Errorf("there are commands %v, and tested are %v", all, tried)
	}
	for i, s := range steps {
		t.Run(s.command, func(t *testing.T) {
			id := strings.ReplaceAll(s.command, ".", "-") + strconv.Itoa(i)
			message := request(id, s.command, s.subject, s.data())
			b.send(t, admin, message)
			accepted := b.hear(t, id, "accepted")
			done := b.hear(t, id, "done")
			if accepted.Command != s.command || accepted.Object == "" || accepted.Object != done.Object {
				t.Errorf("accepted as %+v, done as %+v", accepted, done)
			}
			if s.command == "environment.plan" {
				plan = strings.TrimPrefix(done.Object, "plan/")
			}
			drover.Until(t, "what it asks for", s.so)
			if told := topic.until(t, id, "done"); told[0] != "accepted" {
				t.Errorf("the topic tells %v", told)
			}
			before := counts()
			b.send(t, admin, message)
			if again := b.hear(t, id, "done"); again.Object != done.Object || again.Operation != done.Operation {
				t.Errorf("the second time it is %+v, the first %+v", again, done)
			}
			after := counts()
			for resource, n := range before {
				if after[resource] != n {
					t.Errorf("there were %d %s, and are %d since it came again", n, resource, after[resource])
				}
			}
			if !s.so() {
				t.Error("it was done twice")
			}
		})
	}
	for id, told := range topic.told { // by now what followed the second time has come, too
		if said := slices.DeleteFunc(told, func(w string) bool { return w == "progress" }); !slices.Equal(said, []string{"accepted", "done"}) {
			t.Errorf("of %s the topic tells %v", id, said)
		}
	}
}

// Of a command that takes a while its sender hears that it is accepted, how it goes and
// that it is done, in this order, and so does everybody who follows the topic. The
// environment cannot be ready before somebody has heard how it goes.
func TestACommandTellsHowItGoes(t *testing.T) {
	b := onBroker(t)
	goes(t, b.s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": gated, "wait.sh": waitProgram}))
	admin, err := b.s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	in, gate := b.inbox(t, "answers-of-admin"), filepath.Join(t.TempDir(), "gate")
	b.reply = in.queue
	b.ready(t)
	topic := &heeded{rabbitmq.Follow(t, b.URL, "drover.events", "*.command.#"), map[string][]string{}}
	b.send(t, admin, request("slow", "environment.create", "", `{"name":"demo","template":"gated","parameters":{"gate":"`+gate+`"}}`))
	if a := in.hear(t, "progress", "slow"); a.Phase != "accepted" || a.Progress != "Deploying" || !strings.HasPrefix(a.Object, "environment/") {
		t.Errorf("while it goes on its sender hears %+v", a)
	}
	if said := in.said("slow"); slices.Contains(said, "done") {
		t.Fatalf("it is %v, and waits for the gate", said)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	in.hear(t, "done", "slow")
	told := topic.until(t, "slow", "done")
	for where, words := range map[string][]string{"its sender hears": in.said("slow"), "on the topic it is": told} {
		if got := slices.Compact(words); !slices.Equal(got, []string{"accepted", "progress", "done"}) {
			t.Errorf("%s %v", where, words)
		}
	}
}
