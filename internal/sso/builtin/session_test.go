package builtin_test

import (
	"context"
	"net/http"
	"net/url"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/sso"
	"github.com/droverhq/drover/internal/sso/builtin"
)

// anybody logs in as alice, for nothing.
type anybody struct{}

func (anybody) Check(context.Context, string, string) (sso.Identity, error) {
	return sso.Identity{ID: "1", Name: "alice", Epoch: 1}, nil
}

func (a anybody) Find(ctx context.Context, _ string) (sso.Identity, error) {
	return a.Check(ctx, "", "")
}

// Whatever is done with the tokens of a login, in whatever order: the newest
// refresh token alone is good, until anything else was tried, the login was
// ended, or it was idle for too long. Nothing brings it back.
func TestSessionProperty(t *testing.T) {
	w := newWorld(t)
	realm, err := access.NewRealm(access.RealmConfig{Store: w.ledger, URL: builtin.Issuer(w.front.URL, "")})
	w.ok(err)
	w.p, err = builtin.New(builtin.Config{
		Store: w.ledger, Keeper: w.ledger, Keys: realm, Users: anybody{}, BaseURL: w.front.URL, Clock: w.now, RefreshTTL: 10 * time.Hour,
	})
	w.ok(err)
	w.use(w.p)
	rapid.Check(t, func(r *rapid.T) {
		a := newAttempt()
		code := w.code(a)
		got := w.exchange(a, code)
		tokens, access := []string{got.text("refresh_token")}, got.text("access_token")
		alive, used := true, w.now()
		for range rapid.IntRange(1, 8).Draw(r, "steps") {
			switch step := rapid.SampledFrom([]string{"refresh", "refresh", "refresh", "old", "code", "revoke", "logout", "wait"}).Draw(r, "step"); step {
			case "refresh":
				got := w.refresh(tokens[len(tokens)-1])
				alive = alive && w.now().Sub(used) < 10*time.Hour
				if (got.status == http.StatusOK) != alive || !alive && got.text("error") != "invalid_grant" {
					r.Fatalf("alive is %v, and a refresh gives %d %s", alive, got.status, got.body)
				}
				if alive {
					tokens, access, used = append(tokens, got.text("refresh_token")), got.text("access_token"), w.now()
				}
			case "old":
				if len(tokens) == 1 {
					continue
				}
				i := rapid.IntRange(0, len(tokens)-2).Draw(r, "which")
				if got := w.refresh(tokens[i]); got.text("error") != "invalid_grant" {
					r.Fatalf("an old token gives %d %s", got.status, got.body)
				}
				alive = false
			case "code":
				if got := w.exchange(a, code); got.text("error") != "invalid_grant" {
					r.Fatalf("the code again gives %d %s", got.status, got.body)
				}
				alive = false
			case "revoke":
				w.post("revoke", url.Values{"client_id": {"drover-cli"}, "token": {tokens[len(tokens)-1]}})
				alive = false
			case "logout":
				w.post("logout", url.Values{"client_id": {"drover-cli"}, "refresh_token": {tokens[len(tokens)-1]}})
				alive = false
			case "wait":
				w.skew.Add(int64(rapid.SampledFrom([]time.Duration{time.Hour, 11 * time.Hour}).Draw(r, "idle")))
			}
			told := w.introspect(access)
			if on := alive && w.now().Sub(used) < 10*time.Hour; (told.json["active"] == true) != on {
				r.Fatalf("alive is %v, and introspection says %s", on, told.body)
			}
		}
	})
}
