package app_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/droverhq/drover/internal/app"
	"github.com/droverhq/drover/internal/site"
	"github.com/droverhq/drover/internal/sqlledger"
)

// A secondary knows that the primary was drained, until that works again or somebody has led
// in a later epoch.
func TestSecondaryKnowsOfADrain(t *testing.T) {
	at := time.Now().UTC().Truncate(time.Second)
	primary := func(t *testing.T) app.Keeper {
		k := app.NewKeeper(app.Config{Settings: app.Settings{Primary: true, Site: "east", DataDir: t.TempDir()}}, "http://127.0.0.1:8", sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 1})
		k.Act()
		return k
	}
	for _, c := range []struct {
		reason  string
		then    func(t *testing.T, k app.Keeper, answers *http.Handler)
		drained bool
	}{
		{"it still answers", func(*testing.T, app.Keeper, *http.Handler) {}, true},
		{"it is gone", func(_ *testing.T, _ app.Keeper, answers *http.Handler) { *answers = http.NotFoundHandler() }, true},
		{"it was started again", func(t *testing.T, _ app.Keeper, answers *http.Handler) { *answers = primary(t).Answer() }, false},
		{"it was started again, and has not come to lead", func(t *testing.T, _ app.Keeper, answers *http.Handler) {
			*answers = app.NewKeeper(app.Config{Settings: app.Settings{Primary: true, Site: "east", DataDir: t.TempDir()}}, "http://127.0.0.1:8", sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 1}).Answer()
		}, true},
		{"a later epoch has begun", func(t *testing.T, k app.Keeper, _ *http.Handler) {
			if err := k.Signal(t.Context(), site.Signal{Kind: site.SignalPromotion, Site: "east", To: "west", Epoch: 2, At: at.Add(-time.Hour)}); err != nil {
				t.Fatal(err)
			}
		}, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			east := primary(t)
			answers := http.Handler(east.Answer())
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers.ServeHTTP(w, r) }))
			defer web.Close()
			k := app.NewKeeper(app.Config{Settings: app.Settings{PrimaryURL: web.URL, Site: "west", DataDir: t.TempDir()}}, "http://127.0.0.1:9", sqlledger.Standing{Ledger: "l", Epoch: 1, Server: 2})
			if peer, err := k.Ask(t.Context()); err != nil || !peer.Leads || k.Drained() != nil {
				t.Fatalf("it has heard %+v, %v, drained at %v", peer, err, k.Drained())
			}
			east.End(t.Context())
			if err := k.Signal(t.Context(), site.Signal{Kind: site.SignalDrain, Site: "east", To: "west", Epoch: 1, At: at}); err != nil {
				t.Fatal(err)
			}
			if got := k.Drained(); got == nil || !got.Equal(at) {
				t.Fatalf("it was drained at %v, not %v", got, at)
			}
			c.then(t, k, &answers)
			_, _ = k.Ask(t.Context())
			if got := k.Drained(); (got != nil) != c.drained {
				t.Errorf("it was drained at %v", got)
			}
			if text, err := k.Kept(); err != nil || strings.Contains(text, `"drained"`) != c.drained {
				t.Errorf("it keeps %s, %v", text, err)
			}
		})
	}
}
