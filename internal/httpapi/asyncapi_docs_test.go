package httpapi_test

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/command"
	"github.com/droverhq/drover/internal/httpapi"
)

// eventsPage is what people read of messages.
func eventsPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// The table of commands is that of the routes, with what each is the request of.
func TestTheTableOfCommandsIsTrue(t *testing.T) {
	var got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-z]+)` \\| ?([a-z/]*) ?\\| `([^`]+)` \\|$").FindAllStringSubmatch(eventsPage(t), -1) {
		name, subject, request := row[1], row[2], row[3]
		got = append(got, name)
		route, ok := command.Routes[name]
		if !ok {
			t.Errorf("there is no command %s", name)
			continue
		}
		want := route.Method + " " + route.Path
		if subject != "" {
			for word := range strings.SplitSeq(subject, "/") {
				want = strings.Replace(want, "{}", "<"+word+">", 1)
			}
		}
		if request != want {
			t.Errorf("%s with the subject %q is %s, and the page says %s", name, subject, want, request)
		}
	}
	if want := command.Names(); !slices.Equal(got, want) {
		t.Errorf("the table has %v, and there are %v", got, want)
	}
}

// The kinds that are told of are those of the code, all of them.
func TestTheListOfKindsIsTrue(t *testing.T) {
	_, rest, _ := strings.Cut(eventsPage(t), "is the kind of object, one of: ")
	list, _, _ := strings.Cut(rest, ".\n")
	if want := "`" + strings.Join(httpapi.EventKinds(), "` `") + "`"; strings.Join(strings.Fields(list), " ") != want {
		t.Errorf("the page has\n%s\nand there are\n%s", list, want)
	}
}

// The examples are what the schemas say, and the command is one.
func TestExamplesOfMessagesAreTrue(t *testing.T) {
	_, text := asyncAPI(t)
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("doc.json", parsed); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(eventsPage(t), -1) {
		example, err := jsonschema.UnmarshalJSON(strings.NewReader(block[1]))
		if err != nil {
			t.Fatalf("%v in %s", err, block[1])
		}
		kind, _ := example.(map[string]any)["type"].(string)
		name, is := strings.CutPrefix(kind, command.TypePrefix)
		id := strings.ReplaceAll(name, ".", "-")
		if is {
			if _, err := command.Parse(&bus.Message{Body: []byte(block[1])}); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		} else {
			id = "event-" + strings.Split(kind, ".")[2]
		}
		seen[strings.Split(id, "-")[0]]++
		if err := payload(t, c, id).Validate(example); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if seen["event"] == 0 || seen["instance"] == 0 {
		t.Errorf("the page has examples of %v: an event and a command are wanted", seen)
	}
}
