package v1_test

import (
	"encoding/json"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
)

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
