package app

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/credential"
	credentialfile "github.com/droverhq/drover/internal/credential/file"
	credentialvault "github.com/droverhq/drover/internal/credential/vault"
	"github.com/droverhq/drover/internal/discovery"
	"github.com/droverhq/drover/internal/doctor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/sqlledger"
	"github.com/droverhq/drover/internal/transport"
	"github.com/droverhq/drover/internal/vault"
)

// The doors that the server itself opens.
const (
	doorDatabase = "the database"
	doorBroker   = "the broker"
)

// own is what the server itself needs of others: names, and what opens doors.
type own struct {
	cfg     *Config
	names   *names
	vault   *vault.Client // nil: there is none
	refresh time.Duration
	doors   []door

	mu  sync.Mutex
	key []byte // the master key, once it was had
}

// door is one that changes hands.
type door struct {
	what, from string
	credential.Source
}

// openOwn reads the settings. It calls nobody.
func openOwn(c *Config, observer resilience.Observer) (*own, error) {
	o := &own{cfg: c}
	var err error
	if o.names, err = openNames(c.Consul, c.ConsulOptions, c.Plaintext, observer); err != nil {
		return nil, err
	}
	o.names.Dial = through(c.hosts)
	if c.Vault == "" {
		if len(c.VaultOptions) > 0 {
			return nil, fault.New(fault.Invalid, "--vault-options are those of --vault, which is missing")
		}
		return o, nil
	}
	return o, o.openVault(observer)
}

func (o *own) openVault(observer resilience.Observer) error {
	set := pairs(o.cfg.VaultOptions)
	if err := set.check("vault-options", "auth", "mount", "namespace", "role", "role-id", "secret-id-file", "jwt-file", "token-file", "ca", "certificate", "key", "server-name", "refresh"); err != nil {
		return err
	}
	if err := plainVault(o.cfg.Vault, o.cfg.Plaintext); err != nil { // who opens the ledger alone comes here first
		return err
	}
	if text := set["refresh"]; text != "" {
		var err error
		if o.refresh, err = time.ParseDuration(text); err != nil || o.refresh < time.Second {
			return fault.New(fault.Invalid, "--vault-options: refresh is a duration of at least 1s, such as 30s")
		}
	}
	if set["auth"] == "kubernetes" {
		set["jwt-file"] = cmp.Or(set["jwt-file"], "/var/run/secrets/kubernetes.io/serviceaccount/token")
	}
	client, err := vault.New(vault.Config{
		Way: transport.Config{
			Whose: "--vault:", Address: o.names.url(o.cfg.Vault), CAFile: set["ca"], CertFile: set["certificate"], KeyFile: set["key"], ServerName: set["server-name"], Plaintext: true, Dial: o.names.DialContext,
		},
		Namespace: set["namespace"], Auth: set["auth"], Mount: set["mount"], Show: set.show, Who: "Drover", Where: "--vault-options",
		// What is renewed in seconds must not rest for many.
		Resilience: resilience.Config{Observer: observer, Timeout: 5 * time.Second, Rest: 2 * time.Second, Tell: true},
	})
	o.vault = client
	return err
}

// show is what is shown at a login. Files are read for each, because they change.
func (o options) show(what string) (string, error) {
	from := map[string]string{"token": "token-file", "role": "role", "roleId": "role-id", "secretId": "secret-id-file", "jwt": "jwt-file"}[what]
	value := o[from]
	if value == "" && what != "secretId" { // a role may do without
		return "", fault.New(fault.Invalid, "--vault-options: a login by %s needs %s", cmp.Or(o["auth"], "token"), from)
	}
	if value == "" || !strings.HasSuffix(from, "-file") {
		return value, nil
	}
	data, err := os.ReadFile(value)
	if err != nil {
		return "", fault.New(fault.Invalid, "--vault-options: cannot read %s: %w", from, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// source is what a setting refers to.
func (o *own) source(what, setting, reference string) (credential.Source, error) {
	ref, err := credential.ParseReference(reference)
	if err != nil {
		return nil, fault.New(fault.Invalid, "--%s: %w", setting, err)
	}
	for _, d := range o.doors { // of an earlier life: what it knows is known
		if d.what == what && d.from == ref.String() {
			return d.Source, nil
		}
	}
	var s credential.Source
	switch {
	case ref.Scheme == "file":
		s = credentialfile.New(credentialfile.Config{Path: ref.Path})
	case o.vault == nil:
		return nil, fault.New(fault.Invalid, "--%s refers to Vault: say with --vault where that is", setting)
	default:
		s = credentialvault.New(credentialvault.Config{Client: o.vault, Path: ref.Path, Refresh: o.refresh})
	}
	o.doors = append(o.doors, door{what, ref.String(), s})
	return s, nil
}

// login is a source as those know it who open doors.
type login struct{ credential.Source }

func (l login) Get(ctx context.Context) (name, password string, err error) {
	c, err := l.Source.Get(ctx)
	return c.Username, c.Password, err
}

func (l login) Refused(name, password string) {
	l.Source.Refused(credential.Credential{Username: name, Password: password})
}

// database is how the ledger is opened, but for what is in it.
func (o *own) database() (sqlledger.Config, error) {
	c := sqlledger.Config{URL: o.cfg.Database}
	if o.cfg.DatabaseCreds != "" {
		if databaseName(c.URL) == "SQLite" {
			return c, fault.New(fault.Invalid, "--database-credentials open a PostgreSQL: say with --database where that is")
		}
		s, err := o.source(doorDatabase, "database-credentials", o.cfg.DatabaseCreds)
		if err != nil {
			return c, err
		}
		c.Login = login{s}
	}
	if o.names.finder != nil {
		c.Lookup = o.names.lookup(discovery.Portless(c.URL))
	}
	if u, err := url.Parse(c.URL); err == nil && o.cfg.hosts[u.Host] != "" {
		c.Lookup = func(context.Context, string) ([]string, error) { return []string{o.cfg.hosts[u.Host]}, nil }
	}
	return c, nil
}

// broker takes what is not the broker's own business out of its options, which the
// setting has: there may be two brokers.
func (o *own) broker(setting string, in bus.Options) (*login, error) {
	var out *login
	if ref := in["credentials"]; ref != "" {
		if cmp.Or(in["username"], in["username-file"], in["username-env"], in["password-file"], in["password-env"]) != "" {
			return nil, fault.New(fault.Invalid, "--%s: credentials are a name and a password; leave out the other settings of these", setting)
		}
		s, err := o.source(doorBroker, setting+": credentials", ref)
		if err != nil {
			return nil, err
		}
		out = &login{s}
	}
	delete(in, "credentials")
	urls := strings.Fields(in["url"])
	for i, u := range urls {
		urls[i] = o.names.url(u)
	}
	if len(urls) > 0 {
		in["url"] = strings.Join(urls, " ")
	}
	return out, nil
}

// close ends what was opened, last of all: nobody connects any more.
func (o *own) close() {
	if o == nil {
		return
	}
	for _, d := range o.doors {
		d.Close()
	}
	if o.vault != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_ = o.vault.Leave(ctx) // what was taken ends by itself otherwise
	}
}

// facts are what the doctor decides upon.
func (o *own) facts(ctx context.Context, f *doctor.Facts) {
	for _, d := range o.doors {
		fact := doctor.Credential{Door: d.what, From: d.from}
		if err := d.Trouble(); err != nil {
			fact.Trouble, fact.Sealed = err.Error(), fault.Reason(err) == "sealed"
		}
		// Whoever has nothing is told of at once: the server did not start, or did not get that far.
		known, cancel := context.WithCancel(ctx)
		cancel() // what is known, without asking anybody
		if c, err := d.Source.Get(known); err == nil {
			fact.Ends = c.Ends
		}
		f.Credentials = append(f.Credentials, fact)
	}
	o.names.facts(ctx, f)
}

var _ interface {
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
} = (*names)(nil)
