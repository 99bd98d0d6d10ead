package httpapi_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	v1 "github.com/droverhq/drover/api/v1"
)

func signature(key, message string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(message))
	return mac.Sum(nil)
}

func digits(key, message string) string { return hex.EncodeToString(signature(key, message)) }

// Each Git server tells of a push in its own words, and signs them in its own way.
func TestAPushIsTakenWithItsSignature(t *testing.T) {
	s := newSite(t)
	s.register("c1")
	s.want(200, "root", "PUT", "/api/v1/workspaces/acme", `{"org": "acme", "reach": [{"cluster": "c1", "namespaces": ["acme"]}]}`, nil)
	var made v1.Object
	s.want(202, "alice", "POST", "/api/v1/deployments", `{"name": "mine", "repository": "https://git.example.org/team/shop.git", "path": "k8s", "revision": "main", "cluster": "c1", "namespace": "acme"}`, &made)
	var hook v1.WebhookSecret
	s.want(403, "alice", "POST", "/api/v1/webhooks/git/secret", "", nil)
	s.want(200, "arthur", "POST", "/api/v1/webhooks/git/secret", "", &hook)
	if hook.Secret == "" || hook.SigningToken == "" {
		t.Fatal("the webhook has no secret, or no signing token")
	}
	key := func(secret string) string { // of GitLab's signing token
		raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(hook.SigningToken, "whsec_"))
		if err != nil {
			t.Fatal(err)
		}
		if secret != hook.Secret {
			return secret
		}
		return string(raw)
	}

	hash := strings.Repeat("d", 40)
	github := `{"ref": "refs/heads/BRANCH", "after": "` + hash + `", "repository": {"clone_url": "https://git.example.org/team/shop.git", "default_branch": "main"}}`
	gitlab := `{"object_kind": "push", "ref": "refs/heads/BRANCH", "after": "` + hash + `", "project": {"git_http_url": "https://git.example.org/team/shop.git", "default_branch": "main"}}`
	cloud := `{"push": {"changes": [{"new": {"type": "branch", "name": "BRANCH", "target": {"hash": "` + hash + `"}}}]},
		"repository": {"full_name": "team/shop", "links": {"html": {"href": "https://git.example.org/team/shop"}}}}`
	server := `{"changes": [{"ref": {"id": "refs/heads/BRANCH"}, "toHash": "` + hash + `"}],
		"repository": {"slug": "shop", "project": {"key": "TEAM"}, "links": {"clone": [{"href": "https://git.example.org/team/shop.git"}]}}}`
	for _, c := range []struct {
		from, body string
		form       bool
		header     func(secret, body string) map[string]string
		open       bool // the secret itself is sent: nothing tells whether the message was changed
	}{
		{"GitHub", github, false, func(secret, body string) map[string]string {
			return map[string]string{"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + digits(secret, body)}
		}, false},
		{"GitHub, as a form", github, true, func(secret, body string) map[string]string {
			return map[string]string{"X-GitHub-Event": "push", "X-Hub-Signature-256": "sha256=" + digits(secret, body)}
		}, false},
		{"Gitea", github, false, func(secret, body string) map[string]string {
			return map[string]string{"X-Gitea-Event": "push", "X-GitHub-Event": "push", "X-Gitea-Signature": digits(secret, body)}
		}, false},
		{"Forgejo", github, false, func(secret, body string) map[string]string {
			return map[string]string{"X-Forgejo-Event": "push", "X-GitHub-Event": "push", "X-Forgejo-Signature": digits(secret, body)}
		}, false},
		{"GitLab", gitlab, false, func(secret, _ string) map[string]string {
			return map[string]string{"X-Gitlab-Event": "Push Hook", "X-Gitlab-Token": secret}
		}, true},
		{"GitLab with a signing token", gitlab, false, func(secret, body string) map[string]string {
			return map[string]string{"X-Gitlab-Event": "Push Hook", "Webhook-Id": "msg_1", "Webhook-Timestamp": "1763287200",
				"Webhook-Signature": "v1," + base64.StdEncoding.EncodeToString(signature(key(secret), "msg_1.1763287200."+body))}
		}, false},
		{"Bitbucket Cloud", cloud, false, func(secret, body string) map[string]string {
			return map[string]string{"X-Event-Key": "repo:push", "X-Hub-Signature": "sha256=" + digits(secret, body)}
		}, false},
		{"Bitbucket Server", server, false, func(secret, body string) map[string]string {
			return map[string]string{"X-Event-Key": "repo:refs_changed", "X-Hub-Signature": "sha256=" + digits(secret, body)}
		}, false},
	} {
		t.Run(c.from, func(t *testing.T) {
			push := func(secret, org, branch, signed string) (status, deployments int) {
				t.Helper()
				message := func(branch string) string {
					body := strings.ReplaceAll(c.body, "BRANCH", branch)
					if c.form {
						body = url.Values{"payload": {body}}.Encode()
					}
					return body
				}
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.server.URL+"/api/v1/webhooks/git?org="+org, strings.NewReader(message(branch)))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", map[bool]string{false: "application/json", true: "application/x-www-form-urlencoded"}[c.form])
				for name, value := range c.header(secret, message(signed)) {
					req.Header.Set(name, value)
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				out := v1.Pushed{Deployments: -1}
				if resp.StatusCode == 202 {
					if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
						t.Fatal(err)
					}
				}
				return resp.StatusCode, out.Deployments
			}
			if status, n := push(hook.Secret, "acme", "main", "main"); status != 202 || n != 1 {
				t.Errorf("a push is answered %d, about %d deployments", status, n)
			}
			if status, n := push(hook.Secret, "acme", "side", "side"); status != 202 || n != 0 {
				t.Errorf("a push to a branch that nobody follows is answered %d, about %d deployments", status, n)
			}
			for _, bad := range []struct{ reason, secret, org string }{{"another secret", "guessed", "acme"}, {"another organisation", hook.Secret, "umbrella"}, {"nobody's", "", ""}} {
				if status, _ := push(bad.secret, bad.org, "main", "main"); status != 401 {
					t.Errorf("%s: %d", bad.reason, status)
				}
			}
			if status, _ := push(hook.Secret, "acme", "main", "side"); !c.open && status != 401 {
				t.Errorf("a message that was changed on its way: %d", status)
			}
		})
	}
}
