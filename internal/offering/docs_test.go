package offering_test

import (
	"os"
	"strings"
	"testing"

	"github.com/droverhq/drover/internal/offering"
)

func TestTheGuidesExampleIsAnOffering(t *testing.T) {
	page, err := os.ReadFile("../../docs/add/offering.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("the guide has an example")
	}
	o, err := offering.Parse("notice.yaml", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	parameters, err := o.Validate(map[string]any{"copies": 2, "text": "Hi"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := o.Desired(t.Context(), offering.Facts{Name: "board", Type: "trial", Size: "x1", Parameters: parameters}, offering.Surroundings{})
	if err != nil || !strings.Contains(string(got), `"TEXT":"Hi Hi"`) {
		t.Errorf("got %s, %v", got, err)
	}

	// The mistake that the guide shows is the one that is reported.
	_, err = offering.Parse("notice.yaml", []byte(strings.Replace(example, "name: ${instance.name}", "name: ${instance.nmae}", 1)))
	if err == nil || !strings.Contains(string(page), ": "+err.Error()+"\n") {
		t.Errorf("the guide shows another message than\n%v", err)
	}
}
