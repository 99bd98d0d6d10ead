package subscription_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/subscription"
)

// Whatever an organisation, an object and its data are called and however large they
// are: the event can be sent, under four words, and says which change it is.
func TestEveryEventCanBeSent(t *testing.T) {
	text := rapid.Custom(func(r *rapid.T) string {
		return strings.Repeat(rapid.SampledFrom([]string{"a", ".", " ", "%", "é", "#"}).Draw(r, "character"), rapid.SampledFrom([]int{1, 62, 63, 64, 256}).Draw(r, "length"))
	})
	rapid.Check(t, func(r *rapid.T) {
		data, _ := json.Marshal(strings.Repeat("x", rapid.SampledFrom([]int{0, 100, bus.MaxBody - 1000, bus.MaxBody}).Draw(r, "size")))
		e := subscription.Event{SpecVersion: "1.0", ID: "l-1-4711", Type: "dev.drover.thing.created", Subject: "thing/" + text.Draw(r, "id"), Org: text.Draw(r, "org"), Data: data}
		m, err := subscription.Message(&e)
		if err == nil {
			err = m.Check()
		}
		if err != nil {
			r.Fatal(err)
		}
		if n := strings.Count(m.Topic, "."); n != 3 {
			r.Errorf("%d dots are in %s", n, m.Topic)
		}
		var got subscription.Event
		if err := json.Unmarshal(m.Body, &got); err != nil || got.ID != e.ID || got.Subject != e.Subject || got.Org != e.Org {
			r.Errorf("%v: %.200s", err, m.Body)
		}
		if len(data) < bus.MaxBody/2 && string(got.Data) != string(data) {
			r.Errorf("its data is %.100s", got.Data)
		}
	})
}

// Long words are told apart, and short ones are what they were.
func TestLongWordsOfATopic(t *testing.T) {
	seen := map[string]string{}
	for _, org := range []string{"acme", strings.Repeat("a", 63), strings.Repeat("a", 64), strings.Repeat("a", 65), strings.Repeat("a", 64) + ".", strings.Repeat(".", 22)} {
		m, err := subscription.Message(&subscription.Event{Type: "dev.drover.thing.created", Subject: "thing/x", Org: org})
		if err != nil {
			t.Fatal(err)
		}
		if other, is := seen[m.Topic]; is {
			t.Errorf("%s and %s are both %s", org, other, m.Topic)
		}
		if seen[m.Topic] = org; len(org) <= 63 && !strings.Contains(org, ".") && m.Topic != org+".thing.x.created" {
			t.Errorf("%s is %s", org, m.Topic)
		}
	}
}
