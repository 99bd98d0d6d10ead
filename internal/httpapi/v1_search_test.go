package httpapi_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/httpapi"
)

// Search goes by words and along dependencies, both ways, and shows to each what
// is theirs.
func TestSearch(t *testing.T) {
	s := newSite(t)
	s.bring("shop", "1", "")
	s.deploy("alice", "demo", "shop")
	s.deploy("bob", "rival", "shop")
	for _, tc := range []struct {
		reason, who, q, kind string
		want                 string
	}{
		{"a word of the name", "alice", "demo", "environments", "environment/demo"},
		{"its beginning", "alice", "dem", "environments", "environment/demo"},
		{"others' are not there", "alice", "rival", "", ""},
		{"for operators all are", "root", "rival", "environments", "environment/rival"},
		{"templates are everybody's", "alice", "payments", "templates", "template/shop"},
		{"by a tag", "alice", "till", "templates", "template/shop"},
		{"a description of a resource", "alice", "books", "resources", "resource/db"},
		{"all words must match", "alice", "demo nothing", "", ""},
		{"what depends on the database", "alice", "dependsOn:db", "resources", "resource/web[0] resource/web[1]"},
		{"in whatever case", "alice", "DEPENDSON:db", "resources", "resource/web[0] resource/web[1]"},
		{"by a pattern", "alice", "dependsOn:d*", "resources", "resource/web[0] resource/web[1]"},
		{"transitively, of what is outside", "alice", "dependsOn:the-bank", "resources", "resource/db resource/web[0] resource/web[1]"},
		{"operators see both", "root", "dependsOn:the-bank", "resources", "resource/db resource/db resource/web[0] resource/web[0] resource/web[1] resource/web[1]"},
		{"what the pages use", "alice", "usedBy:web*", "resources", "resource/db"},
		{"both at once", "alice", "usedBy:web* dependsOn:the-bank", "resources", "resource/db"},
		{"with a word", "alice", "books usedBy:web*", "", "resource/db"},
		{"with a word that does not match", "alice", "flowers usedBy:web*", "", ""},
		{"a wildcard of the database is none", "alice", "dependsOn:d%", "", ""},
		{"nor is a letter", "alice", "dependsOn:d_", "", ""},
		{"what is not there", "alice", "dependsOn:nothing", "", ""},
		{"a colon is a part of a word", "alice", "https://x", "", ""},
		{"quotes do no harm", "alice", `"' OR 1=1 --`, "", ""},
		{"nor do operators of the index", "alice", `demo AND NOT ( NEAR *`, "", ""},
	} {
		var found v1.SearchResults
		s.want(200, tc.who, "GET", "/api/v1/search?limit=100&q="+url.QueryEscape(tc.q)+"&kind="+tc.kind, "", &found)
		got := []string{}
		for _, f := range found.Items {
			got = append(got, f.Kind+"/"+f.Name)
			if tc.who == "alice" && f.Org != "acme" && f.Org != "" {
				t.Errorf("%s: shows what is of %s", tc.reason, f.Org)
			}
		}
		if slices.Sort(got); strings.Join(got, " ") != tc.want {
			t.Errorf("%s: %s found %q, want %q", tc.reason, tc.q, strings.Join(got, " "), tc.want)
		}
	}
	var some v1.SearchResults
	s.want(200, "root", "GET", "/api/v1/search?limit=2&q=web", "", &some)
	if len(some.Items) != 2 || some.Items[0].Rank < some.Items[1].Rank {
		t.Errorf("got %+v", some)
	}
}

// wellFormed reads a drawing as a browser does: one element, nothing that runs or
// loads.
func wellFormed(data []byte) bool {
	d := xml.NewDecoder(bytes.NewReader(data))
	depth, roots := 0, 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			return roots == 1 && depth == 0
		}
		if err != nil {
			return false
		}
		switch e := token.(type) {
		case xml.StartElement:
			if depth == 0 {
				roots++
			}
			depth++
			if !slices.Contains([]string{"svg", "style", "path", "g", "title", "rect", "text"}, e.Name.Local) {
				return false
			}
			for _, a := range e.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Name.Local, "href") {
					return false
				}
			}
		case xml.EndElement:
			depth--
		}
	}
}

func FuzzDrawing(f *testing.F) {
	for _, hostile := range []string{"db", `"><script>alert(1)</script>`, "]]>", "\x00\x01\ufffe\uffff", "\xff\xfe", "&amp;<!--", "a\nb\tc", strings.Repeat("ä", 99), "\u202eevil", "\U000e0001"} {
		f.Add(hostile, "ready", hostile, "shop")
		f.Add("web[0]", hostile, "", hostile)
	}
	f.Fuzz(func(t *testing.T, address, phase, message, environment string) {
		drawn, err := httpapi.DrawGraph(v1.Graph{Environment: environment, Phase: phase, Nodes: []v1.GraphNode{
			{Address: address, Executor: message, Phase: phase, Message: message, Drifted: true}, {Address: "x" + address, External: true}, {Address: "xx", Needs: []string{address}},
		}})
		if err != nil {
			return // of the same name twice
		}
		if !wellFormed(drawn) {
			t.Errorf("%q is drawn as %s", address, drawn)
		}
	})
}

// A drawing of nothing is one too.
func TestDrawingOfNothing(t *testing.T) {
	drawn, err := httpapi.DrawGraph(v1.Graph{Environment: "x"})
	if err != nil || !wellFormed(drawn) {
		t.Errorf("got %s, %v", drawn, err)
	}
}

func TestAddressOrder(t *testing.T) {
	got := []string{"web[10]", "web[2]", "web", "a10b2", "a10b10", "a9", "web[2].x", "db", "web[0]"}
	slices.SortFunc(got, httpapi.Address)
	want := "a9 a10b2 a10b10 db web web[0] web[2] web[2].x web[10]"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
	address := rapid.StringMatching(`[a-b0-2.\[\]]{0,6}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := address.Draw(t, "a"), address.Draw(t, "b"), address.Draw(t, "c")
		ab, ba := httpapi.Address(a, b), httpapi.Address(b, a)
		if ab != -ba || ab == 0 && a != b {
			t.Fatal(fmt.Sprint(a, " ", b, ": ", ab, " ", ba))
		}
		if ab <= 0 && httpapi.Address(b, c) <= 0 && httpapi.Address(a, c) > 0 {
			t.Fatalf("%q <= %q <= %q", a, b, c)
		}
	})
}
