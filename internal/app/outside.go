package app

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/certificate"
	"github.com/droverhq/drover/internal/certificate/file"
	"github.com/droverhq/drover/internal/dns"
	"github.com/droverhq/drover/internal/entitlement"
	"github.com/droverhq/drover/internal/entitlement/remote"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/metric"
	"github.com/droverhq/drover/internal/metric/prometheus"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/sso"
	"github.com/droverhq/drover/internal/sso/builtin"
	"github.com/droverhq/drover/internal/sso/keycloak"
)

// options are the settings of one plugin, as key=value.
type options map[string]string

func pairs(list []string) options {
	out := options{}
	for _, pair := range list {
		name, value, _ := strings.Cut(pair, "=")
		out[name] = value
	}
	return out
}

// check refuses options that the plugin does not know: a misspelt one would be
// left out silently.
func (o options) check(setting string, known ...string) error {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if !slices.Contains(known, name) {
			return fault.New(fault.Invalid, "--%s: there is no option %q; there are %s", setting, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// outside is what the control plane reaches out to.
type outside struct {
	sso          sso.Provider
	login        *builtin.Provider // nil: people log in elsewhere
	realm        *access.Realm     // of login
	quota        entitlement.Source
	dns          dns.Records
	certificates certificate.Source
	metrics      metric.Source
}

// connect makes all ports of the configuration. Nothing is asked yet: what is
// away now must not keep the server from starting.
func (s *Server) connect(ctx context.Context) error {
	var err error
	if s.outside.sso, err = ssoProviders[s.cfg.SSO](s, pairs(s.cfg.SSOOptions)); err != nil {
		return err
	}
	if s.outside.quota, err = quotaSources[s.cfg.Quota](s, pairs(s.cfg.QuotaOptions)); err != nil {
		return err
	}
	if s.outside.dns, err = s.nameServers(ctx); err != nil {
		return err
	}
	if s.cfg.CertFile != "" || s.cfg.KeyFile != "" {
		if s.outside.certificates, err = file.New(file.Config{Cert: s.cfg.CertFile, Key: s.cfg.KeyFile}); err != nil {
			return err
		}
	}
	if s.cfg.MetricsURL != "" {
		s.outside.metrics, err = prometheus.New(prometheus.Config{
			URL: s.cfg.MetricsURL, TokenFile: s.cfg.MetricsToken, Policy: resilience.Config{Observer: s.calls},
		})
	}
	return err
}

func (s *Server) builtinSSO(o options) (sso.Provider, error) {
	if err := o.check("sso-options", "realm", "client", "audience"); err != nil {
		return nil, err
	}
	realm := o["realm"]
	if realm == "" {
		realm = "drover"
	}
	var err error
	if s.outside.realm, err = access.NewRealm(access.RealmConfig{Store: s.ledger, URL: builtin.Issuer(s.publicURL(), realm)}); err != nil {
		return nil, err
	}
	s.outside.login, err = builtin.New(builtin.Config{
		Store: s.ledger, Keeper: s.ledger, Keys: s.outside.realm, Users: s.users, BaseURL: s.publicURL(), Realm: realm,
		PublicClient: o["client"], Audience: o["audience"],
	})
	if err != nil {
		return nil, err
	}
	return s.outside.login, nil
}

func (s *Server) keycloakSSO(o options) (sso.Provider, error) {
	if err := o.check("sso-options", "url", "public-url", "realm", "owner", "client-id", "user", "secret-file", "login-realm"); err != nil {
		return nil, err
	}
	return keycloak.New(keycloak.Config{
		URL: o["url"], PublicURL: o["public-url"], Realm: o["realm"], Owner: o["owner"], ClientID: o["client-id"], User: o["user"],
		SecretFile: o["secret-file"], LoginRealm: o["login-realm"], Observer: s.calls,
		Audience: s.cfg.Audience, // or agents and service accounts would be strangers here
	})
}

func (s *Server) quotaList(o options) (entitlement.Source, error) {
	return s.policy, o.check("quota-options")
}

func (s *Server) quotaRemote(o options) (entitlement.Source, error) {
	if err := o.check("quota-options", "url", "title", "token-file", "token-url", "client-id", "secret-file"); err != nil {
		return nil, err
	}
	source, err := remote.New(remote.Config{
		URL: o["url"], Title: o["title"], TokenFile: o["token-file"],
		TokenURL: o["token-url"], ClientID: o["client-id"], SecretFile: o["secret-file"], Observer: s.calls,
	})
	if err != nil {
		return nil, err
	}
	s.policy.Review = source // the same service knows who has accepted terms
	return source, nil
}

func (s *Server) nameServers(ctx context.Context) (dns.Records, error) {
	if s.cfg.DNSFile == "" {
		return nil, nil
	}
	data, err := os.ReadFile(s.cfg.DNSFile)
	if err != nil {
		return nil, fault.New(fault.Invalid, "cannot read --dns-file: %w", err)
	}
	head, err := s.ledger.Head(ctx)
	if err != nil {
		return nil, err
	}
	c, err := dns.Read(data, head.Ledger, dnsProviders)
	if err != nil {
		return nil, err
	}
	c.Observer = s.calls
	return dns.New(c)
}

func (s *Server) publicURL() string {
	if s.cfg.PublicURL != "" {
		return strings.TrimSuffix(s.cfg.PublicURL, "/")
	}
	return s.URL()
}
