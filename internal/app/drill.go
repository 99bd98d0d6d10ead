package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/sqlledger"
)

// cloneOptions are what a copy of a standby runs with: it follows nobody, is reached
// from this machine alone, and has as much of everything as any primary may ask for.
var cloneOptions = []string{
	"listen_addresses=127.0.0.1", "unix_socket_directories=", "primary_conninfo=", "primary_slot_name=", "restore_command=", "archive_mode=off",
	"synchronous_standby_names=", "ssl=off", "max_connections=1000", "max_worker_processes=64", "max_wal_senders=64", "max_prepared_transactions=500", "max_locks_per_transaction=256",
}

// Drill rehearses a promotion on a copy of the standby, which is made and run by
// PostgreSQL's own programs and removed in the end. Neither site notices.
func Drill(ctx context.Context, c Config, bin string) (out v1.Drill, err error) {
	c.defaults()
	at, err := url.Parse(c.Database)
	if err != nil || at.Scheme != "postgres" && at.Scheme != "postgresql" || at.User == nil {
		return out, fault.New(fault.Invalid, "a drill needs the standby: --database postgres://USER:PASSWORD@HOST:PORT/NAME, of a user that may replicate")
	}
	d, err := newClone(bin)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, d.remove()) }()
	began := time.Now()
	if err := d.copy(ctx, at); err != nil {
		return out, err
	}
	out.Copied = time.Since(began).Seconds()
	if c.Database, err = d.start(ctx, at); err != nil {
		return out, err
	}
	probe, err := sqlledger.OpenProbe(ctx, sqlledger.Config{URL: c.Database})
	if err != nil {
		return out, err
	}
	defer probe.Close()
	was, err := probe.Look(ctx)
	if err != nil {
		return out, err
	}
	began = time.Now()
	if err := probe.Promote(ctx); err != nil {
		return out, err
	}
	l, err := sqlledger.Open(ctx, sqlledger.Config{URL: c.Database, Kinds: Kinds(), Epoch: was.Epoch + 1, Site: "drill"})
	if err != nil {
		return out, err
	}
	head, err := l.Head(ctx)
	l.Close()
	if err != nil {
		return out, err
	}
	out.RTO, out.Epoch, out.Seq = time.Since(began).Seconds(), head.Epoch, head.Seq
	began = time.Now()
	out.Verification, err = Verify(ctx, c, nil, nil)
	out.Verified = time.Since(began).Seconds()
	return out, err
}

// clone is a copy of a database, in a directory of its own. Below it, home is given to
// the user whom PostgreSQL runs as: whatever that one puts in there, nothing of ours
// is written through it.
type clone struct {
	bin, dir string
	running  bool
}

func newClone(bin string) (*clone, error) {
	if bin == "" {
		dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
		if path, err := exec.LookPath("pg_basebackup"); err == nil {
			if path, err = filepath.EvalSymlinks(path); err == nil {
				dirs = append(dirs, filepath.Dir(path))
			}
		}
		for _, dir := range slices.Backward(dirs) {
			if _, err := os.Stat(filepath.Join(dir, "pg_ctl")); err == nil {
				bin = dir
				break
			}
		}
	}
	for _, name := range []string{"pg_basebackup", "pg_ctl", "postgres"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return nil, fault.New(fault.Invalid, "a drill needs PostgreSQL's own %s, of the version that the standby has: name its directory with --postgres-bin", name)
		}
	}
	dir, err := os.MkdirTemp("", "drover-drill-")
	if err != nil {
		return nil, fault.New(fault.Unavailable, "cannot make a directory for the copy: %w", err)
	}
	d := &clone{bin: bin, dir: dir}
	err = os.Mkdir(d.home(), 0o700)
	if err == nil && os.Geteuid() == 0 {
		err = os.Chmod(dir, 0o711) // it is passed through
	}
	if err == nil {
		err = hand(dir, "home")
	}
	if err != nil {
		return nil, errors.Join(fault.New(fault.Unavailable, "cannot make a directory for the copy: %w", err), os.RemoveAll(dir))
	}
	return d, nil
}

func (d *clone) home() string { return filepath.Join(d.dir, "home") }
func (d *clone) data() string { return filepath.Join(d.home(), "data") }

// write makes a file of the copy anew, and its user's.
func (d *clone) write(name, text string) error {
	root, err := os.OpenRoot(d.home()) // links in there lead nowhere
	if err != nil {
		return err
	}
	defer root.Close()
	next := filepath.Join("data", name+".new")
	if err := root.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(next, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, handOpen(f), f.Close()); err != nil {
		return err
	}
	return root.Rename(next, filepath.Join("data", name))
}

// run runs one of PostgreSQL's programs, which never is root.
func (d *clone) run(ctx context.Context, env []string, name string, args ...string) error {
	log, err := os.Create(filepath.Join(d.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, name), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = d.home(), log, log, append(os.Environ(), env...)
	unprivileged(cmd)
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(log.Name())
		return fault.New(fault.Unavailable, "%s: %w: %.2000s", name, err, said)
	}
	return nil
}

func (d *clone) copy(ctx context.Context, at *url.URL) error {
	from := *at
	from.User = url.User(at.User.Username()) // whoever lists processes would read the password
	err := d.run(ctx, drillEnv(at), "pg_basebackup", "-D", d.data(), "-X", "stream", "--checkpoint=fast", "--no-sync", "-d", from.String())
	if err != nil {
		return fmt.Errorf("cannot copy the standby (its user needs REPLICATION, and pg_hba.conf an entry for it): %w", err)
	}
	if _, err := os.Lstat(filepath.Join(d.data(), "postgresql.conf")); errors.Is(err, os.ErrNotExist) { // kept elsewhere, as on Debian
		if err := d.write("postgresql.conf", ""); err != nil {
			return fault.New(fault.Unavailable, "cannot write to the copy: %w", err)
		}
	}
	if err := d.write("pg_hba.conf", "host all all 127.0.0.1/32 scram-sha-256\n"); err != nil {
		return fault.New(fault.Unavailable, "cannot write to the copy: %w", err)
	}
	return nil
}

// drillEnv has the URL's password, where it has one: else the user's own settings count.
func drillEnv(at *url.URL) []string {
	if password, ok := at.User.Password(); ok {
		return []string{"PGPASSWORD=" + password}
	}
	return nil
}

// start runs the copy and returns its URL.
func (d *clone) start(ctx context.Context, at *url.URL) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	options := "-p " + port
	for _, o := range cloneOptions {
		options += " -c '" + o + "'"
	}
	options += " -c 'hba_file=" + filepath.Join(d.data(), "pg_hba.conf") + "'"
	d.running = true
	if err := d.run(ctx, nil, "pg_ctl", "-D", d.data(), "-l", filepath.Join(d.home(), "server.log"), "-w", "-t", "300", "-o", options, "start"); err != nil {
		return "", fmt.Errorf("cannot start the copy: %w: %.2000s", err, d.said())
	}
	to := url.URL{Scheme: "postgres", User: at.User, Host: net.JoinHostPort("127.0.0.1", port), Path: at.Path, RawQuery: "sslmode=disable"}
	return to.String(), nil
}

// said is the last word of the copy.
func (d *clone) said() []byte {
	root, err := os.OpenRoot(d.home())
	if err != nil {
		return nil
	}
	defer root.Close()
	said, _ := root.ReadFile("server.log")
	return said
}

// remove leaves nothing behind.
func (d *clone) remove() error {
	if d.running {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := os.Lstat(filepath.Join(d.data(), "postmaster.pid")); err == nil {
			if err := d.run(ctx, nil, "pg_ctl", "-D", d.data(), "-m", "immediate", "-w", "stop"); err != nil {
				return fmt.Errorf("the copy in %s still runs: %w", d.dir, err)
			}
		}
	}
	if err := os.RemoveAll(d.dir); err != nil && !strings.Contains(err.Error(), "no such file") {
		return fault.New(fault.Unavailable, "cannot remove the copy in %s: %w", d.dir, err)
	}
	return nil
}
