package gitops

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

const (
	maxPushBody    = 1 << 20
	maxPusher      = 100 // bytes of a name
	maxPushChanges = 100 // of one message; more are told as one of no reference
)

// ParsePush reads what GitHub, GitLab, Gitea, Forgejo or Bitbucket tell of a push,
// once it is certain that they do: one Push for each reference, none for a message
// that is about something else, such as a ping. Faults: Denied (unsigned, signed
// with something else, or of nobody that is known: which is not told), Invalid.
func ParsePush(header http.Header, body, secret []byte) ([]Push, error) {
	if len(body) > maxPushBody {
		return nil, fault.New(fault.Invalid, "the message has more than %d KiB", maxPushBody>>10).Because("too-large")
	}
	payload := payloadOf(header, body)
	from := senderOf(header)
	if from == nil || !from.signed(header, body, payload, secret) {
		return nil, fault.New(fault.Denied, "the message is not signed with the secret of this webhook").Because("signature")
	}
	if !from.events[header.Get(from.event)] {
		return nil, nil
	}
	pushes, ok := from.read(payload)
	if !ok {
		return nil, fault.New(fault.Invalid, "the message cannot be read as a push").Because("payload")
	}
	for i := range pushes {
		pushes[i].From = from.name
	}
	return pushes, nil
}

// IsPing reports whether a message that was parsed is about no push.
func IsPing(pushes []Push) bool { return len(pushes) == 0 }

// payloadOf is the JSON of a message, which may have come as a form.
func payloadOf(header http.Header, body []byte) []byte {
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if kind != "application/x-www-form-urlencoded" {
		return body
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil
	}
	return []byte(form.Get("payload"))
}

// sender is one that is known to send webhooks.
type sender struct {
	name   string
	event  string          // header that says what a message is about
	events map[string]bool // those that are about pushes
	signed func(header http.Header, body, payload, secret []byte) bool
	read   func(payload []byte) ([]Push, bool)
}

// senders in the order in which they are recognised: Gitea and Forgejo say that
// they are GitHub, too.
var senders = []sender{
	{"gitea", "X-Gitea-Event", gitEvents, signedByGitea, readGitHub},
	{"forgejo", "X-Forgejo-Event", gitEvents, signedByGitea, readGitHub},
	{"gitlab", "X-Gitlab-Event", map[string]bool{"Push Hook": true, "Tag Push Hook": true, "System Hook": true}, signedByGitLab, readGitLab},
	{"github", "X-Github-Event", gitEvents, signedByGitHub, readGitHub},
	{"bitbucket", "X-Event-Key", map[string]bool{"repo:push": true, "repo:refs_changed": true}, signedByBitbucket, readBitbucket},
}

var gitEvents = map[string]bool{"push": true, "create": true}

func senderOf(header http.Header) *sender {
	for i := range senders {
		if header.Get(senders[i].event) != "" {
			return &senders[i]
		}
	}
	return nil
}

// hmacIs compares a signature, in hexadecimal digits behind a prefix.
func hmacIs(text, prefix string, message, secret []byte) bool {
	digits, ok := strings.CutPrefix(text, prefix)
	said, err := hex.DecodeString(digits)
	if !ok || err != nil || len(secret) == 0 {
		return false
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(message)
	return hmac.Equal(said, mac.Sum(nil))
}

func signedByGitHub(h http.Header, body, _, secret []byte) bool {
	return hmacIs(h.Get("X-Hub-Signature-256"), "sha256=", body, secret)
}

// signedByGitea: what is signed is the JSON, even where it comes as a form.
func signedByGitea(h http.Header, body, payload, secret []byte) bool {
	for _, name := range []string{"X-Gitea-Signature", "X-Forgejo-Signature"} {
		if text := h.Get(name); text != "" {
			return hmacIs(text, "", payload, secret)
		}
	}
	text := h.Get("X-Hub-Signature-256")
	return hmacIs(text, "sha256=", payload, secret) || hmacIs(text, "sha256=", body, secret)
}

// signingKey is what GitLab 19 and later sign with, in place of sending the secret:
// its signing tokens are 32 bytes, which the secret need not be.
func signingKey(secret []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("signing token"))
	return mac.Sum(nil)
}

// SigningToken is the secret of a webhook as GitLab takes it for a signing token.
func SigningToken(secret string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(signingKey([]byte(secret)))
}

// signedByGitLab: it signs id, time and body (Standard Webhooks), or sends the secret
// itself; where both are set up, both. How old a message is does not matter: all
// that it can do is have a repository looked at.
func signedByGitLab(h http.Header, body, _, secret []byte) bool {
	if id, at := h.Get("Webhook-Id"), h.Get("Webhook-Timestamp"); len(secret) > 0 && id != "" && at != "" {
		mac := hmac.New(sha256.New, signingKey(secret))
		mac.Write([]byte(id + "." + at + "."))
		mac.Write(body)
		want := mac.Sum(nil)
		for _, one := range strings.Fields(h.Get("Webhook-Signature")) {
			text, ok := strings.CutPrefix(one, "v1,")
			if said, err := base64.StdEncoding.DecodeString(text); ok && err == nil && hmac.Equal(said, want) {
				return true
			}
		}
	}
	said, want := sha256.Sum256([]byte(h.Get("X-Gitlab-Token"))), sha256.Sum256(secret)
	return len(secret) > 0 && subtle.ConstantTimeCompare(said[:], want[:]) == 1
}

func signedByBitbucket(h http.Header, body, _, secret []byte) bool {
	return hmacIs(h.Get("X-Hub-Signature"), "sha256=", body, secret)
}

func readGitHub(payload []byte) ([]Push, bool) {
	var m struct {
		Ref        string `json:"ref"`
		RefType    string `json:"ref_type"` // of a creation: branch, tag
		Before     string `json:"before"`
		After      string `json:"after"`
		Repository struct {
			CloneURL string `json:"clone_url"`
			SSHURL   string `json:"ssh_url"`
			HTMLURL  string `json:"html_url"`
			Default  string `json:"default_branch"`
		} `json:"repository"`
		Pusher struct{ Name, Login string } `json:"pusher"` // GitHub, and the others
		Sender struct{ Login string }       `json:"sender"` // of a creation
	}
	if json.Unmarshal(payload, &m) != nil {
		return nil, false
	}
	switch m.RefType {
	case "branch":
		m.Ref = "refs/heads/" + m.Ref
	case "tag":
		m.Ref = "refs/tags/" + m.Ref
	}
	r := m.Repository
	return pushesOf([]string{r.CloneURL, r.SSHURL, r.HTMLURL}, r.Default, []Push{{Ref: m.Ref, Before: m.Before, After: m.After, Pusher: cmp.Or(m.Pusher.Name, m.Pusher.Login, m.Sender.Login)}})
}

func readGitLab(payload []byte) ([]Push, bool) {
	var m struct {
		Kind    string `json:"object_kind"`
		User    string `json:"user_username"`
		Name    string `json:"user_name"`
		Event   string `json:"event_name"` // of system hooks
		Ref     string `json:"ref"`
		Before  string `json:"before"`
		After   string `json:"after"`
		Project struct {
			HTTP    string `json:"git_http_url"`
			SSH     string `json:"git_ssh_url"`
			Web     string `json:"web_url"`
			Default string `json:"default_branch"`
		} `json:"project"`
	}
	if json.Unmarshal(payload, &m) != nil {
		return nil, false
	}
	if kind := m.Kind + m.Event; !strings.Contains(kind, "push") || strings.Contains(kind, "repository_update") {
		return nil, true
	}
	p := m.Project
	return pushesOf([]string{p.HTTP, p.SSH, p.Web}, p.Default, []Push{{Ref: m.Ref, Before: m.Before, After: m.After, Pusher: cmp.Or(m.User, m.Name)}})
}

// pushesOf completes pushes to one repository; false where it has no address.
func pushesOf(urls []string, standard string, pushes []Push) ([]Push, bool) {
	var known []string
	for _, u := range urls {
		if u != "" && len(u) <= maxURL && !hidden(u) {
			known = append(known, u)
		}
	}
	if len(known) == 0 {
		return nil, false
	}
	if len(pushes) > maxPushChanges {
		pushes = []Push{{}}
	}
	for i := range pushes {
		p := &pushes[i]
		if len(p.Ref) > maxRevision+len("refs/heads/") || hidden(p.Ref) {
			p.Ref = ""
		}
		p.Before, p.After = hash(p.Before), hash(p.After)
		if len(p.Pusher) > maxPusher || hidden(p.Pusher) {
			p.Pusher = ""
		}
		p.Repositories = known
		// Where it is not told which one that is (Bitbucket never does) any branch may be.
		p.Default = p.Ref == "refs/heads/"+standard || standard == "" && strings.HasPrefix(p.Ref, "refs/heads/")
	}
	return pushes, true
}

// hash is a commit's, and nothing where it is none: all zeros mean that there is
// no commit.
func hash(text string) string {
	if len(text) != 40 && len(text) != 64 || strings.Trim(text, "0123456789abcdef") != "" || strings.Trim(text, "0") == "" {
		return ""
	}
	return text
}
