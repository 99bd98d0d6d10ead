package gitops_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
	"github.com/droverhq/drover/internal/source"
	"github.com/droverhq/drover/internal/source/git"
	"github.com/droverhq/drover/test/gitserver"
)

func TestRepositoryConditions(t *testing.T) {
	const url = "https://git.example.org/acme/shop.git"
	all := func(reason, message string) []string {
		return []string{"ErrorOccurred True " + reason + ": " + message, "ValidRepositoryURL False " + reason + ": " + message, "ValidRepositoryCredential False " + reason + ": " + message}
	}
	good := []string{
		"ErrorOccurred False RepositoryCredentialUpToDate: RepositoryCredentials are Valid",
		"ValidRepositoryURL True ValidRepositoryUrl: Repository " + url + " exists",
		"ValidRepositoryCredential True RepositoryCredentialUpToDate: Repository Credentials provided login for Repository " + url + " are valid",
	}
	refused := func(why string) []string {
		text := "Repository Credentials provided login for Repository " + url + " are invalid"
		return []string{"ErrorOccurred True InvalidCredentials: " + text + ": " + why, good[1], "ValidRepositoryCredential False InvalidCredentials: " + text}
	}
	cases := []struct {
		reason string
		change func(in *gitops.RepositoryIntent)
		probe  error
		want   []string
		asked  int
	}{
		{"a good one", func(*gitops.RepositoryIntent) {}, nil, good, 1},
		{"an empty repository was opened", func(*gitops.RepositoryIntent) {}, fault.New(fault.NotFound, "it is empty").Because("empty"), good, 1},
		{"no Secret is named", func(in *gitops.RepositoryIntent) { in.SecretName, in.Secret = "", nil }, nil, all("SecretNotSpecified", "Secret field is missing value"), 0},
		{"the Secret is missing", func(in *gitops.RepositoryIntent) { in.Secret = nil }, nil, all("SecretNotFound", "Secret specified not found"), 0},
		{"the Secret has another type", func(in *gitops.RepositoryIntent) { in.Secret.Type = "Opaque" }, nil,
			all("SecretInvalidType", "Secret has an invalid type, must be managed-gitops.redhat.com/repository-credential"), 0},
		{"the Secret has no type", func(in *gitops.RepositoryIntent) { in.Secret.Type = "" }, nil,
			all("SecretInvalidType", "Secret has an invalid type, must be managed-gitops.redhat.com/repository-credential"), 0},
		{"the Secret is empty", func(in *gitops.RepositoryIntent) { in.Secret.Data = nil }, nil,
			all("InvalidCredentials", "Secret login holds neither a password nor an sshPrivateKey, or one that is too large"), 0},
		{"no URL", func(in *gitops.RepositoryIntent) { in.URL = "" }, nil, all("InvalidRepositoryUrl", "the repository URL is missing: name a Git repository"), 0},
		{"a directory of the server", func(in *gitops.RepositoryIntent) { in.URL = "/etc" }, nil, all("InvalidRepositoryUrl", "the repository URL is none: write https://host/org/repo, or git@host:org/repo"), 0},
		{"no such repository", func(*gitops.RepositoryIntent) {}, fault.New(fault.NotFound, "there is none"), all("InvalidRepositoryUrl", "Repository does not exist: there is none"), 1},
		{"no repository at all", func(*gitops.RepositoryIntent) {}, fault.New(fault.Invalid, "it is a web page").Because("source"), all("InvalidRepositoryUrl", "Repository does not exist: it is a web page"), 1},
		{"a credential that is refused", func(*gitops.RepositoryIntent) {}, fault.New(fault.Denied, "no").Because("credential"), refused("no"), 1},
		{"a host with another key", func(*gitops.RepositoryIntent) {}, fault.New(fault.Denied, "another key").Because("known-hosts"), refused("another key"), 1},
		{"a key that is none", func(*gitops.RepositoryIntent) {}, fault.New(fault.Invalid, "no key").Because("credential"), refused("no key"), 1},
		{"a server that is away", func(*gitops.RepositoryIntent) {}, fault.New(fault.Unavailable, "nobody listens"), []string{
			"ErrorOccurred True InvalidCredentials: The credential could not be checked yet: nobody listens",
			"ValidRepositoryURL Unknown InvalidCredentials: The credential could not be checked yet: nobody listens",
			"ValidRepositoryCredential Unknown InvalidCredentials: The credential could not be checked yet: nobody listens",
		}, 1},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			d := newDesk(t)
			d.gate.err = c.probe
			in := d.credential("r-1", 1, password("reader", "hunter2-s3cr3t"))
			c.change(&in)
			d.intendRepository(in)
			d.work(time.Second)
			view, _ := d.mirror.told["r-1"].(gitops.RepositoryView)
			if diff := cmp.Diff(c.want, lines(view.Conditions)); diff != "" {
				t.Error(diff)
			}
			if r := d.repository("r-1"); r.Status.Valid != (c.want[0] == good[0]) || (r.Status.Good != nil) != r.Status.Valid || r.Org != "main/shop" || len(d.gate.asked) != c.asked {
				t.Errorf("%s, %+v, asked %d times", r.Phase, r.Status, len(d.gate.asked))
			}
			d.nowhere("hunter2-s3cr3t")
		})
	}
}

// A rotated secret is another reference in what agents are told; the old one is
// destroyed only when nobody can still be told it.
func TestRotationReachesDeployments(t *testing.T) {
	d := newDesk(t)
	d.gate.opens = func(_ source.Location, with source.Credential) error {
		if with.Password != "first-s3cr3t" {
			return denied()
		}
		return nil
	}
	d.apply(d.intent("uid-1", 1))
	d.work(time.Second)
	if b := d.body("hub", "uid-1"); b.Credential != nil {
		t.Fatalf("a credential of nobody's: %+v", b.Credential)
	}
	d.intendRepository(d.credential("r-1", 1, password("reader", "first-s3cr3t")))
	d.work(time.Second)
	b, it := d.body("hub", "uid-1"), mustItem(d, "uid-1")
	if b.Credential == nil || b.Credential.Password != "first-s3cr3t" || b.Credential.Username != "reader" || b.Credential.ID != "r-1" {
		t.Fatalf("the agent is told %+v", b.Credential)
	}
	if b.Refresh == "" || strings.Contains(b.Refresh, "s3cr3t") {
		t.Errorf("Argo CD is not asked to look again: %q", b.Refresh)
	}
	first, looked := d.repository("r-1").Spec.Password, b.Refresh

	// Nothing new: nothing written.
	before := d.repository("r-1").Version
	d.intendRepository(d.credential("r-1", 1, password("reader", "first-s3cr3t")))
	if r := d.repository("r-1"); r.Version != before || r.Spec.Password != first {
		t.Errorf("an unchanged Secret was written: version %d, then %d", before, r.Version)
	}

	// One that the server does not take is kept from deployments, whose agent hears why.
	d.intendRepository(d.credential("r-1", 1, password("reader", "second-s3cr3t")))
	d.work(time.Second)
	if r := d.repository("r-1"); r.Status.Valid || r.Status.Good.Password != first || r.Spec.Password == first {
		t.Errorf("a bad one: %+v", r.Status)
	}
	if b := d.body("hub", "uid-1"); b.Credential.Password != "first-s3cr3t" || b.Refresh != looked || len(b.Refused) != 1 || mustItem(d, "uid-1").Generation != it.Generation+1 {
		t.Errorf("the agent is told %+v", b)
	}
	bad := d.repository("r-1").Spec.Password

	// The server learns of a third one.
	d.gate.opens = func(_ source.Location, with source.Credential) error {
		if with.Password != "third-s3cr3t" {
			return denied()
		}
		return nil
	}
	d.intendRepository(d.credential("r-1", 1, password("reader", "third-s3cr3t")))
	d.work(time.Second)
	if b := d.body("hub", "uid-1"); b.Credential.Password != "third-s3cr3t" || b.Refresh == looked || mustItem(d, "uid-1").Generation <= it.Generation {
		t.Errorf("the agent is told %+v", b.Credential)
	}
	d.must(d.s.Resync(context.Background(), "repository", "r-1"))
	d.work(time.Second)
	if d.opens(first) != "first-s3cr3t" {
		t.Error("the old one was destroyed while an agent may be fetching it")
	}
	d.work(25 * time.Minute)
	r := d.repository("r-1")
	if d.opens(first) != "shredded" || d.opens(bad) != "shredded" || len(r.Status.Retired) != 0 {
		t.Errorf("old ones are kept: %+v", r.Status.Retired)
	}
	if d.opens(r.Status.Good.Password) != "third-s3cr3t" {
		t.Error("the one in use was destroyed")
	}
	// Taken away: deployments lose it, at once.
	in := d.credential("r-1", 1, nil)
	in.Gone = true
	d.intendRepository(in)
	d.work(time.Second)
	if b := d.body("hub", "uid-1"); b.Credential != nil {
		t.Errorf("the agent is still told %+v", b.Credential)
	}
	last := r.Spec.Password
	d.work(25 * time.Minute)
	if d.opens(last) != "shredded" || d.repository("r-1").Phase != gitops.Gone {
		t.Error("it is still there")
	}
	d.nowhere("first-s3cr3t", "second-s3cr3t", "third-s3cr3t")
}

func mustItem(d *desk, id string) gitops.Item {
	it, ok := d.item("hub", id)
	if !ok {
		d.t.Fatalf("nobody has %s", id)
	}
	return it
}

// A missing Secret is no order to take the credential away.
func TestMissingSecretTakesNothing(t *testing.T) {
	d := newDesk(t)
	d.apply(d.intent("uid-1", 1))
	d.intendRepository(d.credential("r-1", 1, password("reader", "first-s3cr3t")))
	d.work(time.Second)
	d.intendRepository(d.credential("r-1", 1, nil))
	d.work(time.Hour)
	if r := d.repository("r-1"); r.Status.Valid || r.Status.Good == nil || d.opens(r.Status.Good.Password) != "first-s3cr3t" {
		t.Errorf("%+v", r.Status)
	}
	if b := d.body("hub", "uid-1"); b.Credential == nil || b.Credential.Password != "first-s3cr3t" {
		t.Errorf("the agent is told %+v", b.Credential)
	}
	if view := d.mirror.told["r-1"].(gitops.RepositoryView); view.Conditions[0].Reason != "SecretNotFound" {
		t.Errorf("%v", lines(view.Conditions))
	}
}

// A run tells the custom resource before it writes that down. If what it worked on
// was changed meanwhile it writes nothing, and the next one must not take it that the
// custom resource still says what it was told before.
func TestWhatWasToldAndNotWrittenDownIsToldOver(t *testing.T) {
	d := newDesk(t)
	d.intendRepository(d.credential("r-1", 1, nil))
	d.work(time.Second)
	before := d.mirror.told["r-1"].(gitops.RepositoryView)
	d.intendRepository(d.credential("r-1", 1, password("reader", "first-s3cr3t")))
	d.mirror.told["r-1"] = gitops.RepositoryView{} // by a run whose write came too late for the next intent
	d.intendRepository(d.credential("r-1", 1, nil))
	d.work(time.Second)
	if diff := cmp.Diff(lines(before.Conditions), lines(d.mirror.told["r-1"].(gitops.RepositoryView).Conditions)); diff != "" {
		t.Errorf("what it says is not so (-want +got):\n%s", diff)
	}
}

// A server that does not answer says nothing about a credential.
func TestServerAwayKeepsTheVerdict(t *testing.T) {
	d := newDesk(t)
	d.intendRepository(d.credential("r-1", 1, password("reader", "first-s3cr3t")))
	d.work(time.Second)
	told := d.mirror.times["r-1"]
	d.gate.err = fault.New(fault.Unavailable, "nobody listens")
	d.work(10*time.Minute + time.Second)
	r := d.repository("r-1")
	if !r.Status.Valid || r.Status.Good == nil || d.mirror.times["r-1"] != told {
		t.Errorf("one lost connection is told: %+v, %d times", r.Status, d.mirror.times["r-1"]-told)
	}
	d.work(30 * time.Minute)
	r = d.repository("r-1")
	view := d.mirror.told["r-1"].(gitops.RepositoryView)
	if !r.Status.Valid || len(view.Conditions) != 3 || view.Conditions[0].Status != "False" || !strings.Contains(view.Conditions[0].Message, "nobody listens") || d.mirror.times["r-1"] != told+1 {
		t.Errorf("%v, told %d times", lines(view.Conditions), d.mirror.times["r-1"]-told)
	}
	d.gate.err = nil
	d.work(2 * time.Minute)
	view = d.mirror.told["r-1"].(gitops.RepositoryView)
	if view.Conditions[0].Message != "RepositoryCredentials are Valid" || d.mirror.times["r-1"] != told+2 {
		t.Errorf("%v", lines(view.Conditions))
	}
}

// Checked every ten minutes, and told once.
func TestRecheck(t *testing.T) {
	d := newDesk(t)
	d.intendRepository(d.credential("r-1", 1, password("reader", "x-s3cr3t")))
	d.work(time.Hour)
	if n := len(d.gate.asked); n < 6 || n > 8 || d.mirror.times["r-1"] != 1 {
		t.Errorf("asked %d times in an hour, told %d times", n, d.mirror.times["r-1"])
	}
	commits, asked := d.store.commits, len(d.gate.asked)
	d.work(10 * time.Hour)
	if n, m := d.store.commits-commits, len(d.gate.asked)-asked; n > 10 || m < 55 {
		t.Errorf("in ten hours of rest %d checks have written %d times", m, n)
	}
	d.must(d.s.Resync(context.Background(), "repository", "r-1"))
	asked = len(d.gate.asked)
	d.work(time.Minute)
	if n := len(d.gate.asked) - asked; n > 1 {
		t.Errorf("who is woken between two checks asks %d times", n)
	}
	d.mirror.away = true
	d.gate.err = denied()
	d.work(11 * time.Minute)
	d.mirror.away = false
	d.work(time.Minute)
	if view := d.mirror.told["r-1"].(gitops.RepositoryView); view.Conditions[0].Reason != "InvalidCredentials" {
		t.Errorf("what could not be told was lost: %v", lines(view.Conditions))
	}
}

func TestRepositoryRefusals(t *testing.T) {
	d := newDesk(t)
	ctx := context.Background()
	in := d.credential("r-1", 2, password("reader", "x-s3cr3t"))
	d.intendRepository(in)
	cases := []struct {
		reason, because string
		kind            fault.Kind
		change          func(in *gitops.RepositoryIntent)
	}{
		{"an older view", "stale", fault.Conflict, func(in *gitops.RepositoryIntent) { in.Generation = 1 }},
		{"no namespace", "namespace", fault.NotFound, func(in *gitops.RepositoryIntent) { in.UID, in.Namespace.Missing = "r-2", true }},
		{"a namespace that ends", "terminating", fault.Conflict, func(in *gitops.RepositoryIntent) { in.UID, in.Namespace.Terminating = "r-2", true }},
		{"gone, and never known", "unknown", fault.NotFound, func(in *gitops.RepositoryIntent) { in.UID, in.Gone = "r-2", true }},
		{"of another API", "stranger", fault.Conflict, func(in *gitops.RepositoryIntent) { in.Namespace.Home = "elsewhere" }},
	}
	for _, c := range cases {
		bad := in
		c.change(&bad)
		if err := d.s.IntendRepository(ctx, bad); !fault.Is(err, c.kind) || fault.Reason(err) != c.because {
			t.Errorf("%s: %v (%s)", c.reason, err, fault.Reason(err))
		}
	}
	in.Gone = true
	d.intendRepository(in)
	d.work(time.Second)
	in.Gone = false
	if err := d.s.IntendRepository(ctx, in); fault.Reason(err) != "stale" {
		t.Errorf("one that was deleted came back: %v", err)
	}
}

// Tenants have their own, and only theirs.
func TestRepositoryVerbs(t *testing.T) {
	d := newDesk(t)
	order := gitops.RepositoryOrder{Name: "shop", URL: "https://git.example.org/acme/shop", Username: "anna", Password: "anna-s3cr3t"}
	r, err := d.s.PutRepository(anna, order)
	d.must(err)
	d.work(time.Second)
	if r = d.repository(r.ID); r.Status.Good == nil || r.Org != "acme" || r.Owner != "anna" || !r.Status.Valid {
		t.Fatalf("%+v", r)
	}
	again, err := d.s.PutRepository(anna, gitops.RepositoryOrder{Name: "shop", URL: order.URL, Username: "anna", Password: "next-s3cr3t"})
	d.must(err)
	if again.ID != r.ID || again.Spec.Password == r.Spec.Password {
		t.Errorf("put twice: %+v", again)
	}
	bert := access.With(context.Background(), access.Principal{User: "bert", Org: "acme"})
	cases := []struct {
		reason string
		err    error
		kind   fault.Kind
	}{
		{"somebody of another organisation", d.s.DeleteRepository(carl, r.ID), fault.NotFound},
		{"by name neither", d.s.DeleteRepository(carl, "shop"), fault.NotFound},
		{"a colleague does not take it away", d.s.DeleteRepository(bert, r.ID), fault.Denied},
		{"nobody", d.s.DeleteRepository(context.Background(), r.ID), fault.NotFound},
	}
	for _, bad := range []gitops.RepositoryOrder{
		{Name: "Shop", URL: order.URL, Password: "x"}, {Name: "x", URL: order.URL}, {Name: "x", URL: "/etc", Password: "x"},
		{Name: "x", URL: "file:///etc", Password: "x"}, {Name: "x", URL: "https://me:s3cr3t-pw@host/repo", Password: "x"},
		{Name: "x", URL: order.URL, SSHKey: "key"}, {Name: "x", URL: "http://git.example.org/x", Password: "x"},
	} {
		_, err := d.s.PutRepository(anna, bad)
		cases = append(cases, struct {
			reason string
			err    error
			kind   fault.Kind
		}{"an order that cannot be: " + bad.URL, err, fault.Invalid})
	}
	_, err = d.s.PutRepository(bert, order)
	cases = append(cases, struct {
		reason string
		err    error
		kind   fault.Kind
	}{"a colleague does not replace it", err, fault.Denied})
	for _, c := range cases {
		if !fault.Is(c.err, c.kind) || strings.Contains(c.err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", c.reason, c.err)
		}
	}
	d.must(d.s.DeleteRepository(anna, "shop"))
	d.work(time.Second)
	if o := d.repository(r.ID); o.Phase != gitops.Gone || o.Deleted.IsZero() {
		t.Errorf("%s", o.Phase)
	}
	if _, err := d.s.PutRepository(bert, order); err != nil {
		t.Errorf("the name is not free: %v", err)
	}
	d.nowhere("anna-s3cr3t", "next-s3cr3t")
}

// With a real server, by both ways.
func TestRealServers(t *testing.T) {
	d := newDesk(t)
	server := gitserver.Start(t, gitserver.WithPassword("reader", "real-s3cr3t"))
	repo := server.Repo(t, "Team/Shop")
	repo.Commit(t, "main", map[string]gitserver.Entry{"a": gitserver.File("a")})
	ssh := server.SSH(t)
	d.s.Prober = git.Source{}
	put := func(name, url string, data map[string]string) gitops.Repository {
		secret := password("", "")
		for k, v := range data {
			secret.Data[k] = []byte(v)
		}
		in := d.credential(name, 1, secret)
		in.URL = url
		d.intendRepository(in)
		d.work(time.Second)
		return d.repository(name)
	}
	cases := []struct {
		reason, url string
		data        map[string]string
		want        string
	}{
		{"https", repo.URL, map[string]string{"username": "reader", "password": "real-s3cr3t"}, "RepositoryCredentialUpToDate"},
		{"https-wrong", repo.URL, map[string]string{"username": "reader", "password": "gue55"}, "InvalidCredentials"},
		{"https-case", strings.ToLower(repo.URL), map[string]string{"username": "reader", "password": "real-s3cr3t"}, "InvalidRepositoryUrl"},
		{"ssh", ssh.URL(repo), map[string]string{"sshPrivateKey": string(ssh.Key), "knownHosts": ssh.KnownHosts}, "RepositoryCredentialUpToDate"},
		{"ssh-unknown-host", ssh.URL(repo), map[string]string{"sshPrivateKey": string(ssh.Key)}, "InvalidCredentials"},
	}
	for _, c := range cases {
		if r := put(c.reason, c.url, c.data); r.Status.Conditions[0].Reason != c.want {
			t.Errorf("%s: %v", c.reason, lines(r.Status.Conditions))
		}
	}
	d.s.KnownHosts = []byte(ssh.KnownHosts)
	if r := put("ssh-server-knows-host", ssh.URL(repo), map[string]string{"sshPrivateKey": string(ssh.Key)}); !r.Status.Valid {
		t.Errorf("%v", lines(r.Status.Conditions))
	}
	d.nowhere("real-s3cr3t", "gue55", "OPENSSH PRIVATE KEY")
}

// One that has not taken up the new secret keeps the old one alive.
func TestLaggingDeployment(t *testing.T) {
	d := newDesk(t)
	d.apply(d.intent("uid-1", 1))
	d.intendRepository(d.credential("r-1", 1, password("reader", "first-s3cr3t")))
	d.work(time.Second)
	first := d.repository("r-1").Spec.Password
	// Its spec cannot be carried out any more: what agents have of it stays.
	bad := d.intent("uid-1", 2)
	bad.Path = ""
	d.apply(bad)
	d.work(time.Second)
	if b := d.body("hub", "uid-1"); b.Credential == nil || b.Credential.Password != "first-s3cr3t" {
		t.Fatalf("the agent is told %+v", b.Credential)
	}
	d.intendRepository(d.credential("r-1", 1, password("reader", "second-s3cr3t")))
	d.work(3 * time.Hour)
	if b := d.body("hub", "uid-1"); b.Credential == nil || b.Credential.Password != "first-s3cr3t" || d.opens(first) != "first-s3cr3t" {
		t.Fatalf("the agent is told %+v", b.Credential)
	}
	good := d.intent("uid-1", 3)
	d.apply(good)
	d.work(30 * time.Minute)
	if b := d.body("hub", "uid-1"); b.Credential.Password != "second-s3cr3t" || d.opens(first) != "shredded" {
		t.Errorf("the agent is told %+v; the old one is %s", b.Credential, d.opens(first))
	}
}
