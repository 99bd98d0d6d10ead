package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

// Whatever is sent, the answer is the right 4xx with the reference's code, and
// nothing is written.
func TestBadInput(t *testing.T) {
	s := drover.Up(t)
	c := s.Client(t)
	mustOrder(t, c, "rex")
	awaitPhase(t, c, "rex", "ready")
	before := atRest(t, s, c)

	const dinosaurs = "/api/dinosaurs_mgmt/v1/dinosaurs"
	const create = dinosaurs + "?async=true"
	list := func(name, value string) string { return dinosaurs + "?" + url.Values{name: {value}}.Encode() }
	name := func(n string) string { return fmt.Sprintf(`{"name":%q}`, n) }
	mega := strings.Repeat("a", 1<<20)
	cases := map[string]struct {
		method, path, body string
		status             int
		code               string
	}{
		// bodies
		"empty body":         {"POST", create, "", 400, "17"},
		"no JSON":            {"POST", create, "{", 400, "17"},
		"trailing":           {"POST", create, `{"name":"a1"} x`, 400, "17"},
		"two objects":        {"POST", create, `{"name":"a1"}{"name":"a2"}`, 400, "17"},
		"array":              {"POST", create, `[]`, 400, "17"},
		"null":               {"POST", create, `null`, 400, "17"},
		"text":               {"POST", create, `"name"`, 400, "17"},
		"NaN":                {"POST", create, `{"name":NaN}`, 400, "17"},
		"name is a number":   {"POST", create, `{"name":1}`, 400, "17"},
		"name is an object":  {"POST", create, `{"name":{}}`, 400, "17"},
		"multi_az is text":   {"POST", create, `{"name":"a1","multi_az":"yes"}`, 400, "17"},
		"unknown field":      {"POST", create, `{"name":"a1","colour":"red"}`, 400, "17|8|37"},
		"field twice":        {"POST", create, `{"name":"a1","name":"a2"}`, 400, "17"},
		"invalid UTF-8":      {"POST", create, "{\"name\":\"a\xff\xfe\"}", 400, "17"},
		"zero byte":          {"POST", create, `{"name":"a\u0000b"}`, 400, "32"},
		"lone surrogate":     {"POST", create, `{"name":"a\ud800"}`, 400, "17|32"},
		"10 MB":              {"POST", create, `{"name":"` + strings.Repeat("a", 10<<20) + `"}`, 400, "17"},
		"10 MB of nothing":   {"POST", create, strings.Repeat(" ", 10<<20), 400, "17"},
		"deep":               {"POST", create, strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), 400, "17"},
		"many fields":        {"POST", create, "{" + strings.Repeat(`"a":1,`, 50_000) + `"b":2}`, 400, "17|8|37"},
		"patch no JSON":      {"PATCH", dinosaurs + "/rex", "{", 400, "17"},
		"patch wrong types":  {"PATCH", dinosaurs + "/rex", `{"owner":[1]}`, 400, "17"},
		"synchronous":        {"POST", dinosaurs, name("a1"), 400, "103"},
		"delete synchronous": {"DELETE", dinosaurs + "/rex", "", 400, "103"},
		// names and places
		"no name":          {"POST", create, `{}`, 400, "32|33|8"},
		"empty name":       {"POST", create, name(""), 400, "32|33"},
		"1 MB name":        {"POST", create, `{"name":"` + mega[:1<<20-64] + `"}`, 400, "34|32"},
		"long name":        {"POST", create, name(strings.Repeat("a", 64)), 400, "34|32"},
		"capitals":         {"POST", create, name("Rex"), 400, "32"},
		"spaces":           {"POST", create, name("a b"), 400, "32"},
		"path":             {"POST", create, name("../../etc"), 400, "32"},
		"SQL name":         {"POST", create, name("a'; DROP TABLE objects; --"), 400, "32"},
		"taken":            {"POST", create, name("rex"), 409, "36"},
		"provider":         {"POST", create, `{"name":"a1","cloud_provider":"mars"}`, 400, "30"},
		"region":           {"POST", create, `{"name":"a1","cloud_provider":"local","region":"mars"}`, 400, "31"},
		"1 MB in the path": {"GET", dinosaurs + "/" + mega[:32<<10], "", 404, "7"},
		"zero in the path": {"GET", dinosaurs + "/a%00b", "", 404, "7"},
		"no UTF-8 in path": {"GET", dinosaurs + "/%ff%fe", "", 404, "7"},
		"nobody":           {"GET", dinosaurs + "/nobody", "", 404, "7"},
		"delete nobody":    {"DELETE", dinosaurs + "/nobody?async=true", "", 404, "7"},
		"method":           {"PUT", dinosaurs, "{}", 405, "10"},
		"no such path":     {"GET", "/api/dinosaurs_mgmt/v1/mammoths", "", 404, "7"},
		// lists
		"SQL in search":          {"GET", list("search", "name = 'x'; DROP TABLE objects"), "", 400, "23"},
		"union in search":        {"GET", list("search", "name = 'x' UNION SELECT 1"), "", 400, "23"},
		"comment in search":      {"GET", list("search", "name = 'x' -- "), "", 400, "23"},
		"column of ours":         {"GET", list("search", "spec = 'x'"), "", 400, "23"},
		"open quote":             {"GET", list("search", "name = 'x"), "", 400, "23"},
		"unbalanced":             {"GET", list("search", "((name = x)"), "", 400, "23"},
		"too many joins":         {"GET", list("search", "name = x"+strings.Repeat(" or name = x", 11)), "", 400, "23"},
		"long search":            {"GET", list("search", "name = "+mega[:40<<10]), "", 400, "23"},
		"invalid UTF-8 search":   {"GET", dinosaurs + "?search=name+%3D+%27%ff%27", "", 400, "23"},
		"zero in search":         {"GET", list("search", "name = 'a\x00'"), "", 400, "23"},
		"orderBy nonsense":       {"GET", list("orderBy", "nonsense"), "", 400, "17"},
		"orderBy SQL":            {"GET", list("orderBy", "name; DROP TABLE objects"), "", 400, "17"},
		"orderBy direction":      {"GET", list("orderBy", "name sideways"), "", 400, "17"},
		"orderBy case statement": {"GET", list("orderBy", "(case when 1=1 then name end)"), "", 400, "17"},
		"negative page":          {"GET", list("page", "-1"), "", 400, "17"},
		"size 0":                 {"GET", list("size", "0"), "", 400, "17"},
		"huge page":              {"GET", list("page", "99999999999999999999"), "", 0, "17"},
		// Drover's own API
		"own no JSON":       {"POST", "/api/v1/dinosaurs", "{", 400, "17"},
		"own types":         {"POST", "/api/v1/dinosaurs", `{"name":["a"]}`, 400, "8|17"},
		"own unknown field": {"POST", "/api/v1/dinosaurs", `{"name":"a1","colour":"red"}`, 400, "17|8|37"},
		"own parameters":    {"POST", "/api/v1/dinosaurs", `{"name":"a1","parameters":{"legs":4}}`, 400, "37"},
		"own parameter":     {"POST", "/api/v1/dinosaurs", `{"name":"a1","parameters":{"species":7}}`, 400, "37"},
		"own plan":          {"POST", "/api/v1/dinosaurs", `{"name":"a1","plan":"huge.x9"}`, 400, "41|42"},
		"own 10 MB":         {"POST", "/api/v1/dinosaurs", strings.Repeat(" ", 10<<20), 400, "17"},
		"own UTF-8":         {"POST", "/api/v1/dinosaurs", "{\"name\":\"\xff\"}", 400, "17"},
		"own resource":      {"POST", "/api/v1/mammoths", `{"name":"a1"}`, 404, "7"},
		"own time":          {"GET", "/api/v1/dinosaurs/rex?at=yesterday", "", 400, "17|8"},
		"own future":        {"GET", "/api/v1/dinosaurs/rex?at=999999999", "", 0, "17|8|7"},
		"own after":         {"GET", "/api/v1/changes?after=x", "", 400, "17|8"},
		"own token":         {"POST", "/api/v1/tokens", `{"user":"a","ttl":"forever"}`, 400, "8|17|37"},
		"own token nobody":  {"POST", "/api/v1/tokens", `{}`, 400, "8|17|37"},
		"own cluster":       {"POST", "/api/v1/clusters", `{"name":"../x"}`, 400, "8|32|37|30|31"},
		"own offering":      {"PUT", "/api/v1/offerings", "\x00\xff", 400, "8|17"},
		"own yaml bomb":     {"PUT", "/api/v1/offerings", bomb(), 400, "8|17"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a, err := drover.Ask(drover.Request{Method: tc.method, URL: s.URL() + tc.path, Token: admin(t, s), Body: []byte(tc.body)})
			if err != nil && len(tc.body) <= 1<<20 {
				t.Fatalf("no answer: %v", err)
			}
			// The server closed before all was sent, and the answer was lost with the connection.
			drover.Until(t, "an answer to a large body", func() bool {
				if err != nil {
					a, err = refusedEarly(s, tc.method, tc.path, len(tc.body), admin(t, s))
				}
				return err == nil
			})
			if a.Status >= 500 {
				t.Fatalf("status %d: %s", a.Status, a.Body)
			}
			if tc.status == 0 && a.Status == http.StatusOK {
				return // may be answered with nothing
			}
			e := a.Error()
			want := tc.status
			if want == 0 {
				want = 400
			}
			if a.Status != want && !(tc.status == 0 && a.Status == 404) {
				t.Errorf("status %d, want %d: %.300s", a.Status, want, a.Body)
			}
			if !strings.Contains("|"+tc.code+"|", "|"+e.ID+"|") || e.Kind != "Error" || e.Reason == "" || e.OperationID == "" || !strings.HasSuffix(e.Href, "/errors/"+e.ID) {
				t.Errorf("code %q (%s), want %s: %.300s", e.ID, e.Code, tc.code, a.Body)
			}
			if len(a.Body) > 4<<10 {
				t.Errorf("the answer has %d bytes: it repeats what was sent", len(a.Body))
			}
		})
	}

	// Headers that are larger than any sense.
	a, err := drover.Ask(drover.Request{Method: "GET", URL: s.URL() + dinosaurs, Token: mega})
	if err == nil && (a.Status < 400 || a.Status >= 500) {
		t.Errorf("a token of 1 MB gets %d", a.Status)
	}

	unmoved(t, c, before)
	if got := phase(c, "rex"); got != "ready" {
		t.Errorf("rex is %s", got)
	}
}

// refusedEarly asks with the same size announced and nothing sent.
func refusedEarly(s *drover.Server, method, path string, size int, token string) (drover.Answer, error) {
	return drover.Ask(drover.Request{Method: method, URL: s.URL() + path, Token: token,
		Header: http.Header{"Expect": {"100-continue"}}, Body: bytes.Repeat([]byte(" "), size)})
}

// bomb grows tenfold with each of its lines.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ","))
	}
	return b.String()
}

// Expressions that would never end are refused when the file is applied, and
// the server goes on.
func TestExpressionsThatNeverEnd(t *testing.T) {
	s := drover.Up(t)
	c := s.Client(t)
	before := atRest(t, s, c)
	const of = "lists.range(10000)"
	nested := of + ".map(a, " + of + ".map(b, " + of + ".map(d, a + b + d))).size()"
	grows := `"xxxxxxxxxxxxxxxx"`
	for range 40 {
		grows = "cel.bind(v, " + grows + ", v + v)"
	}
	for name, expression := range map[string]string{
		"loops":     nested,
		"exists":    of + ".exists(a, " + of + ".exists(b, " + of + ".exists(d, a + b + d < 0)))",
		"doubling":  grows,
		"deep":      strings.Repeat("(", 10_000) + "1" + strings.Repeat(")", 10_000),
		"unclosed":  "instance.name +",
		"no value":  "1 / 0",
		"undefined": "system('reboot')",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(second(t, "mammoths"), "DINOSAUR_NAME: ${instance.name}", "DINOSAUR_NAME: '${string("+strings.ReplaceAll(expression, "'", "''")+")}'", 1)
			file := write(t, filepath.Join(t.TempDir(), "mammoth.yaml"), text)
			_, stderr, code := s.Run("apply", "-f", file)
			if code != 1 || !strings.Contains(stderr, "mammoth.yaml:") || strings.Contains(stderr, "internal error") {
				t.Errorf("exit code %d: %.500s", code, stderr)
			}
			t.Logf("%s", stderr[max(0, len(stderr)-120):])
		})
	}
	unmoved(t, c, before)
	mustOrder(t, c, "rex")
	awaitPhase(t, c, "rex", "ready")
}
