package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

const defaultServer = "http://127.0.0.1:8000"

// connection is where the client verbs go, and why there.
type connection struct {
	server, serverSource string
	token, tokenSource   string
	login                string // context whose login the token is of, if it is
	routes               string // address of a local data plane's proxy, if known
	files                files
	name                 string // that the server's certificate is for, if it is not its host
}

// local is what a running `drover up` leaves in its data directory.
type local struct {
	Server    string `json:"server"`
	TokenFile string `json:"token_file"`
	Routes    string `json:"routes,omitempty"`
	// Of a server with a certificate: what vouches for it, and the name it is for.
	CAFile     string `json:"ca_file,omitempty"`
	ServerName string `json:"server_name,omitempty"`
}

func readLocal(dir string) (local, error) {
	path := filepath.Join(dir, "local.json")
	data, err := readBounded(path, maxConfig)
	if err != nil {
		return local{}, err
	}
	var l local
	if err := json.Unmarshal(data, &l); err != nil {
		return local{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	if l.TokenFile != "" && !filepath.IsAbs(l.TokenFile) {
		l.TokenFile = filepath.Join(dir, l.TokenFile)
	}
	return l, nil
}

// connection finds server and token. What was said outright wins; then the named
// context, the named data directory, the current context, the data directory
// that happens to be here, the default address. A token goes only to the server
// that it was kept for. One that cannot be read is a lostToken, besides which all
// is found, unless another was said outright.
func (c *CLI) connection(v values) (connection, error) {
	// A context on the command line is more direct than a variable of the shell.
	if v.text("context") != "" {
		for _, name := range []string{"server", "token", "token-file"} {
			if v[name].given < v["context"].given {
				v[name] = value{setting: v[name].setting}
			}
		}
	}
	out := connection{server: v.text("server"), serverSource: v["server"].source}
	remembered, err := c.remembered(v)
	if err != nil {
		return out, err
	}
	var lost *lostToken
	for _, r := range remembered {
		if r.server == "" {
			continue
		}
		if out.server == "" {
			out.server, out.serverSource = r.server, r.source
		}
		if !sameServer(r.server, out.server) {
			continue
		}
		if r.routes != "" && out.routes == "" {
			out.routes = r.routes
		}
		if out.files == (files{}) && out.name == "" {
			out.files, out.name = r.files, r.name
		}
		if out.token == "" && lost == nil && (r.token != "" || r.tokenFile != "") {
			out.token, out.tokenSource, out.login = r.token, r.source, r.login
			if out.token == "" {
				if out.token, err = readToken(r.tokenFile); err != nil {
					lost = lose(r, err)
				}
			}
		}
	}
	if out.server == "" {
		out.server, out.serverSource = defaultServer, "default"
	}
	for name, path := range map[string]*string{"ca-file": &out.files.CA, "client-certificate-file": &out.files.Certificate, "client-key-file": &out.files.Key} {
		if said := v.text(name); said != "" {
			*path = said
		}
	}
	if v.text("ca-file") != "" {
		out.name = "" // whoever names authorities has the server's own name checked, too
	}
	if file := v.text("token-file"); file != "" {
		if out.token, err = readToken(file); err != nil {
			return out, &usageError{text: fmt.Sprintf("%s: cannot read %s: %v", v["token-file"].source, file, err), quiet: true}
		}
		out.tokenSource, out.login = v["token-file"].source, ""
	}
	if token := v["token"]; token.text != "" && token.given >= v["token-file"].given {
		out.token, out.tokenSource, out.login = token.text, token.source, ""
	}
	if out.token == "" && lost != nil {
		return out, lost
	}
	return out, nil
}

// lostToken is a token that is remembered and cannot be read: exit code 2. Whoever
// is about to get another one needs it not.
type lostToken struct{ said usageError }

func (e *lostToken) Error() string { return e.said.text }
func (e *lostToken) Unwrap() error { return &e.said }

func lose(r kept, err error) *lostToken {
	remedy := "name another file with `drover config set-context " + strings.TrimPrefix(r.source, "context ") + " --token-file FILE`"
	if r.dir != "" {
		remedy = "a restart of the server that keeps its data in " + r.dir + " writes a new one; until then `drover login`"
	}
	return &lostToken{usageError{text: fmt.Sprintf("cannot read the token that %s names, %s: %v\n%s, or give a token with --token or --token-file.",
		r.source, r.tokenFile, err, capital(remedy)), quiet: true}}
}

// kept is one place that remembers a server.
type kept struct {
	server, token, tokenFile, routes, source, login, name string
	dir                                                   string // if it is a data directory
	files                                                 files
}

func (i contextItem) kept(name string) kept {
	k := kept{server: i.Server, token: i.Token, tokenFile: i.TokenFile, source: "context " + name, files: i.Files}
	if i.RefreshToken != "" {
		k.login = name
	}
	return k
}

// remembered lists the places in the order in which they count.
func (c *CLI) remembered(v values) ([]kept, error) {
	var out []kept
	file, err := c.loadContexts()
	if err != nil {
		return nil, err
	}
	dir := v["data-dir"]
	here, err := readLocal(dir.text)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	nearby := kept{server: here.Server, tokenFile: here.TokenFile, routes: here.Routes, source: "local.json in " + dir.text, dir: dir.text, files: files{CA: here.CAFile}, name: here.ServerName}
	if name := v.text("context"); name != "" {
		item, err := file.get(name)
		if err != nil {
			return nil, err
		}
		return append(out, item.kept(name)), nil
	}
	if dir.given > 0 {
		out = append(out, nearby)
	}
	if file.Current != "" {
		item, err := file.get(file.Current)
		if err != nil {
			return nil, err
		}
		out = append(out, item.kept(file.Current))
	}
	return append(out, nearby), nil
}

func readToken(path string) (string, error) {
	data, err := readBounded(path, 64<<10)
	return strings.TrimSpace(string(data)), err
}

// sameServer compares scheme, host and port.
func sameServer(a, b string) bool {
	x, err1 := client.New(client.Config{Server: a})
	y, err2 := client.New(client.Config{Server: b})
	if err1 != nil || err2 != nil {
		return false
	}
	u, _ := url.Parse(x.Server())
	w, _ := url.Parse(y.Server())
	return u.Scheme == w.Scheme && strings.EqualFold(u.Host, w.Host)
}

// session is one command's connection to the server.
type session struct {
	*client.Client
	at connection
}

// connect resolves the settings of a client verb and makes its client.
func (c *CLI) connect(cmd *cobra.Command) (*session, error) {
	v, err := resolve(cmd.Flags(), c.cfg.Getenv, forClient)
	if err != nil {
		return nil, err
	}
	at, err := c.connection(v)
	if err != nil {
		return nil, err
	}
	config, err := at.config(v)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "drover/" + c.cfg.Version
	config.Warn = func(text string) { c.note("warning: %s", clean(text, false)) }
	if at.login != "" {
		file, err := c.loadContexts()
		if err != nil {
			return nil, err
		}
		config.Bearer = c.bearer(at.login, file.Contexts[at.login])
	}
	api, err := client.New(config)
	if err != nil {
		return nil, &usageError{text: at.serverSource + ": " + err.Error(), quiet: true}
	}
	return &session{Client: api, at: at}, nil
}

// reach connects, and finds what a word means on the server.
func (c *CLI) reach(cmd *cobra.Command, word string) (*session, v1.Resource, error) {
	s, err := c.connect(cmd)
	if err != nil {
		return nil, v1.Resource{}, err
	}
	r, err := s.resource(cmd.Context(), word)
	return s, r, err
}

// localCluster is the data plane that `drover up` brings along.
const localCluster = "local"

// link is where an instance's host is reached, as well as the client can know:
// what another data plane runs is not behind the local one's address.
func (s *session) link(o v1.Object) string {
	host := fieldText(o.Fields["host"])
	if cluster, told := o.Fields["cluster"]; host == "" || told && cluster != localCluster {
		return host
	}
	if _, port, err := net.SplitHostPort(s.at.routes); err == nil && (host == "localhost" || strings.HasSuffix(host, ".localhost")) {
		if port == "80" {
			return "http://" + host + "/"
		}
		return "http://" + net.JoinHostPort(host, port) + "/"
	}
	return host
}
