package tofu_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/tofu"
)

func TestLinesForPeople(t *testing.T) {
	for _, tc := range []struct{ reason, line, want string }{
		{"what is done", `{"@level":"info","@message":"x.y: Creating...","type":"apply_start"}`, "x.y: Creating..."},
		{"what went wrong, and why", `{"@level":"error","@message":"Error: no","type":"diagnostic","diagnostic":{"summary":"no","detail":"because\nof that"}}`, "Error: no: because of that"},
		{"who it is", `{"@message":"OpenTofu 1.12.6","type":"version"}`, ""},
		{"outputs may be secret", `{"@message":"Outputs: 2","type":"outputs"}`, ""},
		{"what is half written", `{"@message":"x`, ""},
		{"what a plugin prints", "panic: oh\n", "panic: oh"},
		{"nothing", "", ""},
	} {
		if got := tofu.Readable([]byte(tc.line)); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
	said := tofu.Complaints(strings.NewReader("{\"@level\":\"info\",\"@message\":\"fine\"}\nnoise\n{\"@level\":\"error\",\"@message\":\"bad\",\"diagnostic\":{\"summary\":\"bad\",\"detail\":\"very\"}}\n"))
	if said != "Error: bad: very" {
		t.Errorf("complaints are %q", said)
	}
}

func TestWords(t *testing.T) {
	got := tofu.Words(errors.New("exit status 1\n╷\n│ Error: No such thing\n│ \n│   on main.tf line 3:\n╵\n"))
	if got != "Error: No such thing on main.tf line 3:" {
		t.Errorf("got %q", got)
	}
	if long := tofu.Words(errors.New(strings.Repeat("ä", 2000))); len(long) > 1010 || !utf8.ValidString(long) {
		t.Errorf("%d bytes are too many, or no text", len(long))
	}
}

func TestTheServersOwnStaysWithIt(t *testing.T) {
	t.Setenv("DROVER_MASTER_KEY", "key")
	t.Setenv("TF_VAR_x", "key")
	t.Setenv("CLOUD_REGION", "here")
	env := tofu.Environment()
	if env["DROVER_MASTER_KEY"] != "" || env["TF_VAR_x"] != "" || env["CLOUD_REGION"] != "here" {
		t.Errorf("it sees %q, %q, %q", env["DROVER_MASTER_KEY"], env["TF_VAR_x"], env["CLOUD_REGION"])
	}
	if _, err := tofu.Find("no-such-program-here", "--some-option"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "--some-option") {
		t.Errorf("got %v", err)
	}
}
