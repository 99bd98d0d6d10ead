// Package keycloak keeps the accounts of programs in a realm of Keycloak.
//
// It owns how a sso.Client looks there: a confidential client with a service
// account, mappers for its claims and roles of the realm. It touches only
// clients that carry its mark, and must not know what they are for.
package keycloak

import (
	"context"
	"hash/fnv"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/Nerzal/gocloak/v13"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/sso"
)

// Config of the provider. URL, Realm and a secret are needed.
type Config struct {
	// URL of the server as Drover reaches it: "https://sso.example.org", with
	// "/auth" at its end where the server has that.
	URL string
	// PublicURL is the same as users reach it; default URL.
	PublicURL string
	// Realm that the clients are in.
	Realm string
	// Owner marks the clients of this Drover: several may share a realm.
	// Default "drover".
	Owner string
	// Audience that the clients' tokens are made for besides, so that a service
	// which asks for one accepts them; default: none.
	Audience string

	// ClientID is Drover's own account, a client whose service account has the
	// roles manage-clients, manage-users and manage-realm of the
	// realm's management; default "drover".
	ClientID string
	// User, where it is given, is a person's account to use instead, through
	// the client "admin-cli".
	User string
	// Secret of the account, or SecretFile that holds it. The file is read
	// again for each login: a new secret needs no restart.
	Secret     string
	SecretFile string
	// LoginRealm is where the account is; default Realm.
	LoginRealm string

	Timeout  time.Duration       // of one request; default 10 s
	Observer resilience.Observer // of the requests; nil: none
	Now      func() time.Time    // default time.Now
}

// Provider is a sso.Provider on one realm. It has no goroutines of its own.
type Provider struct {
	cfg    Config
	api    *gocloak.GoCloak
	policy *resilience.Policy
	// busy serialises the work on one client within this process: the server
	// answers two writers of one client with odd errors. Other processes are
	// met by trying again.
	busy [64]chan struct{}

	login  chan struct{} // holds the right to log in; guards the two below
	token  string
	expiry time.Time
}

var _ sso.Provider = (*Provider)(nil)

// New makes the provider. It asks the server nothing yet.
func New(c Config) (*Provider, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return nil, fault.New(fault.Invalid, "the URL of Keycloak must be http or https, with a host and without a password")
	}
	if c.Realm == "" || strings.ContainsAny(c.Realm, "/?#") {
		return nil, fault.New(fault.Invalid, "Keycloak needs the name of a realm")
	}
	if (c.Secret == "") == (c.SecretFile == "") {
		return nil, fault.New(fault.Invalid, "Keycloak needs either a secret or a file that holds it")
	}
	c.URL = strings.TrimRight(c.URL, "/")
	c.PublicURL = strings.TrimRight(or(c.PublicURL, c.URL), "/")
	c.Owner, c.ClientID, c.LoginRealm = or(c.Owner, "drover"), or(c.ClientID, "drover"), or(c.LoginRealm, c.Realm)
	if c.Now == nil {
		c.Now = time.Now
	}
	p := &Provider{
		cfg: c, api: gocloak.NewClient(c.URL), login: make(chan struct{}, 1),
		policy: resilience.New(resilience.Config{
			Name: "the identity provider", Timeout: c.Timeout, Queue: 10 * time.Second, Observer: c.Observer,
		}),
	}
	p.api.RestyClient().SetTransport(transport{http.DefaultTransport})
	for i := range p.busy {
		p.busy[i] = make(chan struct{}, 1)
	}
	return p, nil
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Endpoints for users of the accounts.
func (p *Provider) Endpoints() sso.Endpoints {
	realm := p.cfg.PublicURL + "/realms/" + url.PathEscape(p.cfg.Realm)
	return sso.Endpoints{
		Name: "keycloak", BaseURL: p.cfg.PublicURL, Realm: p.cfg.Realm, Issuer: realm,
		TokenURL: realm + "/protocol/openid-connect/token",
		JWKSURL:  realm + "/protocol/openid-connect/certs",
	}
}

// call makes one request under the policy, with Drover's own token. The errors
// have their kinds; see explain.
func (p *Provider) call(ctx context.Context, what string, request func(ctx context.Context, token string) error) error {
	err := p.policy.Do(ctx, func(ctx context.Context) error {
		for try := 0; ; try++ {
			token, err := p.ticket(ctx)
			if err != nil {
				return err
			}
			inner, status := watched(ctx)
			err = request(inner, token)
			if err != nil && ctx.Err() != nil {
				return ctx.Err() // who left says nothing about the server
			}
			if err != nil && *status == http.StatusUnauthorized && try == 0 {
				p.forget(ctx, token)
				continue
			}
			return explain(what, *status, err)
		}
	})
	if err != nil && fault.Of(err) == fault.Internal {
		return fault.New(fault.Unavailable, "cannot %s: the identity provider was not asked to the end", what)
	}
	return err
}

// ticket returns a token for the administration, and logs in where the last one
// is about to run out.
func (p *Provider) ticket(ctx context.Context) (string, error) {
	select {
	case p.login <- struct{}{}:
		defer func() { <-p.login }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if p.token != "" && p.cfg.Now().Before(p.expiry) {
		return p.token, nil
	}
	secret, err := p.secret()
	if err != nil {
		return "", err
	}
	asked := p.cfg.Now()
	inner, status := watched(ctx)
	var jwt *gocloak.JWT
	if p.cfg.User != "" {
		jwt, err = p.api.LoginAdmin(inner, p.cfg.User, secret, p.cfg.LoginRealm)
	} else {
		jwt, err = p.api.LoginClient(inner, p.cfg.ClientID, secret, p.cfg.LoginRealm)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && (*status == http.StatusUnauthorized || *status == http.StatusBadRequest || *status == http.StatusForbidden):
		return "", fault.New(fault.Unavailable, "the identity provider refuses Drover's own login (%d): look at the account and its secret", *status)
	case err != nil && *status == http.StatusNotFound:
		return "", fault.New(fault.Unavailable, "the identity provider has no realm %q to log in to", p.cfg.LoginRealm)
	case err != nil:
		return "", explain("log in", *status, err)
	}
	// A fifth is left over for clocks and for requests on their way.
	p.token, p.expiry = jwt.AccessToken, asked.Add(time.Duration(jwt.ExpiresIn)*time.Second*4/5)
	return p.token, nil
}

// forget drops a token that the server has refused, unless it is another by now.
func (p *Provider) forget(ctx context.Context, token string) {
	select {
	case p.login <- struct{}{}:
		if p.token == token {
			p.token = ""
		}
		<-p.login
	case <-ctx.Done():
	}
}

func (p *Provider) secret() (string, error) {
	if p.cfg.Secret != "" {
		return p.cfg.Secret, nil
	}
	data, err := os.ReadFile(p.cfg.SecretFile)
	if s := strings.TrimSpace(string(data)); err == nil && s != "" {
		return s, nil
	}
	return "", fault.New(fault.Unavailable, "cannot read the secret of Keycloak's account from %s", p.cfg.SecretFile)
}

// alone waits until nobody else in this process works on the client.
func (p *Provider) alone(ctx context.Context, id string) (leave func(), err error) {
	h := fnv.New32a()
	h.Write([]byte(id))
	lane := p.busy[h.Sum32()%uint32(len(p.busy))]
	select {
	case lane <- struct{}{}:
		return func() { <-lane }, nil
	case <-ctx.Done():
		return nil, fault.New(fault.Unavailable, "the identity provider was not asked: others are at the same account")
	}
}
