package keycloak

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Nerzal/gocloak/v13"

	"github.com/droverhq/drover/test/servers"
	"github.com/droverhq/drover/test/servers/process"
)

// patience bounds the start, which takes 15 to 60 seconds, and minutes on a machine
// that ten others use.
const patience = 15 * time.Minute

// Server is a running Keycloak.
type Server struct {
	URL      string
	User     string // the administrator of all realms
	Password string

	dir   string
	shell *exec.Cmd
	leash io.WriteCloser
}

// Running returns the test process's one server. A watchdog ends it with the
// process, however that ends.
func Running(t testing.TB) *Server {
	t.Helper()
	if os.Getenv("DROVER_TEST_NO_KEYCLOAK") == "1" {
		t.Skip("there is no Keycloak: `test/with-keycloak.sh true` brings it")
	}
	s, err := shared()
	if err != nil {
		t.Fatalf("cannot run Keycloak: %v", err)
	}
	return s
}

var shared = sync.OnceValues(func() (*Server, error) {
	if at := os.Getenv("DROVER_TEST_KEYCLOAK"); at != "" {
		u, err := url.Parse(at)
		if err != nil || u.User == nil {
			return nil, errors.New("DROVER_TEST_KEYCLOAK is not like http://admin:password@127.0.0.1:8080")
		}
		s := &Server{User: u.User.Username()}
		s.Password, _ = u.User.Password()
		u.User = nil
		s.URL = strings.TrimRight(u.String(), "/")
		return s, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	home, err := servers.Fetch(ctx, Archive, os.Stderr)
	if err != nil {
		return nil, err
	}
	s, err := create(home)
	if err != nil {
		return nil, err
	}
	if err := s.start(); err != nil {
		Stop()
		return nil, err
	}
	return s, nil
})

// Realm makes an empty realm of a new name, which is removed with the test.
func (s *Server) Realm(t testing.TB) string {
	t.Helper()
	name := "t-" + strings.ToLower(rand.Text())
	admin := gocloak.NewClient(s.URL)
	token, err := admin.LoginAdmin(t.Context(), s.User, s.Password, "master")
	if err != nil {
		t.Fatalf("cannot log in to Keycloak: %v", err)
	}
	on := true
	if _, err := admin.CreateRealm(t.Context(), token.AccessToken, gocloak.RealmRepresentation{Realm: &name, Enabled: &on}); err != nil {
		t.Fatalf("cannot create a realm: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		token, err := admin.LoginAdmin(ctx, s.User, s.Password, "master")
		if err == nil {
			err = admin.DeleteRealm(ctx, token.AccessToken, name)
		}
		if err != nil {
			t.Logf("cannot delete the realm: %v", err)
		}
	})
	return name
}

// Stop ends the process's server where one runs, with all of its processes.
// TestMain calls it last; without it the watchdog does the same.
func Stop() {
	started.Lock()
	defer started.Unlock()
	if s := started.server; s != nil {
		s.leash.Close()
		s.shell.Wait() //nolint:errcheck // it ends by a signal
		started.server = nil
	}
}

var started struct {
	sync.Mutex
	server *Server
}

// create lays out a server's own directory. Its start rewrites part of what was
// unpacked, so that no two servers may share it; the large rest is linked.
func create(home string) (*Server, error) {
	dir, err := os.MkdirTemp("", "drover-keycloak-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, User: "admin", Password: rand.Text()}
	if err := mirror(home, filepath.Join(dir, "home")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	port, err := process.Port()
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s.URL = "http://127.0.0.1:" + port
	return s, nil
}

func mirror(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case rel == "data":
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case strings.HasSuffix(path, ".jar") && !strings.Contains(filepath.ToSlash(rel), "lib/quarkus/"):
			if os.Link(path, target) == nil {
				return nil
			}
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, info.Mode().Perm())
	})
}

const ended = "drover: the server has ended"

// watchdog keeps the server on a leash: the end of its standard input, which
// comes when the test process closes it or dies for whatever reason, ends every
// process of the group and removes the data.
const watchdog = `dir=$1; shift; { "$@" </dev/null; echo "` + ended + `"; } & pid=$!
read -r _
trap '' TERM
kill -TERM 0
kill -CONT 0
wait $pid
rm -rf "$dir"`

func (s *Server) start() error {
	logs, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer logs.Close()
	host, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	s.shell = exec.Command("/bin/sh", "-c", watchdog, "sh", s.dir, filepath.Join(s.dir, "home", "bin", "kc.sh"),
		"start-dev", "--http-host="+host, "--http-port="+port, "--db=dev-mem")
	s.shell.Dir = s.dir
	s.shell.Stdout, s.shell.Stderr = logs, logs
	s.shell.Env = append(os.Environ(),
		"KC_BOOTSTRAP_ADMIN_USERNAME="+s.User, "KC_BOOTSTRAP_ADMIN_PASSWORD="+s.Password,
		"JAVA_OPTS_KC_HEAP=-Xms64m -Xmx512m", "JAVA_OPTS_APPEND=-XX:TieredStopAtLevel=1")
	group(s.shell)
	if s.leash, err = s.shell.StdinPipe(); err != nil {
		return err
	}
	if err := s.shell.Start(); err != nil {
		return err
	}
	started.Lock()
	started.server = s
	started.Unlock()
	return s.ready()
}

// Pause stops the server as it is: connections are taken and nothing is answered,
// until the returned function lets it go on, or the test ends. It reports false
// where the process is not ours to stop.
func (s *Server) Pause(t testing.TB) (resume func(), ok bool) {
	t.Helper()
	if s.shell == nil {
		return nil, false
	}
	pids, err := members(s.shell.Process.Pid)
	if err != nil {
		t.Fatalf("cannot find Keycloak's process: %v", err)
	}
	if len(pids) == 0 {
		return nil, false
	}
	resume = func() { tell(pids, true) }
	t.Cleanup(resume)
	tell(pids, false)
	return resume, true
}

// ready waits until the server answers, or has said why it will not.
func (s *Server) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		if s.answers(ctx) {
			return nil
		}
		out, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		if ctx.Err() != nil || bytes.Contains(out, []byte(ended)) {
			return fmt.Errorf("it does not answer; its log: %s", out[max(0, len(out)-4000):])
		}
		time.Sleep(200 * time.Millisecond) // the server offers no signal to wait for
	}
}

func (s *Server) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/realms/master", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	var realm struct{ Realm string }
	return res.StatusCode == http.StatusOK && json.NewDecoder(res.Body).Decode(&realm) == nil && realm.Realm == "master"
}
