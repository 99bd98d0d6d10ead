//go:build e2e

package site

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/toxiproxy"
)

// A false word has made two primaries, and one of the old one's has two replicas. The other
// site has spoken with one of them alone. Once they hear of each other, all of them stop, and
// one that comes later with an empty directory does not begin.
func TestEveryReplicaIsFenced(t *testing.T) {
	bad := toxiproxy.Start(t)
	front := drover.FreeAddress(t)
	toSecondary := bad.Proxy(t, front)
	var toPrimary *toxiproxy.Proxy
	w := pair(t, given{
		listen: front,
		args: func(site string) []string {
			if site == "west" {
				return []string{"--public-url", "http://" + toSecondary.Addr}
			}
			return nil
		},
		primary: func(url string) string {
			toPrimary = bad.Proxy(t, strings.TrimPrefix(url, "http://"))
			return "http://" + toPrimary.Addr
		},
	})
	east := []string{"--database", w.first.URL(w.name), "--master-key-file", w.key, "--primary", "--site", "east"}
	two := replica(t, east...)
	saying(t, two, "leading", "")
	for _, way := range []*toxiproxy.Proxy{toPrimary, toSecondary} {
		way.Down(t)
	}
	if _, stderr, code := w.b.Run("dr", "promote", "--primary-is-gone"); code != 0 {
		t.Fatalf("drover dr promote: %d %s", code, stderr)
	}
	for name, s := range map[string]*drover.Server{"rex": w.a, "tina": two} { // that is what the word was for
		if err := order(t.Context(), call(t, s), name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	toSecondary.Up(t)
	for _, s := range []*drover.Server{w.a, two} {
		saying(t, s, "fenced", "epoch 2")
		refused(t, s)
	}
	toSecondary.Down(t)
	saying(t, replica(t, east...), "fenced", "epoch 2") // nobody can be asked
}

// refused has a write sent elsewhere. A site that has just stopped takes a moment until it
// answers again.
func refused(t *testing.T, s *drover.Server) {
	t.Helper()
	drover.Until(t, "a write to be answered", func() bool {
		err := order(t.Context(), call(t, s), "late")
		if err == nil {
			t.Fatal("it is taken")
		}
		return client.Status(err) == 421
	})
}

// A site that was promoted and has been followed since does not lead by itself when it comes
// back with an empty directory, and the one that followed it was promoted meanwhile.
func TestPromotedSiteForgetsNothing(t *testing.T) {
	w := pair(t, given{})
	w.a.Kill()
	w.first.Kill()
	if _, stderr, code := w.b.Run("dr", "promote", "--primary-is-gone"); code != 0 {
		t.Fatalf("drover dr promote: %d %s", code, stderr)
	}
	awaitState(t, w.b, "leading")
	// The old primary is rebuilt, and follows.
	third := w.second.Standby(t, "third")
	east := serve(t, given{}, w.a.Listen, "--database", third.URL(w.name), "--master-key-file", w.key, "--primary-url", w.b.URL(), "--site", "east")
	drover.Until(t, "the promoted site to know that it is followed", func() bool {
		at, err := call(t, w.b).Site(t.Context())
		return err == nil && at.Peer != nil && at.Peer.State == "following" && at.Peer.URL == east.URL()
	})
	db, err := pgx.Connect(t.Context(), w.second.URL(w.name))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	drover.Until(t, "it to write that down", func() bool {
		var followed int64
		return db.QueryRow(t.Context(), "SELECT followed FROM sites WHERE site = 'west'").Scan(&followed) == nil && followed == 2
	})
	w.b.Kill()
	drover.Until(t, "the admin's token", func() bool { _, err := east.AdminToken(); return err == nil })
	if _, stderr, code := east.Run("dr", "promote", "--primary-is-gone"); code != 0 {
		t.Fatalf("drover dr promote: %d %s", code, stderr)
	}
	if at := awaitState(t, east, "leading"); at.Epoch != 3 {
		t.Errorf("it leads in epoch %d", at.Epoch)
	}
	west := []string{"--database", w.second.URL(w.name), "--master-key-file", w.key, "--site", "west", "--primary-url"}
	back := replica(t, append(west, "http://"+drover.FreeAddress(t))...) // where nobody is
	saying(t, back, "waiting", "does not answer, and may lead")
	refused(t, back)
	back.Kill()
	saying(t, replica(t, append(west, east.URL())...), "fenced", "epoch 3")
}
