package cli

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/api/client/keypair"
)

// places are what --plaintext can name.
var places = []string{"listen", "server", "database", "bus", "vault", "consul"}

func checkPlaces(text string) error {
	for _, place := range split(text) {
		if err := oneOf(places...)(place); err != nil {
			return err
		}
	}
	return nil
}

// files are what a connection is encrypted with. Paths are kept as they were
// said; contexts have absolute ones.
type files struct {
	CA          string `yaml:"ca-file,omitempty"`
	Certificate string `yaml:"client-certificate-file,omitempty"`
	Key         string `yaml:"client-key-file,omitempty"`
}

// remember takes what the command line says.
func (f *files) remember(v values, changed func(string) bool) error {
	for name, path := range map[string]*string{"ca-file": &f.CA, "client-certificate-file": &f.Certificate, "client-key-file": &f.Key} {
		if !changed(name) {
			continue
		}
		*path = v.text(name)
	}
	return f.absolute()
}

// absolute makes the paths good for whatever directory later commands run in.
func (f *files) absolute() (err error) {
	for _, path := range []*string{&f.CA, &f.Certificate, &f.Key} {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return fmt.Errorf("cannot find %s: %w", *path, err)
		}
	}
	return nil
}

// safe refuses to send a token where it could be read on the way.
func (at connection) safe(v values) error {
	if !client.Exposed(at.server) || slices.Contains(split(v.text("plaintext")), "server") {
		return nil
	}
	return &usageError{quiet: true, text: fmt.Sprintf("%s: %s is another machine, and a token that goes there over http can be read on the way: name it with https://, or say --plaintext server where the way itself is safe",
		at.serverSource, clean(at.server, false))}
}

// config is that of a client at the connection.
func (at connection) config(v values) (client.Config, error) {
	config := client.Config{Server: at.server, Token: at.token, Plaintext: true}
	if at.token != "" || at.login != "" {
		if err := at.safe(v); err != nil {
			return config, err
		}
	}
	var err error
	config.HTTPClient, err = at.files.client(at.name)
	return config, err
}

// client shows and believes what the files hold; nil: there are none. name is that of the
// server's certificate; empty: its host's.
func (f files) client(name string) (*http.Client, error) {
	if f == (files{}) {
		return nil, nil
	}
	pair, err := keypair.Open(keypair.Files{CA: f.CA, Certificate: f.Certificate, Key: f.Key, Name: name})
	if err != nil {
		return nil, &usageError{text: strings.TrimSpace(err.Error()), quiet: true}
	}
	return client.HTTPClient(pair.Transport(client.Transport())), nil
}

// web talks to an identity provider. It follows no redirects: codes and tokens go
// where discovery said, and nowhere else. What vouches for the server does so for
// the provider only where that is the server itself.
func (at connection) web(config client.Config, provider string) *http.Client {
	web := client.HTTPClient(http.DefaultTransport)
	if config.HTTPClient != nil && sameServer(provider, at.server) {
		web = client.HTTPClient(config.HTTPClient.Transport)
	}
	web.Timeout = 30 * time.Second
	return web
}

// web is likewise that of a login which is remembered.
func (i contextItem) web() (*http.Client, error) {
	at := connection{server: i.Server, files: i.Files}
	config, err := at.config(nil)
	return at.web(config, i.TokenURL), err
}
