package httpapi_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/operation"
)

func TestResources(t *testing.T) {
	w := newWorld(t)
	var got v1.Resources
	w.want(200, "alice", "GET", "/api/v1/kinds", "", &got)
	names := map[string]string{}
	for _, r := range got.Items {
		names[r.Name] = r.Kind + " " + r.Offering
	}
	want := map[string]string{"instances": "instance ", "offerings": "offering ", "clusters": "cluster ", "profiles": "clusterprofile ", "operations": "operation ", "dinosaurs": "instance dinosaur",
		"quotas": "quota ", "denylists": "denylist ", "accesslists": "accesslist ", "terms": "terms ", "acceptances": "acceptance ", "audits": "audit ", "users": "user ", "serviceaccounts": "serviceaccount "}
	if d := cmp.Diff(want, names); d != "" {
		t.Error(d)
	}
}

func TestOrderUpdateDelete(t *testing.T) {
	w := newWorld(t)
	var made v1.Object
	resp := w.want(202, "alice", "POST", "/api/v1/dinosaurs", `{"name": "rex", "parameters": {"species": "Triceratops"}}`, &made)
	if made.Resource != "dinosaurs" || made.Phase != "accepted" || made.Org != "acme" || made.Owner != "alice" {
		t.Errorf("the order became %+v", made)
	}
	var op v1.Object
	w.want(200, "alice", "GET", "/api/v1/operations/"+resp.Header.Get("Drover-Operation"), "", &op)
	if op.Phase != "running" || op.Parent != made.ID {
		t.Errorf("its operation is %+v", op)
	}
	var got v1.Object
	w.want(200, "arthur", "GET", "/api/v1/dinosaur/rex", "", &got)
	if got.ID != made.ID {
		t.Errorf("by the singular and the name: %+v", got)
	}
	resp = w.want(202, "alice", "PATCH", "/api/v1/dinosaurs/rex", `{"parameters": {"species": "Diplodocus"}}`, &got)
	if got.Generation <= made.Generation || resp.Header.Get("Drover-Operation") == op.ID {
		t.Errorf("the update left %+v", got)
	}
	w.want(202, "alice", "DELETE", "/api/v1/dinosaurs/"+made.ID, "", &got)
	if got.Phase != instance.Deprovision {
		t.Errorf("the deletion left %+v", got)
	}
	w.edit(made.ID, func(in *instance.Instance) { in.Phase, in.Deleted = instance.Deleting, time.Now() })
	var e v1.Error
	w.want(404, "alice", "GET", "/api/v1/dinosaurs/"+made.ID, "", &e)
	var past v1.Changes
	w.want(200, "alice", "GET", "/api/v1/dinosaurs/rex/history", "", &past)
	if n := len(past.Items); n != 4 || past.Items[n-1].Object.Deleted == nil {
		t.Errorf("the history of what is gone has %d entries", n)
	}
}

func TestWhoMayWhat(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	rex := w.create("alice", "rex")
	mine := w.create("carol", "mine")
	cases := map[string]struct {
		reason, who, method, path, body string
		want                            int
	}{
		"other org":         {"Other organisations' instances do not exist.", "bob", "GET", "/api/v1/dinosaurs/" + rex.ID, "", 404},
		"other org history": {"Nor does their past.", "bob", "GET", "/api/v1/dinosaurs/" + rex.ID + "/history", "", 404},
		"other org at":      {"Nor their state at a moment.", "bob", "GET", "/api/v1/dinosaurs/" + rex.ID + "?at=1", "", 404},
		"other user":        {"Without an organisation only the owner sees it.", "dave", "GET", "/api/v1/dinosaurs/" + mine.ID, "", 404},
		"owner":             {"The owner does.", "carol", "GET", "/api/v1/dinosaurs/" + mine.ID, "", 200},
		"operator":          {"The operator sees everything.", "root", "GET", "/api/v1/instances/" + mine.ID, "", 200},
		"clusters":          {"Clusters are the operator's.", "alice", "GET", "/api/v1/clusters", "", 403},
		"cluster":           {"One of them too.", "alice", "GET", "/api/v1/clusters/c1", "", 403},
		"clusters root":     {"The operator sees them.", "root", "GET", "/api/v1/clusters/c1", "", 200},
		"offerings":         {"Everybody may read what is sold.", "dave", "GET", "/api/v1/offerings/dinosaur", "", 200},
		"agent":             {"An agent sees no instances.", "agent-c1", "GET", "/api/v1/dinosaurs", "", 403},
		"ledger":            {"The ledger is the operator's.", "alice", "GET", "/api/v1/ledger", "", 403},
		"tokens":            {"Tokens are the operator's to give.", "alice", "POST", "/api/v1/tokens", `{"user": "mallory", "admin": true}`, 403},
		"apply":             {"Offerings are the operator's to change.", "alice", "PUT", "/api/v1/offerings", "kind: Offering", 403},
		"unapply":           {"And to remove.", "alice", "DELETE", "/api/v1/offerings/dinosaur", "", 403},
		"nobody":            {"Nothing is open.", "", "GET", "/api/v1/kinds", "", 401},
		"org delete":        {"A colleague may not delete it.", "alice", "DELETE", "/api/v1/dinosaurs/" + mine.ID, "", 404},
		"order operations":  {"An operation is not ordered like an instance.", "root", "POST", "/api/v1/operations", `{"name": "x"}`, 405},
		"register":          {"Clusters are the operator's to register.", "alice", "POST", "/api/v1/clusters", `{"name": "x", "cloud_provider": "local", "region": "local"}`, 403},
		"register root":     {"Who may do so.", "root", "POST", "/api/v1/clusters", `{"name": "x", "cloud_provider": "local", "region": "local"}`, 201},
		"unknown":           {"An unknown resource is not found.", "root", "GET", "/api/v1/nonsense", "", 404},
		"signing keys":      {"Kinds that are no resource are nobody's business.", "root", "GET", "/api/v1/signingkeys", "", 404},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var e v1.Error
			resp := w.request(c.who, c.method, c.path, c.body, &e)
			if resp.StatusCode != c.want {
				t.Errorf("%s: got %d (%s), want %d", c.reason, resp.StatusCode, e.Reason, c.want)
			}
			if c.want >= 400 && (e.Kind != "Error" || e.Code == "" || c.want != 401 && e.OperationID == "") {
				t.Errorf("%s: the error object is %+v", c.reason, e)
			}
		})
	}
}

func TestBadInput(t *testing.T) {
	w := newWorld(t)
	before := w.head().Seq
	const secret = "hunter2-do-not-repeat"
	cases := map[string]struct {
		reason, method, path, body string
		want                       int
	}{
		"malformed":    {"What is no JSON is refused.", "POST", "/api/v1/dinosaurs", `{"name": `, 400},
		"two values":   {"One object, no more.", "POST", "/api/v1/dinosaurs", `{"name": "a"}{}`, 400},
		"twice":        {"A field that is given twice is ambiguous.", "POST", "/api/v1/dinosaurs", `{"name": "a", "name": "b"}`, 400},
		"array":        {"A list is no object.", "POST", "/api/v1/dinosaurs", `[]`, 400},
		"empty":        {"An order has a body.", "POST", "/api/v1/dinosaurs", ``, 400},
		"null map":     {"Null is no value.", "POST", "/api/v1/dinosaurs", `{"name": "a", "parameters": null}`, 400},
		"wrong type":   {"A name is text.", "POST", "/api/v1/dinosaurs", `{"name": 7}`, 400},
		"unknown":      {"An unknown field was meant by somebody.", "POST", "/api/v1/dinosaurs", `{"name": "a", "` + secret + `x": "` + secret + `"}`, 400},
		"value":        {"A rejected value is not repeated.", "POST", "/api/v1/dinosaurs", `{"name": "a", "plan": ["` + secret + `"]}`, 400},
		"utf-8":        {"Text is UTF-8.", "POST", "/api/v1/dinosaurs", "{\"name\": \"\xff\"}", 400},
		"long name":    {"A megabyte is no name.", "POST", "/api/v1/dinosaurs", `{"name": "` + strings.Repeat("a", 1<<20-100) + `"}`, 400},
		"huge":         {"A body has a limit.", "POST", "/api/v1/dinosaurs", `{"name": "` + strings.Repeat("a", 10<<20) + `"}`, 400},
		"parameter":    {"The offering's schema holds.", "POST", "/api/v1/dinosaurs", `{"name": "a", "parameters": {"species": 5}}`, 400},
		"search":       {"SQL is no search.", "GET", "/api/v1/dinosaurs?search=name%27%3B%20DROP%20TABLE%20x", "", 400},
		"order":        {"An unknown column sorts nothing.", "GET", "/api/v1/dinosaurs?orderBy=nonsense", "", 400},
		"size":         {"A page has a size.", "GET", "/api/v1/dinosaurs?size=0", "", 400},
		"size text":    {"A size is a number.", "GET", "/api/v1/dinosaurs?size=" + secret, "", 400},
		"at":           {"A moment is a sequence or a time.", "GET", "/api/v1/dinosaurs/x?at=yesterday", "", 400},
		"after":        {"A place in the log is a number.", "GET", "/api/v1/watch?after=x", "", 400},
		"after future": {"A place that the log has not reached is another log's.", "GET", "/api/v1/watch?after=999999", "", 409},
		"kind":         {"An unknown kind is a mistake.", "GET", "/api/v1/changes?kind=signingkey", "", 400},
		"method":       {"There is no such verb.", "PUT", "/api/v1/dinosaurs/rex", "{}", 404},
		"zero byte":    {"No id holds a zero byte.", "GET", "/api/v1/dinosaurs/a%00b", "", 404},
		"bad utf-8 id": {"Nor half a letter.", "GET", "/api/v1/dinosaurs/%ff", "", 404},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			resp := w.request("alice", c.method, c.path, c.body, nil)
			data, _ := io.ReadAll(resp.Body)
			var e v1.Error
			if err := json.Unmarshal(data, &e); err != nil || e.Kind != "Error" {
				t.Fatalf("%s: the answer is %q", c.reason, data)
			}
			if resp.StatusCode != c.want && !(name == "method" && resp.StatusCode == 405) {
				t.Errorf("%s: got %d (%s), want %d", c.reason, resp.StatusCode, e.Reason, c.want)
			}
			if strings.Contains(strings.ReplaceAll(string(data), secret+"x", ""), secret) {
				t.Errorf("%s: the answer repeats the value: %s", c.reason, data)
			}
		})
	}
	if after := w.head().Seq; after != before {
		t.Errorf("bad input wrote %d changes", after-before)
	}
	if strings.Contains(strings.ReplaceAll(w.logged(), secret+"x", ""), secret) {
		t.Error("the log holds a rejected value")
	}
}

func TestListSearchOrder(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"rex", "anna", "rita"} {
		w.create("alice", name)
	}
	w.create("bob", "rob")
	names := func(l v1.List) (out []string) {
		for _, o := range l.Items {
			out = append(out, o.Name)
		}
		return out
	}
	var got v1.List
	w.want(200, "alice", "GET", "/api/v1/dinosaurs?orderBy=name+desc&search=name+LIKE+r%25+AND+status+%3D+accepted", "", &got)
	if d := cmp.Diff([]string{"rita", "rex"}, names(got)); d != "" || got.Total != 2 || got.Seq != w.head().Seq {
		t.Errorf("%s (total %d, seq %d)", d, got.Total, got.Seq)
	}
	w.want(200, "alice", "GET", "/api/v1/instances?orderBy=name&size=2&page=2", "", &got)
	if d := cmp.Diff([]string{"rita"}, names(got)); d != "" || got.Total != 3 {
		t.Errorf("%s (total %d)", d, got.Total)
	}
	w.want(200, "root", "GET", "/api/v1/dinosaurs?orderBy=created_at", "", &got)
	if d := cmp.Diff([]string{"rex", "anna", "rita", "rob"}, names(got)); d != "" {
		t.Error(d)
	}
}

func TestThePast(t *testing.T) {
	w := newWorld(t)
	rex := w.create("alice", "rex")
	born := w.head()
	w.edit(rex.ID, func(in *instance.Instance) { in.Phase = instance.Preparing })
	w.edit(rex.ID, func(in *instance.Instance) { in.Phase, in.Deleted = instance.Deleting, time.Now() })
	at := func(who, moment string, want int) v1.Object {
		t.Helper()
		var o v1.Object
		w.want(want, who, "GET", "/api/v1/dinosaurs/rex?at="+moment, "", &o)
		return o
	}
	if o := at("alice", seqText(born.Seq), 200); o.Phase != "accepted" || o.Version != 1 {
		t.Errorf("at birth it was %+v", o)
	}
	if o := at("alice", seqText(born.Seq+1), 200); o.Phase != "preparing" {
		t.Errorf("then it was %+v", o)
	}
	at("alice", seqText(born.Seq+2), 404)
	at("alice", "2001-01-01T00:00:00Z", 404)
	at("bob", seqText(born.Seq), 404)
	var past v1.Changes
	w.want(200, "alice", "GET", "/api/v1/dinosaurs/rex/history?limit=2", "", &past)
	if len(past.Items) != 2 || past.Items[0].Op != "create" || past.Items[0].Cause != "request:test" || past.Items[0].Actor != "alice" {
		t.Errorf("its history begins with %+v", past.Items)
	}
	w.want(200, "alice", "GET", "/api/v1/dinosaurs/rex/history?after="+seqText(past.Next), "", &past)
	if len(past.Items) != 1 || past.Items[0].Object.Deleted == nil {
		t.Errorf("its history ends with %+v", past.Items)
	}
}

func TestThePastObeysTheOwnerOfToday(t *testing.T) {
	w := newWorld(t)
	mine := w.create("carol", "mine")
	w.edit(mine.ID, func(in *instance.Instance) { in.Owner = "dave" })
	w.want(404, "carol", "GET", "/api/v1/dinosaurs/"+mine.ID+"/history", "", nil)
	w.want(404, "carol", "GET", "/api/v1/dinosaurs/"+mine.ID+"?at="+seqText(mine.Version), "", nil)
	var past v1.Changes
	w.want(200, "dave", "GET", "/api/v1/dinosaurs/"+mine.ID+"/history", "", &past)
	if len(past.Items) != 2 || past.Items[0].Object.Owner != "carol" {
		t.Errorf("dave sees %+v", past.Items)
	}
	w.want(200, "carol", "GET", "/api/v1/changes?resource=dinosaurs", "", &past)
	if len(past.Items) != 0 {
		t.Errorf("carol still sees %+v", past.Items)
	}
	w.want(200, "dave", "GET", "/api/v1/changes?resource=dinosaurs", "", &past)
	if len(past.Items) != 2 {
		t.Errorf("dave sees %d changes", len(past.Items))
	}
}

func TestTheNewestChangesObeyTheSameRules(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	for _, name := range []string{"ann", "bob", "cid"} {
		w.create("alice", name)
		w.create("carol", "c"+name)
	}
	handed := w.create("carol", "handed")
	w.edit(handed.ID, func(in *instance.Instance) { in.Owner = "dave" })
	w.want(400, "root", "GET", "/api/v1/changes?newest=3&after=1", "", nil)
	w.want(400, "root", "GET", "/api/v1/changes?newest=1001", "", nil)
	for _, who := range []string{"root", "alice", "bob", "carol", "dave"} {
		for _, about := range []string{"", "&resource=dinosaurs", "&kind=operation", "&resource=dinosaurs&id=" + handed.ID} {
			var all v1.Changes
			w.want(200, who, "GET", "/api/v1/changes?limit=1000"+about, "", &all)
			for n := 1; n <= len(all.Items)+1; n++ {
				want := v1.Changes{Items: all.Items[max(0, len(all.Items)-n):], Next: all.Next}
				var got v1.Changes
				w.want(200, who, "GET", fmt.Sprintf("/api/v1/changes?newest=%d%s", n, about), "", &got)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, the newest %d%s are the end of all that is seen (-want +got):\n%s", who, n, about, diff)
				}
			}
		}
	}
}

func TestTheNewestChangesSayHowFarBackTheyLooked(t *testing.T) {
	w := newWorld(t)
	w.create("alice", "rex")
	for range 21 {
		set := ledger.Set{Actor: "bob", Cause: ledger.BySchedule("test")}
		for range 1000 {
			set.Puts = append(set.Puts, operation.Start("create", ledger.Object{Ref: ledger.Ref{Kind: "instance", ID: ledger.NewID()}, Org: "umbrella"}, ledger.BySchedule("test")))
		}
		if _, err := w.ledger.Commit(t.Context(), set); err != nil {
			t.Fatal(err)
		}
	}
	var got v1.Changes
	w.want(200, "alice", "GET", "/api/v1/changes?newest=1", "", &got)
	if len(got.Items) != 0 || got.Next-got.Since != 20_000 {
		t.Errorf("behind 21,000 changes of others there are %d, looked at from %d to %d", len(got.Items), got.Since, got.Next)
	}
	w.want(200, "alice", "GET", "/api/v1/changes?newest=1&resource=dinosaurs", "", &got)
	if len(got.Items) != 1 || got.Items[0].Object.Name != "rex" {
		t.Errorf("of what is looked up by kind and organisation others' changes are no obstacle: %+v", got)
	}
}

func TestTenantsDoNotSeePlumbing(t *testing.T) {
	w := newWorld(t)
	w.register("c1")
	rex := w.place(w.create("alice", "rex").ID, "c1")
	for path, who := range map[string]string{
		"/api/v1/dinosaurs/rex": "alice", "/api/v1/dinosaurs": "alice", "/api/v1/dinosaurs/rex/history": "alice", "/api/v1/changes": "alice",
	} {
		resp := w.want(200, who, "GET", path, "", nil)
		data, _ := io.ReadAll(resp.Body)
		if strings.Contains(string(data), `"desired"`) || strings.Contains(string(data), `"secret"`) {
			t.Errorf("%s shows the data plane's document: %s", path, data)
		}
	}
	var o v1.Object
	w.want(200, "root", "GET", "/api/v1/dinosaurs/"+rex.ID, "", &o)
	if !strings.Contains(string(o.Status), `"desired"`) {
		t.Error("the operator does not see it either")
	}
}

func TestOperator(t *testing.T) {
	w := newWorld(t)
	var head v1.Ledger
	w.want(200, "root", "GET", "/api/v1/ledger", "", &head)
	if want := w.head(); head.Ledger != want.Ledger || head.Epoch != want.Epoch || head.Seq != want.Seq {
		t.Errorf("the ledger is %+v, not %+v", head, want)
	}
	var who v1.WhoAmI
	w.want(200, "arthur", "GET", "/api/v1/whoami", "", &who)
	if d := cmp.Diff(v1.WhoAmI{User: "arthur", Org: "acme", OrgAdmin: true}, who); d != "" {
		t.Error(d)
	}
	var token v1.Token
	w.want(201, "root", "POST", "/api/v1/tokens", `{"user": "eve", "org": "acme", "ttl": "90s"}`, &token)
	if strings.Count(token.Token, ".") != 2 || time.Until(token.Expires) > 91*time.Second {
		t.Errorf("the token is %+v", token)
	}
	w.want(400, "root", "POST", "/api/v1/tokens", `{"user": "eve", "ttl": "long"}`, nil)
	var config map[string]any
	w.want(200, "", "GET", "/.well-known/openid-configuration", "", &config)
	if config["issuer"] != "drover" || !strings.HasSuffix(config["jwks_uri"].(string), "/.well-known/jwks.json") {
		t.Errorf("the configuration is %v", config)
	}
	var caught v1.Error
	w.want(200, "alice", "GET", "/api/v1/errors/36", "", &caught)
	if caught.Code != "DROVER-36" {
		t.Errorf("error 36 is %+v", caught)
	}
}

func TestApplyOffering(t *testing.T) {
	w := newWorld(t)
	data := strings.NewReplacer("dinosaur", "dragon", "Dinosaur", "Dragon", "DINOSAURS", "DRAGONS").Replace(string(w.dinosaur().Data()))
	var made v1.Object
	w.want(200, "root", "PUT", "/api/v1/offerings", data, &made)
	if made.Resource != "offerings" || made.Name != "dragon" {
		t.Errorf("the offering became %+v", made)
	}
	w.want(202, "alice", "POST", "/api/v1/dragons", `{"name": "smaug"}`, nil)
	var e v1.Error
	w.want(400, "root", "PUT", "/api/v1/offerings", "kind: Offering\nspec:\n  colour: red\n  types: 7\n", &e)
	for _, part := range []string{"3:", "4:", "colour", "types"} {
		if !strings.Contains(e.Reason, part) {
			t.Errorf("the mistakes do not tell %q: %s", part, e.Reason)
		}
	}
	if resp := w.request("alice", http.MethodGet, "/api/v1/dragons/smaug", "", nil); resp.StatusCode != 200 {
		t.Errorf("the last good version is not in force: %d", resp.StatusCode)
	}
}

func seqText(n int64) string { b, _ := json.Marshal(n); return string(b) }
