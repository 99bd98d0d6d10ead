package sqlledger

import (
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/droverhq/drover/internal/fault"
)

// Unencrypted lists the hosts that a database URL lets the driver speak to
// without encryption, be it only when the server offers none (sslmode=prefer, the
// default, and allow). Variables such as PGSSLMODE count, as they do when the
// driver connects. A SQLite file has none.
func Unencrypted(url string) ([]string, error) {
	if !strings.HasPrefix(url, "postgres://") && !strings.HasPrefix(url, "postgresql://") {
		return nil, nil
	}
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot read the database URL, or a file that it names (sslrootcert, sslcert, sslkey)") // the cause would show the password
	}
	var hosts []string
	note := func(host string, encrypted bool) {
		if !encrypted && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	note(c.Host, c.TLSConfig != nil)
	for _, f := range c.Fallbacks {
		note(f.Host, f.TLSConfig != nil)
	}
	return hosts, nil
}

// encrypt reads the certificates that the URL names anew, into a configuration that
// is used once: they end, and this process may live longer. Files that cannot be used
// leave what was there: they are replaced one after the other.
func encrypt(c *pgconn.Config, url string) {
	if c.TLSConfig == nil && len(c.Fallbacks) == 0 {
		return
	}
	again, err := pgconn.ParseConfig(url)
	if err != nil || len(again.Fallbacks) != len(c.Fallbacks) {
		return
	}
	c.TLSConfig = again.TLSConfig
	for i, f := range again.Fallbacks {
		c.Fallbacks[i].TLSConfig = f.TLSConfig
	}
}
