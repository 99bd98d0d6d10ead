package postgres

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Secure has the running server speak TLS with a certificate, and let a user in by
// nothing but one of its own: of the authorities, and for the user's name. It may be
// called again with other files, which count for new connections.
func (s *Server) Secure(t testing.TB, user, ca, certificate, key string) {
	t.Helper()
	hba := filepath.Join(s.dir, "data", "pg_hba.conf")
	rules := fmt.Sprintf("host all postgres 127.0.0.1/32 scram-sha-256\nhostssl all %s 127.0.0.1/32 cert\n", user)
	err := os.WriteFile(hba, []byte(rules), 0o600)
	for setting, from := range map[string]string{"ssl_ca_file": ca, "ssl_cert_file": certificate, "ssl_key_file": key} {
		var data []byte
		if err == nil {
			data, err = os.ReadFile(from)
		}
		path := filepath.Join(s.dir, setting)
		if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err == nil {
			err = hand(path)
		}
		if err == nil {
			err = exec1(s.URL("postgres"), fmt.Sprintf("ALTER SYSTEM SET %s = '%s'", setting, path))
		}
	}
	for _, sql := range []string{"ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()"} {
		if err == nil {
			err = exec1(s.URL("postgres"), sql)
		}
	}
	if err != nil {
		t.Fatalf("cannot secure PostgreSQL: %v", err)
	}
}

// Mount has the server start anew as a container of it does: with files that are root's
// and readable by its group, as a kubelet lays them at a path, and with arguments that
// name them there. Its rules let the administrator of the test in besides.
func (s *Server) Mount(t testing.TB, path string, files map[string][]byte, args []string) {
	t.Helper()
	s.Stop()
	dir := filepath.Join(s.dir, "mounted")
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	for name, data := range files {
		if name == "pg_hba.conf" {
			data = append([]byte("host all postgres 127.0.0.1/32 scram-sha-256\n"), data...)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o440)
		}
		if err == nil {
			err = share(filepath.Join(dir, name))
		}
	}
	if err != nil {
		t.Fatalf("cannot lay the files of PostgreSQL: %v", err)
	}
	s.args = nil
	for _, a := range args {
		s.args = append(s.args, strings.ReplaceAll(a, path+"/", dir+"/"))
	}
	s.Start(t)
}

// Encrypted is the DSN of a database for a user who shows a certificate.
func (s *Server) Encrypted(user, database, ca, certificate, key string) string {
	u := url.URL{
		Scheme: "postgres", User: url.User(user), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/" + database,
		RawQuery: url.Values{"sslmode": {"verify-full"}, "sslrootcert": {ca}, "sslcert": {certificate}, "sslkey": {key}}.Encode(),
	}
	return u.String()
}

// Exec runs one statement as the administrator.
func (s *Server) Exec(t testing.TB, sql string) {
	t.Helper()
	if err := exec1(s.URL("postgres"), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// Sessions is how many connections a user has that are encrypted, and how many there
// are at all.
func (s *Server) Sessions(ctx context.Context, t testing.TB, user string) (encrypted, all int) {
	t.Helper()
	return sessions(ctx, t, s.URL("postgres"), user)
}
