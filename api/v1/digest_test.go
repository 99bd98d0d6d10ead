package v1_test

import (
	"encoding/json"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
)

func TestComputeDigest(t *testing.T) {
	base := func() v1.Desired {
		return v1.Desired{Items: []v1.Item{
			{ID: "a", Generation: 1, Token: 4, Digest: "x"},
			{ID: "b", Generation: 2, Token: 5, Digest: "y", Delete: true},
		}}
	}
	want := base().ComputeDigest()
	cases := map[string]struct {
		reason string
		change func(*v1.Desired)
		same   bool
	}{
		"nothing":    {"The digest is a function of the items.", func(*v1.Desired) {}, true},
		"body":       {"A body that is left out is meant by its digest.", func(d *v1.Desired) { d.Items[0].Body = []byte(`{}`) }, true},
		"seq":        {"The same items at another sequence are the same state.", func(d *v1.Desired) { d.Seq = 9 }, true},
		"id":         {"Another item is another state.", func(d *v1.Desired) { d.Items[0].ID = "c" }, false},
		"generation": {"Newer intent is another state.", func(d *v1.Desired) { d.Items[0].Generation++ }, false},
		"digest":     {"Another body is another state.", func(d *v1.Desired) { d.Items[0].Digest = "z" }, false},
		"delete":     {"A removal is another state.", func(d *v1.Desired) { d.Items[0].Delete = true }, false},
		"missing":    {"A list that was cut short is another state.", func(d *v1.Desired) { d.Items = d.Items[:1] }, false},
		"order":      {"The list is sorted; another order is an error.", func(d *v1.Desired) { d.Items[0], d.Items[1] = d.Items[1], d.Items[0] }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := base()
			c.change(&d)
			if got := d.ComputeDigest() == want; got != c.same {
				t.Errorf("%s: same digest: got %v, want %v", c.reason, got, c.same)
			}
		})
	}
}

func TestBodyDigestSurvivesTransport(t *testing.T) {
	body := json.RawMessage("{ \"a\" : \"<b>&\u2028\",\n \"n\": 1.0 }")
	sent, err := json.Marshal(v1.Item{ID: "a", Body: body})
	if err != nil {
		t.Fatal(err)
	}
	var got v1.Item
	if err := json.Unmarshal(sent, &got); err != nil {
		t.Fatal(err)
	}
	if v1.BodyDigest(body) != v1.BodyDigest(got.Body) {
		t.Errorf("digest of %s differs from that of %s", body, got.Body)
	}
	if v1.BodyDigest(body) == v1.BodyDigest([]byte(`{"a":"","n":1.0}`)) {
		t.Error("two bodies share a digest")
	}
}
