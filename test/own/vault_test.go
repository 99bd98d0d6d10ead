//go:build e2e

package own

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
	"github.com/droverhq/drover/test/openbao"
	"github.com/droverhq/drover/test/rabbitmq"
)

// Users of the database and of the broker live for seconds, and so does Drover's own
// session: they change under load, again and again. No order fails, none is lost, and
// each is told of on the broker.
func TestCredentialsChangeUnderLoad(t *testing.T) {
	w := newWorld(t, lives{lease: 6, most: 14, token: 10, mostToken: 25})
	mq := w.broker(t, 6, 14)
	s := drover.Serve(t, w.flags...)
	heard := follow(t, s, mq)
	l := newLoad(t, s, 4)
	var users, accounts []string
	drover.Until(t, "several users of the database, and several accounts of the broker", func() bool {
		users = add(users, w.users(t)...)
		accounts = add(accounts, slices.DeleteFunc(mq.Users(t), func(u string) bool { return u == rabbitmq.User })...)
		return len(users) >= 5 && len(accounts) >= 4 || t.Failed()
	})
	l.more(t, "after the changes")
	l.check(t)
	heard.until(t, "under load", l)
	t.Logf("%d orders, %d users of the database, %d accounts of the broker", len(l.ordered), len(users), len(accounts))
	if said := doctor(s); strings.Contains(said, "cannot be renewed") || strings.Contains(said, "has ended") {
		t.Errorf("the doctor says\n%s", said)
	}
	quiet(t, s, w.secret, mq.Password)
	if code := s.Stop(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
	// Who leaves takes its users along.
	drover.Until(t, "no user to be left", func() bool {
		var n int
		if err := w.admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'v-%'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
}

// The vault is sealed until everything that it gave has ended, users of the database and
// accounts of the broker: what is open goes on. Once it is unsealed, and takes the old ones
// away, there are new ones, and nobody has noticed: no order fails, each of its changes is
// told on the broker, and no log holds what was given.
func TestVaultIsSealedWhileLeasesEnd(t *testing.T) {
	w := newWorld(t, lives{lease: 8, most: 3600, token: 12, mostToken: 3600})
	mq := w.broker(t, 8, 3600)
	secrets := w.overhear(t)
	s := drover.Serve(t, w.flags...)
	heard := follow(t, s, mq)
	l := newLoad(t, s, 2)
	l.more(t, "before")
	accounts := func() []string {
		return slices.DeleteFunc(mq.Users(t), func(u string) bool { return u == rabbitmq.User })
	}
	before, opened := w.users(t), accounts()
	if len(before) != 1 || len(opened) == 0 {
		t.Fatalf("the users are %v, the accounts %v", before, opened)
	}
	for range 2 {
		if err := w.bao.Seal(); err != nil {
			t.Fatal(err)
		}
		drover.Until(t, "the doctor to say that it is sealed", func() bool { return strings.Contains(doctor(s), "sealed") })
		for _, door := range []string{"the database", "the broker"} {
			drover.Until(t, "the doctor to say that the credential of "+door+" has ended", func() bool {
				return strings.Contains(doctor(s), "what opens "+door+" has ended")
			})
		}
		l.more(t, "while it is sealed")
		heard.until(t, "while it is sealed", l)
		if err := w.bao.Unseal(); err != nil {
			t.Fatal(err)
		}
		drover.Until(t, "another user", func() bool {
			now := w.users(t)
			return len(now) == 1 && now[0] != before[0] || t.Failed()
		})
		before = w.users(t)
		drover.Until(t, "other accounts of the broker alone", func() bool {
			now := accounts()
			return len(now) > 0 && !slices.ContainsFunc(now, func(u string) bool { return slices.Contains(opened, u) }) || t.Failed()
		})
		opened = accounts()
		drover.Until(t, "the doctor to be content", func() bool { return !strings.Contains(doctor(s), "what opens") })
		l.more(t, "after it was unsealed")
		heard.until(t, "after it was unsealed", l)
	}
	l.check(t)
	heard.whole(t, l.client)
	words := append(secrets.all(t, map[string]int{"auth": 1, "/v1/database/creds/drover": 3, "/v1/rabbitmq/creds/drover": 3}), w.secret, mq.Password)
	quiet(t, s, words...)
	for name, log := range map[string]string{"the broker's log": mq.Log(), "the audit": audit(t, s), "the doctor": doctor(s)} {
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(log, word) }) {
			t.Errorf("%s holds a secret", name)
		}
	}
}

// A session that somebody ends takes its users along: there are others soon, without
// waiting for anybody's time.
func TestTokenIsRevoked(t *testing.T) {
	w := newWorld(t, lives{lease: 3600, most: 7200, token: 3600, mostToken: 7200})
	s := drover.Serve(t, w.flags...)
	before := w.users(t)
	w.ask(t, "sys/leases/revoke-prefix/auth/approle", nil)
	drover.Until(t, "the user to be gone", func() bool {
		var n int
		if err := w.admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_roles WHERE rolname = ANY($1)", before).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n == 0
	})
	// Until now nobody needed to connect.
	w.sql(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'drover'")
	drover.Until(t, "another user", func() bool {
		now := w.users(t)
		return len(now) > 0 && !slices.Contains(before, now[0])
	})
	l := newLoad(t, s, 2)
	l.more(t, "with the other")
	l.check(t)
}

// With nothing to begin with, it says why, and what to do.
func TestStartWithoutACredential(t *testing.T) {
	w := newWorld(t, lives{lease: 60, most: 600, token: 60, mostToken: 600})
	end := func(says string, flags ...string) {
		t.Helper()
		quiet(t, ends(t, says, flags...), w.secret)
	}
	other := slices.Clone(w.flags)
	other[slices.Index(other, "vault:database/creds/drover")] = "vault:database/creds/nobody"
	end("refuses", other...)
	other[slices.Index(other, "vault:database/creds/nobody")] = "vault:nowhere/creds/drover"
	end("nowhere", other...)
	end("--vault", "--database", "postgres://127.0.0.1/drover", "--database-credentials", "vault:database/creds/drover")
	if err := w.bao.Seal(); err != nil {
		t.Fatal(err)
	}
	end("sealed", w.flags...)
}

// The file of the master key is of no use without transit, and a ledger is taken under
// it and out of it again.
func TestMasterKeyUnderTransit(t *testing.T) {
	bao := openbao.Start(t, openbao.WithData())
	ask := func(path string, in map[string]string, field string) string {
		t.Helper()
		var out struct{ Data map[string]any }
		var into any
		if field != "" {
			into = &out
		}
		if err := bao.API().Ask(t.Context(), http.MethodPost, "/v1/"+path, in, into); err != nil {
			t.Fatal(err)
		}
		text, _ := out.Data[field].(string)
		return text
	}
	ask("sys/mounts/transit", map[string]string{"type": "transit"}, "")
	ask("transit/keys/drover", nil, "")
	ask("transit/keys/other", nil, "")
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(bao.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	vault := []string{"--vault", bao.URL, "--vault-options", "token-file=" + token}
	with := func(key string) []string { return append(slices.Clone(vault), "--master-key-transit", key) }
	s := drover.Serve(t, with("transit/keys/drover")...)
	file := filepath.Join(s.DataDir, "master.key")
	read := func() string {
		t.Helper()
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(data))
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wrapped := read()
	if !strings.HasPrefix(wrapped, "vault:v1:") {
		t.Fatal("the file holds the key itself")
	}
	again := func(says string, flags ...string) {
		t.Helper()
		s.Kill()
		s.Args = flags
		if says == "" {
			s.Start(t)
			return
		}
		seen := len(s.Log())
		if err := s.Launch(); err != nil {
			t.Fatal(err)
		}
		<-s.Done()
		if s.ExitCode() == 0 || !strings.Contains(s.Log()[seen:], says) {
			t.Errorf("it ends with %d, and does not say %q:\n%s", s.ExitCode(), says, s.Log()[seen:])
		}
	}
	again("", with("transit/keys/drover")...)
	again("--master-key-transit", vault...)
	again("cannot unwrap the master key", with("transit/keys/other")...)
	again("mount", with("nowhere/keys/drover")...)
	again("MOUNT/keys/NAME", with("transit")...)
	if read() != wrapped {
		t.Fatal("a start that failed has changed the file")
	}
	if err := bao.Seal(); err != nil {
		t.Fatal(err)
	}
	again("sealed", with("transit/keys/drover")...)
	if err := bao.Unseal(); err != nil {
		t.Fatal(err)
	}
	// As docs/vault.md says: out of it, and under it again.
	plain, err := base64.StdEncoding.DecodeString(ask("transit/decrypt/drover", map[string]string{"ciphertext": wrapped}, "plaintext"))
	if err != nil {
		t.Fatal(err)
	}
	write(strings.TrimSpace(string(plain)))
	again("not wrapped", with("transit/keys/drover")...)
	again("", vault...)
	write(ask("transit/encrypt/drover", map[string]string{"plaintext": base64.StdEncoding.EncodeToString([]byte(read() + "\n"))}, "ciphertext"))
	again("", with("transit/keys/drover")...)
	quiet(t, s, bao.Token, strings.TrimSpace(string(plain)))
}
