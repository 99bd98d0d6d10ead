package rabbitmq

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"os"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// known are the settings. Those with the endings -file and -env say where a secret
// is.
var known = []string{
	"url", "vhost", "prefix", "ca", "certificate", "key",
	"username", "username-file", "username-env", "password-file", "password-env",
}

// settings are an operator's, checked.
type settings struct {
	options bus.Options
	urls    []amqp.URI // tried in turn
	prefix  string
}

func invalid(format string, args ...any) error {
	return fault.New(fault.Invalid, format, args...).Because("bus-setting")
}

func parse(o bus.Options) (settings, error) {
	s := settings{options: o, prefix: o["prefix"]}
	for name := range o {
		if !slices.Contains(known, name) {
			return s, invalid("the bus rabbitmq has no setting %q; it has %s", name, strings.Join(known, ", "))
		}
	}
	const form = "the setting url must be amqp://host:5672 or amqps://host:5671, or several of them with spaces between"
	for _, raw := range strings.Fields(o["url"]) {
		// The library's words about a wrong URL repeat it, with its password.
		u, err := amqp.ParseURI(raw)
		if err != nil {
			return s, invalid(form)
		}
		s.urls = append(s.urls, u)
	}
	if len(s.urls) == 0 {
		return s, invalid(form)
	}
	if len(s.prefix) > 64 || strings.HasPrefix(s.prefix, "amq.") {
		return s, invalid("the setting prefix must have at most 64 characters and not begin with amq.")
	}
	if (o["certificate"] == "") != (o["key"] == "") {
		return s, invalid("certificate and key belong together: set both or none")
	}
	secure := slices.ContainsFunc(s.urls, func(u amqp.URI) bool { return u.Scheme == "amqps" })
	if !secure && cmp.Or(o["ca"], o["certificate"]) != "" {
		return s, invalid("ca, certificate and key need a url that begins with amqps://")
	}
	for _, name := range []string{"username", "password"} {
		if _, err := s.secret(name); err != nil {
			return s, err
		}
	}
	if secure {
		if _, err := s.tls(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// secret reads what <name>-file or <name>-env point to; neither is an empty one.
func (s settings) secret(name string) (string, error) {
	path, variable, value := s.options[name+"-file"], s.options[name+"-env"], s.options[name]
	set := 0
	for _, source := range []string{path, variable, value} {
		if source != "" {
			set++
		}
	}
	switch {
	case set > 1:
		return "", invalid("of %[1]s, %[1]s-file and %[1]s-env more than one is set", name)
	case set == 0:
		return "", nil
	case path != "":
		data, err := os.ReadFile(path)
		if err != nil {
			return "", invalid("cannot read %s-file: %w", name, err)
		}
		value = strings.TrimSpace(string(data))
	case variable != "":
		value = strings.TrimSpace(os.Getenv(variable))
	}
	if value == "" {
		return "", invalid("what %[1]s-file or %[1]s-env points to is empty", name)
	}
	return value, nil
}

// login is read anew for each connection, so that what was rotated is used.
func (s settings) login(u amqp.URI) (sasl amqp.Authentication, secrets []string, err error) {
	name, err := s.secret("username")
	if err != nil {
		return nil, nil, err
	}
	password, err := s.secret("password")
	if err != nil {
		return nil, nil, err
	}
	if name == "" && password == "" && s.options["certificate"] != "" && u.Username == "guest" {
		return &amqp.ExternalAuth{}, nil, nil // the certificate says who we are
	}
	name, password = cmp.Or(name, u.Username), cmp.Or(password, u.Password)
	return &amqp.PlainAuth{Username: name, Password: password}, []string{password}, nil
}

// tls is read anew for each connection too: certificates end.
func (s settings) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if path := s.options["ca"]; path != "" {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, invalid("cannot read ca: %w", err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, invalid("there is no certificate in PEM form in the file that ca names")
		}
	}
	if path := s.options["certificate"]; path != "" {
		pair, err := tls.LoadX509KeyPair(path, s.options["key"])
		if err != nil {
			return nil, invalid("cannot use certificate and key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// scrub strikes secrets out of what a library says.
func scrub(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) > 0 && s != "guest" {
			text = strings.ReplaceAll(text, s, "***")
			text = strings.ReplaceAll(text, url.QueryEscape(s), "***")
			text = strings.ReplaceAll(text, url.PathEscape(s), "***")
		}
	}
	return text
}
