package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
)

// spoken is the last answer to a command as it came, without what differs between any
// two, and with another word for a name.
func (b *broker) spoken(t *testing.T, id, name string) string {
	t.Helper()
	for deadline := time.After(drover.Patience); ; {
		select {
		case d := <-b.answers:
			var e map[string]any
			if err := json.Unmarshal(d.Body, &e); err != nil {
				t.Fatal(err)
			}
			data, _ := e["data"].(map[string]any)
			if data["message"] != id || data["phase"] == "accepted" {
				continue
			}
			for _, own := range []string{"id", "time", "traceparent"} {
				delete(e, own)
			}
			delete(data, "message")
			delete(data, "at")
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			return strings.ReplaceAll(string(text), name, "NAME") + fmt.Sprint(d.Headers)
		case <-deadline:
			t.Fatalf("nobody answers %s\n%s", id, b.s.Log())
		}
	}
}

// planHash is what a plan is known by, too.
func planHash(t *testing.T, c *client.Client, id string) string {
	t.Helper()
	o, err := c.Get(t.Context(), "plans", id, "")
	hash, _ := o.Fields["hash"].(string)
	if err != nil || len(hash) < 8 {
		t.Fatalf("the plan %s is %+v, %v", id, o, err)
	}
	return hash
}

// deployed has somebody deploy a repository, which is nowhere, and returns the id of that.
func deployed(t *testing.T, s *drover.Server, who, name string) string {
	t.Helper()
	a := drover.Must(t, drover.Request{Method: "POST", URL: s.URL() + "/api/v1/deployments", Token: who,
		Body: fmt.Appendf(nil, `{"name":%q,"repository":"https://git.invalid/shop.git","path":"k8s","cluster":"local","namespace":"shop","manual":true}`, name)})
	var made struct{ ID string }
	if err := json.Unmarshal(a.Body, &made); err != nil || made.ID == "" {
		t.Fatalf("%d %s", a.Status, a.Body)
	}
	return made.ID
}

// Of another organisation's objects nobody hears more than of those that nobody has: the
// answers are the same but for the name.
func TestAnothersObjectsByMessage(t *testing.T) {
	b := onBroker(t)
	goes(t, b.s, "template", "add", put(t, t.TempDir(), map[string]string{"template.yaml": booth, "ring.sh": "#!/bin/sh\n"}))
	alice, mallory := token(t, b.s, "--org", "acme", "--user", "alice"), token(t, b.s, "--org", "evil", "--user", "mallory", "--org-admin")
	b.send(t, alice, request("mine", "instance.create", "dinosaurs", `{"name":"rex"}`))
	rex := strings.TrimPrefix(b.hear(t, "mine", "done").Object, "instance/")
	b.send(t, alice, request("shop", "environment.create", "", `{"name":"shop","template":"booth"}`))
	shop := strings.TrimPrefix(b.hear(t, "shop", "done").Object, "environment/")
	b.send(t, alice, request("later", "environment.plan", "shop", `{"description":"soon"}`))
	plan := strings.TrimPrefix(b.hear(t, "later", "done").Object, "plan/")
	c := dial(t, b.s.URL(), alice)
	hash := planHash(t, c, plan)
	shipped := deployed(t, b.s, alice, "shipped")
	b.send(t, mallory, request("stall", "environment.create", "", `{"name":"stall","template":"booth"}`)) // of her own
	b.hear(t, "stall", "done")
	before, err := c.Get(t.Context(), "dinosaurs", "rex", "")
	if err != nil {
		t.Fatal(err)
	}
	env, err := c.Get(t.Context(), "environments", "shop", "")
	if err != nil {
		t.Fatal(err)
	}
	nobodys := func(id string) string { // of the same form
		return strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r < 'y':
				return r + 1
			case r >= '0' && r < '7':
				return r + 1
			}
			return r
		}, id)
	}
	n := 0
	for _, s := range []struct{ command, subject, data, theirs, none string }{ // %s is one of the last two, in data as well
		{"instance.delete", "dinosaurs/%s", "null", "rex", "rox"},
		{"instance.delete", "dinosaurs/%s", "null", rex, nobodys(rex)},
		{"instance.update", "dinosaurs/%s", `{"owner":"mallory"}`, "rex", "rox"},
		{"instance.update", "dinosaurs/%s", `{"owner":"mallory"}`, rex, nobodys(rex)},
		{"instance.update", "dinosaurs/%s", `{"nonsense":1}`, "rex", "rox"},
		{"environment.apply", "%s", `{"plan":"` + plan + `"}`, "shop", "chop"},
		{"environment.apply", "%s", `{"plan":"` + hash + `"}`, shop, nobodys(shop)},
		{"environment.apply", "stall", `{"plan":"%s"}`, plan, nobodys(plan)},
		{"environment.apply", "stall", `{"plan":"%s"}`, hash, nobodys(hash)},
		{"environment.apply", "stall", `{"plan":"%s"}`, hash[:8], nobodys(hash[:8])},
		{"environment.plan", "%s", `{}`, "shop", "chop"}, // without a template only one that is there can be planned
		{"environment.plan", "%s", `{}`, shop, nobodys(shop)},
		{"environment.plan", "%s", `{"destroy":true}`, "shop", "chop"},
		{"environment.plan", "%s", `{"rollback":true}`, "shop", "chop"},
		{"environment.destroy", "%s", `{}`, "shop", "chop"},
		{"environment.destroy", "%s", `{}`, shop, nobodys(shop)},
		{"environment.extend", "%s", `{"ends":"+4h"}`, "shop", "chop"},
		{"environment.extend", "%s", `{"ends":"+4h"}`, shop, nobodys(shop)},
		{"environment.extend", "%s", `{"nonsense":1}`, "shop", "chop"},
		{"environment.action", "%s/ring", `{"arguments":{"bell":"/dev/null"}}`, "shop", "chop"},
		{"environment.action", "%s/ring", `{"arguments":{"bell":"/dev/null"}}`, shop, nobodys(shop)},
		{"environment.action", "%s/nothing", `{}`, "shop", "chop"},
		{"deployment.sync", "%s", `{}`, "shipped", "skipped"},
		{"deployment.sync", "%s", `{"revision":"main"}`, shipped, nobodys(shipped)},
	} {
		var said []string
		for _, name := range []string{s.theirs, s.none} {
			n++
			id := fmt.Sprintf("steal-%03d", n)
			fill := func(text string) string { return strings.ReplaceAll(text, "%s", name) }
			b.send(t, mallory, request(id, s.command, fill(s.subject), fill(s.data)))
			said = append(said, b.spoken(t, id, name))
		}
		if said[0] != said[1] {
			t.Errorf("%s of %s with %s is answered\n%s\nand of what nobody has\n%s", s.command, s.theirs, s.data, said[0], said[1])
		}
		if !strings.Contains(said[0], `"phase":"rejected"`) {
			t.Errorf("%s of %s with %s is answered %s", s.command, s.theirs, s.data, said[0])
		}
		for _, secret := range []string{"acme", "alice", rex, shop, plan, hash} {
			if strings.Contains(said[0], secret) && !strings.Contains(s.data, secret) { // she said it herself
				t.Errorf("%s of %s says %s: %s", s.command, s.theirs, secret, said[0])
			}
		}
	}
	// What is made has a name that another organisation has: it is hers, and says no more than
	// one with a name that nobody has.
	for _, s := range []struct{ command, subject, data string }{
		{"environment.plan", "%s", `{"template":"booth"}`},
		{"environment.create", "", `{"name":"%s","template":"booth"}`},
	} {
		var said []string
		for _, name := range []string{"shop", "chop"} {
			id := s.command + "-" + name
			fill := func(text string) string { return strings.ReplaceAll(text, "%s", name) }
			b.send(t, mallory, request(id, s.command, fill(s.subject), fill(s.data)))
			made := b.hear(t, id, "done")
			if made.Object == "environment/"+shop || made.Object == "plan/"+plan {
				t.Errorf("%s of %s is %s, which is another's", s.command, name, made.Object)
			}
			made.Message, made.Object, made.Operation = "", "", ""
			said = append(said, strings.ReplaceAll(fmt.Sprintf("%+v", made), name, "NAME"))
		}
		if said[0] != said[1] {
			t.Errorf("%s of a name that another has is answered\n%s\nand of one that nobody has\n%s", s.command, said[0], said[1])
		}
	}
	if after, err := c.Get(t.Context(), "dinosaurs", "rex", ""); err != nil || after.Version != before.Version {
		t.Errorf("rex was %+v, and is %+v, %v", before, after, err)
	}
	if after, err := c.Get(t.Context(), "environments", "shop", ""); err != nil || after.Generation != env.Generation || after.Phase != env.Phase {
		t.Errorf("shop was %+v, and is %+v, %v", env, after, err)
	}
}
