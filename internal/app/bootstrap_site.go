package app

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/droverhq/drover/internal/connection"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor/process"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/manifest"
)

// metaSite is where a bootstrap goes to.
type metaSite struct {
	kind        string // directory of deploy/meta
	connections []connection.Connection
	parameters  map[string]any
	left        []string
	cluster     *manifest.Client            // what is made is within it; nil: on this machine
	ready       func(context.Context) error // refuses before anything is made
	absent      func(context.Context) bool  // nothing can be asked there yet; nil: it can
	once        []string                    // parameters that stay as they were first
}

// again are the parameters of another run.
func (w metaSite) again() map[string]any {
	out := maps.Clone(w.parameters)
	for _, name := range w.once {
		delete(out, name)
	}
	return out
}

// Defaults of a bootstrap.
const (
	metaPort      = 8100
	metaPorts     = 12
	metaNamespace = "drover-meta"
)

// locate finds out what the location is.
func (b *bootstrap) locate() (metaSite, error) {
	b.Location = cmp.Or(b.Location, "local")
	b.Namespace = cmp.Or(b.Namespace, metaNamespace)
	if b.State == "" {
		dir, err := stateDir()
		if err != nil {
			return metaSite{}, err
		}
		b.State = filepath.Join(dir, strings.Map(plainRune, b.Location))
	}
	var err error
	if b.State, err = filepath.Abs(b.State); err != nil {
		return metaSite{}, fault.New(fault.Invalid, "cannot use the state directory: %w", err)
	}
	if b.Location == "local" {
		return b.localSite()
	}
	return b.kubernetesSite()
}

func plainRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' {
		return r
	}
	return '_'
}

// stateDir is where bootstraps are by default: where other users' programs may pass
// if this is root, since PostgreSQL does not run as root.
func stateDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/drover/bootstrap", nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "drover", "bootstrap"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fault.New(fault.Invalid, "there is no home directory to keep the state in: name one with --state")
	}
	return filepath.Join(home, ".local", "state", "drover", "bootstrap"), nil
}

// programPath is where servers are looked for before PATH: the cache of servers that
// were built, and where systems keep those that are not on it.
func programPath() string {
	var dirs []string
	if cache, err := os.UserCacheDir(); err == nil {
		for _, name := range []string{"consul-*", "openbao-*", "prometheus-*"} {
			dirs = append(dirs, filepath.Join(cache, "drover", name))
		}
	}
	dirs = append(dirs, "/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin", "/usr/lib/postgresql/*/bin", "/opt/homebrew/sbin", "/opt/homebrew/bin")
	return strings.Join(dirs, string(filepath.ListSeparator))
}

func (b *bootstrap) localSite() (metaSite, error) {
	port := cmp.Or(b.Port, metaPort)
	if port < 1024 || port+metaPorts > 65535 {
		return metaSite{}, fault.New(fault.Invalid, "--port %d: want 1024 to %d, for twelve ports from there on", port, 65535-metaPorts)
	}
	self, err := os.Executable()
	if err != nil {
		return metaSite{}, fault.New(fault.Internal, "cannot find this program: %w", err)
	}
	search := programPath()
	where := metaSite{kind: "local", parameters: map[string]any{
		"directory": b.runDir(), "drover": self, "port": int64(port), "path": search, "postgres_user": "postgres",
	}}
	where.parameters["prometheus"] = found(search, "prometheus")
	if !found(search, "prometheus") {
		where.left = append(where.left, "prometheus: it is not on this machine; metrics are served at /metrics, and nobody collects them")
	}
	own, _ := b.processes(b.runDir(), search)
	where.connections = []connection.Connection{own}
	where.ready = func(context.Context) error {
		if os.Geteuid() == 0 {
			if err := errors.Join(crossable(b.State), hasUser("postgres")); err != nil {
				return err
			}
		}
		return freePorts(port)
	}
	return where, nil
}

// hasUser refuses a machine without the user that PostgreSQL runs as. Nobody else
// will do: others' programs run as `nobody` too, and would read the ledger.
func hasUser(name string) error {
	if _, err := user.Lookup(name); err != nil {
		return fault.New(fault.Invalid, "there is no user %s on this machine, and PostgreSQL does not run as root: make one (useradd --system %s), or bootstrap as another user", name, name).Because("user")
	}
	return nil
}

// crossable refuses a directory that other users of this machine cannot come to: one
// that is below another's private directory. What of it is not there yet is made so.
func crossable(dir string) error {
	at, err := filepath.Abs(dir)
	for last := ""; err == nil && at != last; last, at = at, filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && info.Mode().Perm()&0o001 == 0 {
			return fault.New(fault.Invalid, "--state: %s cannot be entered by other users, and PostgreSQL does not run as root: choose another directory", at).Because("state")
		}
	}
	return nil
}

func found(search, name string) bool {
	for _, pattern := range filepath.SplitList(search) {
		if all, _ := filepath.Glob(filepath.Join(pattern, name)); len(all) > 0 {
			return true
		}
	}
	_, err := exec.LookPath(name)
	return err == nil
}

// freePorts refuses ports that somebody has, all at once.
func freePorts(from int) error {
	var taken []string
	for port := from; port < from+metaPorts; port++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			taken = append(taken, strconv.Itoa(port))
			continue
		}
		_ = l.Close()
	}
	if len(taken) > 0 {
		return fault.New(fault.Conflict, "ports %s of 127.0.0.1 are taken: choose others with --port (twelve are needed from there on)", strings.Join(taken, ", ")).Because("ports")
	}
	return nil
}

// revive starts programs of this machine again that do not run: nobody else can,
// where Drover is one of them.
func (w metaSite) revive(ctx context.Context, b *bootstrap) error {
	if w.kind != "local" {
		return nil
	}
	_, at := b.processes(b.runDir(), w.parameters["path"].(string))
	return process.Revive(ctx, at, func(name, what string) {
		b.revived = true
		b.tell("resource", name, "revived", what)
	})
}

// started tells whether all there is to apply is applied, whether it works or not.
func (w metaSite) started(all []ledger.Object) bool {
	if len(all) == 0 || w.kind == "local" {
		return false
	}
	for _, o := range all {
		r, err := environment.DecodeResource(o)
		if err != nil || r.Phase != environment.Ready && (r.Phase != environment.Applying || r.Status.State == "" || r.Status.Message == "") {
			return false
		}
	}
	return true
}

// waits names what is waited for.
func (w metaSite) waits(all []ledger.Object) string {
	var out []string
	for _, o := range all {
		if r, err := environment.DecodeResource(o); err == nil && r.Phase != environment.Ready && r.Phase != environment.Pending {
			out = append(out, strings.TrimSpace(r.Spec.Address+" "+r.Status.Message))
		}
	}
	slices.Sort(out)
	return cmp.Or(strings.Join(out, "; "), "its plan")
}
