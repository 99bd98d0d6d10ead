package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

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
	c := dial(t, b.s.URL(), alice)
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
	for _, s := range []struct{ command, subject, data, theirs, none string }{
		{"instance.delete", "dinosaurs/%s", "null", "rex", "rox"},
		{"instance.delete", "dinosaurs/%s", "null", rex, nobodys(rex)},
		{"instance.update", "dinosaurs/%s", `{"owner":"mallory"}`, "rex", "rox"},
		{"instance.update", "dinosaurs/%s", `{"owner":"mallory"}`, rex, nobodys(rex)},
		{"instance.update", "dinosaurs/%s", `{"nonsense":1}`, "rex", "rox"},
		{"environment.apply", "%s", `{"plan":"p"}`, "shop", "chop"},
		{"environment.apply", "%s", `{}`, shop, nobodys(shop)},
		{"environment.destroy", "%s", `{}`, "shop", "chop"},
		{"environment.destroy", "%s", `{}`, shop, nobodys(shop)},
		{"environment.extend", "%s", `{"ends":"+4h"}`, "shop", "chop"},
		{"environment.extend", "%s", `{"ends":"+4h"}`, shop, nobodys(shop)},
		{"environment.extend", "%s", `{"nonsense":1}`, "shop", "chop"},
		{"environment.action", "%s/ring", `{"arguments":{"bell":"/dev/null"}}`, "shop", "chop"},
		{"environment.action", "%s/ring", `{"arguments":{"bell":"/dev/null"}}`, shop, nobodys(shop)},
		{"environment.action", "%s/nothing", `{}`, "shop", "chop"},
		{"deployment.sync", "%s", `{}`, "shop", "chop"},
	} {
		var said []string
		for _, name := range []string{s.theirs, s.none} {
			n++
			id := fmt.Sprintf("steal-%03d", n)
			b.send(t, mallory, request(id, s.command, fmt.Sprintf(s.subject, name), s.data))
			said = append(said, b.spoken(t, id, name))
		}
		if said[0] != said[1] {
			t.Errorf("%s of %s with %s is answered\n%s\nand of what nobody has\n%s", s.command, s.theirs, s.data, said[0], said[1])
		}
		if !strings.Contains(said[0], `"phase":"rejected"`) {
			t.Errorf("%s of %s with %s is answered %s", s.command, s.theirs, s.data, said[0])
		}
		for _, secret := range []string{"acme", "alice", rex, shop} {
			if strings.Contains(said[0], secret) {
				t.Errorf("%s of %s says %s: %s", s.command, s.theirs, secret, said[0])
			}
		}
	}
	if after, err := c.Get(t.Context(), "dinosaurs", "rex", ""); err != nil || after.Version != before.Version {
		t.Errorf("rex was %+v, and is %+v, %v", before, after, err)
	}
	if after, err := c.Get(t.Context(), "environments", "shop", ""); err != nil || after.Generation != env.Generation || after.Phase != env.Phase {
		t.Errorf("shop was %+v, and is %+v, %v", env, after, err)
	}
}
