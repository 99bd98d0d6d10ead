package cli_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/droverhq/drover/internal/cli"
)

// The test binary is also the command that the scripts run.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"drover": drover, "visit": visit})
}

func drover() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	server := func(_ context.Context, s cli.ServerSettings) error {
		_, err := fmt.Printf("%+v\n", s)
		return err
	}
	os.Exit(cli.New(cli.Config{
		Manifests: func() []byte { return []byte("kind: CustomResourceDefinition\n") },
		Webhook: func(url string, authority []byte) ([]byte, error) {
			return []byte("---\nurl: " + url + "\nca: " + string(authority) + "\n"), nil
		},
		Rights: func(r cli.DeployRights) ([]byte, error) {
			if r.Runtime == "kubernetes" && !r.Everywhere && len(r.Namespaces) == 0 {
				return nil, errors.New("say into which namespaces")
			}
			return fmt.Appendf(nil, "kind: ClusterRole # %+v\n", r), nil
		},
		Version: "1.2.3", Up: server, Server: server,
		Agent: func(_ context.Context, s cli.AgentSettings) error {
			_, err := fmt.Printf("%+v\n", s)
			return err
		},
		Docs: func(_ context.Context, listen string) error {
			_, err := fmt.Println("docs on", listen)
			return err
		},
	}).Run(ctx, os.Args[1:]))
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			server := httptest.NewServer(newFake())
			env.Defer(server.Close)
			nobody, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			nobody.Close()
			env.Setenv("DROVER_SERVER", server.URL)
			env.Setenv("DROVER_TOKEN", "good")
			env.Setenv("SERVER", server.URL)
			env.Setenv("PLAIN", server.Listener.Addr().String())
			env.Setenv("NOBODY", nobody.Addr().String())
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "xdg"))
			env.Setenv("TZ", "UTC")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":     exits,
			"lookslike": looksLike,
			"old":       old,
			"spoil":     spoil,
			"beside":    beside,
		},
	})
}

// exits runs a command and wants an exit code: exits 3 drover get dinosaur nobody
func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("cannot run %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if (got == want) == neg {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// looksLike wants a file of these permissions: lookslike 600 FILE
func looksLike(ts *testscript.TestScript, neg bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatInt(int64(info.Mode().Perm()), 8); (got == args[0]) == neg {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// old makes every token in the contexts one that has ended.
func old(ts *testscript.TestScript, _ bool, _ []string) {
	edit(ts, regexp.MustCompile(`expires: .*`), `expires: "2020-01-01T00:00:00Z"`)
}

// spoil makes what renews them worthless, as an end at the provider would.
func spoil(ts *testscript.TestScript, _ bool, _ []string) {
	old(ts, false, nil)
	edit(ts, regexp.MustCompile(`refresh-token: .*`), "refresh-token: used")
}

// beside leaves what a running `drover up` leaves in its data directory.
func beside(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Check(os.WriteFile(ts.MkAbs(".drover/local.json"), fmt.Appendf(nil, `{"server":%q,"token_file":"admin.token"}`, ts.Getenv("SERVER")), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(".drover/admin.token"), []byte("good\n"), 0o600))
}

func edit(ts *testscript.TestScript, what *regexp.Regexp, with string) {
	path := ts.MkAbs("xdg/drover/contexts.yaml")
	data, err := os.ReadFile(path)
	ts.Check(err)
	ts.Check(os.WriteFile(path, what.ReplaceAll(data, []byte(with)), 0o600))
}
