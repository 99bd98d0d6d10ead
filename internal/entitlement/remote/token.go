package remote

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// tokens hands out the bearer token: out of a file, which is read again and
// again because somebody else renews it, or by client credentials.
type tokens struct {
	cfg    Config
	client *http.Client

	mu    sync.Mutex
	token string
	until time.Time
}

// early is how long before its end a token is renewed.
const early = 30 * time.Second

func (t *tokens) get(ctx context.Context) (string, error) {
	if t.cfg.TokenFile != "" {
		data, err := os.ReadFile(t.cfg.TokenFile)
		token := strings.TrimSpace(string(data))
		if err != nil || token == "" || strings.ContainsAny(token, "\r\n") {
			return "", fault.New(fault.Unavailable, "the token file of %s cannot be used", t.cfg.Title)
		}
		return token, nil
	}
	if t.cfg.TokenURL == "" {
		return "", nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != "" && t.cfg.Now().Before(t.until) {
		return t.token, nil
	}
	secret := t.cfg.ClientSecret
	if t.cfg.SecretFile != "" {
		data, err := os.ReadFile(t.cfg.SecretFile)
		if secret = strings.TrimSpace(string(data)); err != nil || secret == "" {
			return "", fault.New(fault.Unavailable, "the file with the client secret for %s cannot be used", t.cfg.Title)
		}
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {t.cfg.ClientID}, "client_secret": {secret}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.cfg.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", fault.New(fault.Unavailable, "the token address of %s cannot be used", t.cfg.Title)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	status, data, err := send(t.client, req)
	if err != nil {
		return "", fault.New(fault.Unavailable, "who gives out tokens for %s does not answer: %w", t.cfg.Title, err)
	}
	var answer struct {
		Token   string  `json:"access_token"`
		Seconds float64 `json:"expires_in"`
	}
	if status != http.StatusOK || json.Unmarshal(data, &answer) != nil || answer.Token == "" || strings.ContainsAny(answer.Token, "\r\n") {
		// The answer may hold what must not be told: only its status is.
		return "", fault.New(fault.Unavailable, "no token for %s could be had (status %d)", t.cfg.Title, status)
	}
	t.token = answer.Token
	t.until = t.cfg.Now().Add(max(time.Duration(min(answer.Seconds, 86400))*time.Second-early, 0))
	return t.token, nil
}

// forget drops a token that was refused.
func (t *tokens) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = ""
}
