package gitops_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/gitops"
)

const (
	hookSecret = "hook-s3cr3t"
	oldCommit  = "1111111111111111111111111111111111111111"
	newCommit  = "2222222222222222222222222222222222222222"
	noCommit   = "0000000000000000000000000000000000000000"
)

func signature(body, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

func headers(pairs ...string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// What each really sends, shortened to what has a meaning here and some besides.
const (
	githubBody = `{"ref":"refs/heads/main","before":"` + oldCommit + `","after":"` + newCommit + `","created":false,"deleted":false,"forced":true,
"commits":[{"id":"` + newCommit + `","message":"x"}],"pusher":{"name":"ann"},
"repository":{"id":1,"name":"shop","full_name":"acme/shop","private":true,"html_url":"https://github.com/acme/shop","git_url":"git://github.com/acme/shop.git",
"ssh_url":"git@github.com:acme/shop.git","clone_url":"https://github.com/acme/shop.git","default_branch":"main","url":"https://api.github.com/repos/acme/shop"}}`
	giteaBody = `{"ref":"refs/tags/v1","before":"` + noCommit + `","after":"` + newCommit + `","compare_url":"","commits":[],"total_commits":0,
"repository":{"id":1,"name":"shop","full_name":"acme/shop","html_url":"https://gitea.example.org/acme/shop","ssh_url":"ssh://git@gitea.example.org:2222/acme/shop.git",
"clone_url":"https://gitea.example.org/acme/shop.git","default_branch":"trunk"},"pusher":{"login":"ann"}}`
	gitlabBody = `{"object_kind":"push","event_name":"push","before":"` + oldCommit + `","after":"` + newCommit + `","ref":"refs/heads/side","checkout_sha":"` + newCommit + `",
"user_username":"ann","project_id":15,"project":{"id":15,"name":"Shop","web_url":"https://gitlab.example.org/acme/shop","git_ssh_url":"git@gitlab.example.org:acme/shop.git",
"git_http_url":"https://gitlab.example.org/acme/shop.git","path_with_namespace":"acme/shop","default_branch":"main"},
"repository":{"name":"Shop","url":"git@gitlab.example.org:acme/shop.git"},"total_commits_count":1}`
	cloudBody = `{"push":{"changes":[
{"old":{"type":"branch","name":"main","target":{"type":"commit","hash":"` + oldCommit + `"}},"new":{"type":"branch","name":"main","target":{"type":"commit","hash":"` + newCommit + `"}},"created":false,"closed":false},
{"old":null,"new":{"type":"tag","name":"v1","target":{"type":"commit","hash":"` + newCommit + `"}},"created":true},
{"old":{"type":"branch","name":"gone","target":{"type":"commit","hash":"` + oldCommit + `"}},"new":null,"closed":true}]},
"actor":{"display_name":"ann"},"repository":{"type":"repository","full_name":"acme/shop","name":"shop","links":{"self":{"href":"https://api.bitbucket.org/2.0/repositories/acme/shop"},"html":{"href":"https://bitbucket.org/acme/shop"}}}}`
	serverBody = `{"eventKey":"repo:refs_changed","date":"2026-01-01T00:00:00+0000","actor":{"name":"ann"},
"repository":{"slug":"shop","id":84,"name":"shop","project":{"key":"ACME","id":84,"name":"acme"},
"links":{"clone":[{"href":"ssh://git@bitbucket.example.org:7999/acme/shop.git","name":"ssh"},{"href":"https://bitbucket.example.org/scm/acme/shop.git","name":"http"}],"self":[{"href":"https://bitbucket.example.org/projects/ACME/repos/shop/browse"}]}},
"changes":[{"ref":{"id":"refs/heads/main","displayId":"main","type":"BRANCH"},"refId":"refs/heads/main","fromHash":"` + oldCommit + `","toHash":"` + newCommit + `","type":"UPDATE"}]}`
)

func TestParsePush(t *testing.T) {
	githubURLs := []string{"https://github.com/acme/shop.git", "git@github.com:acme/shop.git", "https://github.com/acme/shop"}
	giteaURLs := []string{"https://gitea.example.org/acme/shop.git", "ssh://git@gitea.example.org:2222/acme/shop.git", "https://gitea.example.org/acme/shop"}
	cloudURLs := []string{"https://bitbucket.org/acme/shop", "ssh://git@bitbucket.org/acme/shop"}
	form := "payload=" + url.QueryEscape(githubBody)
	giteaForm := "payload=" + url.QueryEscape(giteaBody)
	const asForm = "application/x-www-form-urlencoded"
	github := []gitops.Push{{Repositories: githubURLs, Ref: "refs/heads/main", Default: true, Before: oldCommit, After: newCommit, From: "github", Pusher: "ann"}}
	gitea := []gitops.Push{{Repositories: giteaURLs, Ref: "refs/tags/v1", After: newCommit, From: "gitea", Pusher: "ann"}}
	forgejo := []gitops.Push{gitea[0]}
	forgejo[0].From = "forgejo"
	gitlab := []gitops.Push{{Repositories: []string{"https://gitlab.example.org/acme/shop.git", "git@gitlab.example.org:acme/shop.git", "https://gitlab.example.org/acme/shop"}, Ref: "refs/heads/side", Before: oldCommit, After: newCommit, From: "gitlab", Pusher: "ann"}}
	sha := func(body string) string { return "sha256=" + signature(body, hookSecret) }
	created := `{"ref":"v2","ref_type":"tag","repository":{"clone_url":"https://h/r.git"}}`
	cases := []struct {
		reason string
		header http.Header
		body   string
		want   []gitops.Push
		kind   fault.Kind
	}{
		{"GitHub", headers("X-GitHub-Event", "push", "X-Hub-Signature-256", sha(githubBody)), githubBody, github, 0},
		{"GitHub, as a form", headers("X-GitHub-Event", "push", "Content-Type", asForm, "X-Hub-Signature-256", sha(form)), form, github, 0},
		{"GitHub's ping", headers("X-GitHub-Event", "ping", "X-Hub-Signature-256", sha(`{"zen":"x"}`)), `{"zen":"x"}`, nil, 0},
		{"GitHub, a tag is made", headers("X-GitHub-Event", "create", "X-Hub-Signature-256", sha(created)), created, []gitops.Push{{Repositories: []string{"https://h/r.git"}, Ref: "refs/tags/v2", From: "github"}}, 0},
		{"Gitea", headers("X-Gitea-Event", "push", "X-GitHub-Event", "push", "X-Gitea-Signature", signature(giteaBody, hookSecret), "X-Hub-Signature-256", sha(giteaBody)), giteaBody, gitea, 0},
		{"Gitea, as a form: the JSON is signed", headers("X-Gitea-Event", "push", "Content-Type", asForm, "X-Gitea-Signature", signature(giteaBody, hookSecret)), giteaForm, gitea, 0},
		{"Forgejo", headers("X-Forgejo-Event", "push", "X-Forgejo-Signature", signature(giteaBody, hookSecret)), giteaBody, forgejo, 0},
		{"Gitea by GitHub's signature alone", headers("X-Gitea-Event", "push", "X-Hub-Signature-256", sha(giteaBody)), giteaBody, gitea, 0},
		{"GitLab", headers("X-Gitlab-Event", "Push Hook", "X-Gitlab-Token", hookSecret), gitlabBody, gitlab, 0},
		{"GitLab, of all projects", headers("X-Gitlab-Event", "System Hook", "X-Gitlab-Token", hookSecret), gitlabBody, gitlab, 0},
		{"GitLab, another system hook", headers("X-Gitlab-Event", "System Hook", "X-Gitlab-Token", hookSecret), `{"event_name":"project_create"}`, nil, 0},
		{"GitLab, an issue", headers("X-Gitlab-Event", "Issue Hook", "X-Gitlab-Token", hookSecret), `{"object_kind":"issue"}`, nil, 0},
		{"Bitbucket Cloud, three changes", headers("X-Event-Key", "repo:push", "X-Hub-Signature", sha(cloudBody)), cloudBody, []gitops.Push{
			{Repositories: cloudURLs, Ref: "refs/heads/main", Default: true, Before: oldCommit, After: newCommit, From: "bitbucket", Pusher: "ann"},
			{Repositories: cloudURLs, Ref: "refs/tags/v1", After: newCommit, From: "bitbucket", Pusher: "ann"},
			{Repositories: cloudURLs, Ref: "refs/heads/gone", Default: true, Before: oldCommit, From: "bitbucket", Pusher: "ann"},
		}, 0},
		{"Bitbucket Server", headers("X-Event-Key", "repo:refs_changed", "X-Hub-Signature", sha(serverBody)), serverBody, []gitops.Push{{
			Repositories: []string{"ssh://git@bitbucket.example.org:7999/acme/shop.git", "https://bitbucket.example.org/scm/acme/shop.git",
				"https://bitbucket.example.org/scm/acme/shop.git", "ssh://git@bitbucket.example.org:7999/acme/shop.git"},
			Ref: "refs/heads/main", Default: true, Before: oldCommit, After: newCommit, From: "bitbucket", Pusher: "ann",
		}}, 0},
		{"Bitbucket Server's ping", headers("X-Event-Key", "diagnostics:ping", "X-Hub-Signature", sha(`{"test":true}`)), `{"test":true}`, nil, 0},

		{"no signature", headers("X-GitHub-Event", "push"), githubBody, nil, fault.Denied},
		{"another secret", headers("X-GitHub-Event", "push", "X-Hub-Signature-256", "sha256="+signature(githubBody, "guess")), githubBody, nil, fault.Denied},
		{"another body", headers("X-GitHub-Event", "push", "X-Hub-Signature-256", sha(githubBody)), githubBody + " ", nil, fault.Denied},
		{"the old kind of signature", headers("X-GitHub-Event", "push", "X-Hub-Signature", "sha1=0000"), githubBody, nil, fault.Denied},
		{"a ping of nobody", headers("X-GitHub-Event", "ping"), `{}`, nil, fault.Denied},
		{"half a signature", headers("X-GitHub-Event", "push", "X-Hub-Signature-256", sha(githubBody)[:30]), githubBody, nil, fault.Denied},
		{"GitLab with another token", headers("X-Gitlab-Event", "Push Hook", "X-Gitlab-Token", hookSecret+"x"), gitlabBody, nil, fault.Denied},
		{"GitLab without a token", headers("X-Gitlab-Event", "Push Hook"), gitlabBody, nil, fault.Denied},
		{"GitHub's signature is no token", headers("X-GitHub-Event", "push", "X-Gitlab-Token", hookSecret), githubBody, nil, fault.Denied},
		{"Gitea with a wrong signature of its own beside a right one", headers("X-Gitea-Event", "push", "X-Gitea-Signature", signature(giteaBody, "guess"), "X-Hub-Signature-256", sha(giteaBody)), giteaBody, nil, fault.Denied},
		{"nobody that is known", headers("X-Hub-Signature-256", sha(githubBody)), githubBody, nil, fault.Denied},
		{"Bitbucket unsigned", headers("X-Event-Key", "repo:push"), cloudBody, nil, fault.Denied},
		{"signed nonsense", headers("X-GitHub-Event", "push", "X-Hub-Signature-256", sha(`[`)), `[`, nil, fault.Invalid},
		{"signed, of no repository", headers("X-GitHub-Event", "push", "X-Hub-Signature-256", sha(`{}`)), `{}`, nil, fault.Invalid},
	}
	var refusals []string
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			got, err := gitops.ParsePush(c.header, []byte(c.body), []byte(hookSecret))
			if c.kind != 0 {
				if !fault.Is(err, c.kind) || strings.Contains(err.Error(), hookSecret) {
					t.Errorf("%v (%v)", err, fault.Of(err))
				}
				if c.kind == fault.Denied {
					refusals = append(refusals, err.Error())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if gitops.IsPing(got) != (c.want == nil) {
				t.Error("taken for a ping, or not")
			}
			if _, err := gitops.ParsePush(c.header, []byte(c.body), nil); !fault.Is(err, fault.Denied) {
				t.Errorf("without a secret: %v", err)
			}
			bare := c.header.Clone()
			bare.Del("X-Gitlab-Token")
			if _, err := gitops.ParsePush(bare, []byte(c.body), nil); !fault.Is(err, fault.Denied) {
				t.Errorf("without either: %v", err)
			}
		})
	}
	for _, r := range refusals {
		if r != refusals[0] {
			t.Errorf("a refusal tells more than another: %s", r)
		}
	}
}

// signedGitLab is what GitLab 19 sends with a signing token: v1, id, time and body.
func signedGitLab(body, token string, more ...string) http.Header {
	key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(token, "whsec_"))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("0d9c7a3e-4f7e-4a55-9f0e-1b2c3d4e5f60.1794772800." + body))
	return headers(append([]string{"X-Gitlab-Event", "Push Hook", "X-Gitlab-Instance", "https://gitlab.example.org", "Webhook-Id", "0d9c7a3e-4f7e-4a55-9f0e-1b2c3d4e5f60",
		"Webhook-Timestamp", "1794772800", "Webhook-Signature", "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))}, more...)...)
}

func TestSigningTokensOfGitLab(t *testing.T) {
	token := gitops.SigningToken(hookSecret)
	if key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(token, "whsec_")); err != nil || len(key) != 32 || !strings.HasPrefix(token, "whsec_") {
		t.Fatalf("GitLab takes whsec_ and 32 bytes, and this is %q", token)
	}
	good := signedGitLab(gitlabBody, token)
	for _, c := range []struct {
		reason string
		header http.Header
		body   string
		ok     bool
	}{
		{"signed", good, gitlabBody, true},
		{"one of several", signedGitLab(gitlabBody, token, "Webhook-Signature", "v1a,x v1,AAAA "+good.Get("Webhook-Signature")), gitlabBody, true},
		{"the secret beside a signature of another token", signedGitLab(gitlabBody, gitops.SigningToken("x"), "X-Gitlab-Token", hookSecret), gitlabBody, true},
		{"another body", good, gitlabBody + " ", false},
		{"another id", signedGitLab(gitlabBody, token, "Webhook-Id", "other"), gitlabBody, false},
		{"another time", signedGitLab(gitlabBody, token, "Webhook-Timestamp", "1"), gitlabBody, false},
		{"another token", signedGitLab(gitlabBody, gitops.SigningToken("x")), gitlabBody, false},
		{"a signature alone", headers("X-Gitlab-Event", "Push Hook", "Webhook-Signature", good.Get("Webhook-Signature")), gitlabBody, false},
		{"id and time without one, as every message has them", headers("X-Gitlab-Event", "Push Hook", "Webhook-Id", "a", "Webhook-Timestamp", "1"), gitlabBody, false},
	} {
		pushes, err := gitops.ParsePush(c.header, []byte(c.body), []byte(hookSecret))
		if c.ok && (err != nil || len(pushes) != 1) || !c.ok && !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v, %v", c.reason, pushes, err)
		}
	}
	if _, err := gitops.ParsePush(signedGitLab(gitlabBody, gitops.SigningToken("")), []byte(gitlabBody), nil); !fault.Is(err, fault.Denied) {
		t.Errorf("no secret is one that everybody knows: %v", err)
	}
}

func FuzzParsePush(f *testing.F) {
	for event, body := range map[string]string{"X-Github-Event": githubBody, "X-Gitea-Event": giteaBody, "X-Gitlab-Event": gitlabBody, "X-Event-Key": cloudBody} {
		f.Add(event, "push", "application/json", []byte(body))
	}
	f.Add("X-Event-Key", "repo:refs_changed", "application/json", []byte(serverBody))
	f.Add("X-Github-Event", "push", "application/x-www-form-urlencoded", []byte("payload=%7B%7D"))
	f.Add("X-Gitlab-Event", "System Hook", "", []byte(`{"object_kind":"push"}`))
	f.Fuzz(func(t *testing.T, event, kind, content string, body []byte) {
		h := http.Header{}
		h.Set(event, kind)
		h.Set("Content-Type", content)
		if _, err := gitops.ParsePush(h, body, []byte(hookSecret)); !fault.Is(err, fault.Denied) && !fault.Is(err, fault.Invalid) {
			t.Fatalf("unsigned, and taken: %v", err)
		}
		for _, name := range []string{"X-Hub-Signature", "X-Hub-Signature-256"} {
			h.Set(name, "sha256="+signature(string(body), hookSecret))
		}
		h.Set("X-Gitlab-Token", hookSecret)
		pushes, err := gitops.ParsePush(h, body, []byte(hookSecret))
		if err != nil && !fault.Is(err, fault.Denied) && !fault.Is(err, fault.Invalid) {
			t.Fatal(err)
		}
		for _, p := range pushes {
			if len(p.Repositories) == 0 || len(p.Ref) > 300 || len(p.After) > 64 || len(pushes) > 100 {
				t.Fatalf("%+v", p)
			}
		}
	})
}

func TestWebhookSecret(t *testing.T) {
	d := newDesk(t)
	lead := access.With(context.Background(), access.Principal{User: "lead", Org: "acme", OrgAdmin: true})
	for _, c := range []struct {
		reason string
		ctx    context.Context
	}{{"a member", anna}, {"nobody", context.Background()}, {"somebody without an organisation", access.With(context.Background(), access.Principal{User: "x", OrgAdmin: true})}} {
		if _, err := d.s.WebhookSecret(c.ctx, false); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
	first, err := d.s.WebhookSecret(lead, false)
	d.must(err)
	if again, err := d.s.WebhookSecret(lead, false); err != nil || again != first || len(first) < 20 {
		t.Fatalf("%q, then %q, %v", first, again, err)
	}
	operator := access.With(context.Background(), access.Principal{User: "root", Org: "acme", OrgAdmin: true, Admin: true})
	wide, err := d.s.WebhookSecret(operator, false)
	d.must(err)
	take := func(org, secret string) error {
		_, err := d.s.TakePush(context.Background(), org, headers("X-GitHub-Event", "push", "X-Hub-Signature-256", "sha256="+signature(githubBody, secret)), []byte(githubBody))
		return err
	}
	d.must(take("acme", first))
	second, err := d.s.WebhookSecret(lead, true)
	d.must(err)
	for _, c := range []struct {
		reason, org, secret string
		after               time.Duration
		ok                  bool
	}{
		{"the new one", "acme", second, 0, true},
		{"the old one, for an hour", "acme", first, 59 * time.Minute, true},
		{"another organisation", "other", first, 0, false},
		{"the operators'", "", first, 0, false},
		{"an operator's, for all", "", wide, 0, true},
		{"an operator's is not that of the organisation they are in", "acme", wide, 0, false},
		{"an empty one", "other", "", 0, false},
		{"the old one, after it", "acme", first, 2 * time.Minute, false},
		{"the new one goes on", "acme", second, 24 * time.Hour, true},
	} {
		d.work(c.after)
		if err := take(c.org, c.secret); (err == nil) != c.ok || err != nil && !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", c.reason, err)
		}
	}
	d.nowhere(first, second)
}
