package site_test

import (
	"encoding/json"
	"testing"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/site"
)

func TestSignals(t *testing.T) {
	good := site.Signal{Kind: site.SignalPromotion, Site: "west", To: "east", Epoch: 2}
	for _, c := range []struct {
		reason string
		change func(*site.Signal)
		ok     bool
	}{
		{"the other site's", func(*site.Signal) {}, true},
		{"one that asks to be promoted", func(s *site.Signal) { s.Kind = "promote" }, false},
		{"one to another site", func(s *site.Signal) { s.To = "west" }, false},
		{"one of this site, which came back", func(s *site.Signal) { s.Site = "east" }, false},
		{"of nobody", func(s *site.Signal) { s.Site = "" }, false},
		{"of an epoch that nobody leads in", func(s *site.Signal) { s.Epoch = 0 }, false},
	} {
		s := good
		c.change(&s)
		body, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := site.ReadSignal(body, "east")
		if (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Invalid) || c.ok && got != good {
			t.Errorf("%s: %+v, %v", c.reason, got, err)
		}
		if same := site.Digest(body) == site.Digest(append(body, ' ')); same {
			t.Errorf("%s: two bodies have one digest", c.reason)
		}
	}
}
