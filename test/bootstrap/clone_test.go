//go:build e2e && linux

package bootstrap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/buildah"
)

// fake puts a program into a directory that writes down how it was called, behind who
// speaks to it, and does what the script says.
func fake(t *testing.T, dir, path, script string) string {
	t.Helper()
	path = filepath.Join(dir, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	const write = `for f; do f=${f#docker-archive:}; f=${f%%:*}; case $f in */image.tar) : >"$f" ;; esac; done` // images
	text := "#!/bin/sh\n[ \"$1\" != ctr ] || while read -r _; do :; done\n" + write + "\necho \"" + filepath.Base(path) + " $*\" >>" + filepath.Join(dir, "calls") + "\n" + script + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// archive is the file that an image is written into.
var archive = regexp.MustCompile(`/[^ :]*/image\.tar`)

// calls are those of the fakes, in order.
func calls(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Join(strings.Split(strings.TrimSpace(string(data)), "\n"), "; ")
}

// What `make bootstrap` brings before it calls the binary, and what it says where it cannot.
func TestFromAClone(t *testing.T) {
	const image = "localhost/drover:v1"
	const built = "build -f deploy/Containerfile -t " + image + " --build-arg VERSION=v1 ."
	all := []string{"bin/prometheus", "bin/postgres", "bin/rabbitmq-server", "bin/consul", "bin/bao"}
	for _, tc := range []struct {
		reason string
		args   string
		has    []string // programs on PATH, in the system's directories, or in the cache; and what is set
		engine string   // that builds images; empty: there is none
		fails  []string // of those that are called, perhaps with a verb
		calls  string
		code   int
		says   string
	}{
		{"nothing is there", "", []string{"bin/apt-get"}, "", nil,
			"install.sh postgresql rabbitmq-server; with-promtool.sh true; go run ./test/servers/fetch consul openbao; drover bootstrap --location local", 0, "there is no consul openbao"},
		{"some are on PATH", "", []string{"bin/consul", "bin/postgres", "bin/apt-get"}, "", nil,
			"install.sh rabbitmq-server; with-promtool.sh true; go run ./test/servers/fetch openbao; drover bootstrap --location local", 0, "there is no rabbitmq-server"},
		{"all are where they are put, in whatever version", "--location local --port 9000",
			[]string{"lib/postgresql/15/bin/postgres", "lib/rabbitmq/lib/rabbitmq_server-3/sbin/rabbitmq-server", "cache/drover/prometheus-1/prometheus", "cache/drover/consul-1.2/consul", "cache/drover/openbao-1/bao"},
			"", nil, "drover bootstrap --location local --port 9000", 0, ""},
		{"packages cannot be installed", "", []string{"bin/consul", "bin/bao"}, "", []string{"install.sh"},
			"install.sh postgresql rabbitmq-server", 1, "apt-get install -y --no-install-recommends postgresql rabbitmq-server)"},
		{"Prometheus cannot be had, and is left out", "", append([]string{"bin/apt-get"}, all[1:]...), "", []string{"with-promtool.sh"},
			"with-promtool.sh true; drover bootstrap --location local", 0, "it is left out"},
		{"nobody fetches Prometheus where there is no apt-get", "", all[1:], "", nil,
			"drover bootstrap --location local", 0, ""},
		{"servers cannot be built", "", all[:3], "", []string{"go"},
			"go run ./test/servers/fetch consul openbao", 1, "put the programs consul and bao on PATH"},
		{"the image is built on the way", "", all, "docker", nil,
			"docker " + built + "; drover bootstrap --location local", 0, image + " is on this machine"},
		{"the image cannot be built, and nobody needs it", "", all, "docker", []string{"docker"},
			"docker " + built + "; drover bootstrap --location local", 0, "could not be built"},
		{"a look makes nothing", "--dry-run", nil, "docker", nil, "drover bootstrap --dry-run", 0, ""},
		{"another verb makes nothing", "destroy --yes", nil, "docker", nil, "drover bootstrap destroy --yes", 0, ""},
		{"Kubernetes cannot pull from here", "--location=prod", nil, "docker", nil, "", 1, "REGISTRY="},
		{"Kubernetes, and the image cannot be built", "--location prod", []string{"REGISTRY=example.org/me"}, "docker", []string{"docker"},
			"docker " + built, 1, "name it with --image"},
		{"Kubernetes, and nothing builds images", "--location prod", []string{"REGISTRY=example.org/me"}, "", nil, "", 1, "none of docker, podman and buildah works here"},
		{"a registry is named", "--location prod", []string{"REGISTRY=example.org/me"}, "podman", nil,
			"podman " + built + "; podman tag " + image + " example.org/me/drover:v1; podman push example.org/me/drover:v1; drover bootstrap --location prod --image example.org/me/drover:v1", 0, "the image is example.org/me/drover:v1"},
		{"the registry refuses", "--location prod", []string{"REGISTRY=example.org/me"}, "buildah", []string{"buildah push"},
			"buildah " + built + "; buildah tag " + image + " example.org/me/drover:v1; buildah push example.org/me/drover:v1", 1, "is this machine logged in"},
		{"this machine needs no registry", "", append([]string{"REGISTRY=example.org/me"}, all...), "docker", nil,
			"docker " + built + "; drover bootstrap --location local", 0, image + " is on this machine"},
		{"microk8s is given the image", "--location microk8s", []string{"bin/microk8s"}, "docker", nil,
			"docker " + built + "; docker save -o ARCHIVE " + image + "; microk8s ctr image import -; drover bootstrap --location microk8s --image " + image, 0, image + " is on this machine"},
		{"microk8s, by buildah", "--location microk8s", []string{"bin/microk8s"}, "buildah", nil,
			"buildah " + built + "; buildah push --quiet " + image + " docker-archive:ARCHIVE:" + image + "; microk8s ctr image import -; drover bootstrap --location microk8s --image " + image, 0, image + " is on this machine"},
		{"microk8s does not take it", "--location microk8s", []string{"bin/microk8s"}, "docker", []string{"microk8s"},
			"docker " + built + "; docker save -o ARCHIVE " + image + "; microk8s ctr image import -", 1, "has not got the image"},
		{"the image cannot be written down", "--location microk8s", []string{"bin/microk8s"}, "docker", []string{"docker save"},
			"docker " + built + "; docker save -o ARCHIVE " + image, 1, "has not got the image"},
		{"microk8s of several nodes, by a registry", "--location microk8s", []string{"bin/microk8s", "REGISTRY=example.org/me"}, "docker", nil,
			"docker " + built + "; docker tag " + image + " example.org/me/drover:v1; docker push example.org/me/drover:v1; drover bootstrap --location microk8s --image example.org/me/drover:v1", 0, "the image is example.org/me/drover:v1"},
		{"Kubernetes with an image of one's own", "--location prod --image mine/drover:1", nil, "docker", nil,
			"drover bootstrap --location prod --image mine/drover:1", 0, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			dir := t.TempDir()
			program := func(path string) string {
				script := ""
				for _, f := range tc.fails {
					if name, verb, _ := strings.Cut(f, " "); name == filepath.Base(path) {
						script = `case $1 in "` + verb + `"*) exit 1 ;; esac`
					}
				}
				return fake(t, dir, path, script)
			}
			for _, real := range []string{"mktemp", "rm"} {
				at, err := exec.LookPath(real)
				if err == nil {
					err = os.MkdirAll(filepath.Join(dir, "bin"), 0o755)
				}
				if err == nil {
					err = os.Symlink(at, filepath.Join(dir, "bin", real))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			program("tools/install.sh")
			program("tools/with-promtool.sh")
			env := []string{"HOME=" + dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache"), "DROVER_TEST_LIB=" + filepath.Join(dir, "lib"), "DROVER_TEST_TOOLS=" + filepath.Join(dir, "tools"),
				"PATH=" + filepath.Join(dir, "bin"), "VERSION=v1", "GO=" + program("go"), "DROVER=" + program("drover")}
			if tc.engine != "" {
				env = append(env, "ENGINE="+program(tc.engine))
			}
			for _, what := range tc.has {
				if strings.Contains(what, "=") {
					env = append(env, what)
				} else {
					program(what)
				}
			}
			cmd := exec.Command("/bin/sh", append([]string{"deploy/bootstrap.sh"}, strings.Fields(tc.args)...)...)
			cmd.Dir, cmd.Env = "../..", env
			said, _ := cmd.CombinedOutput()
			if got := archive.ReplaceAllString(calls(t, dir), "ARCHIVE"); got != tc.calls {
				t.Errorf("it called %q, want %q", got, tc.calls)
			}
			if code := cmd.ProcessState.ExitCode(); code != tc.code || !strings.Contains(string(said), tc.says) || tc.says == "" && len(said) > 0 {
				t.Errorf("it ended with %d, want %d, and said %q, want %q", code, tc.code, said, tc.says)
			}
		})
	}
}

// What packages would start is not started, and what says so is gone afterwards.
func TestInstallStartsNothing(t *testing.T) {
	const (
		installed = "apt-get update; apt-get install -y --no-install-recommends "
		// What dpkg says of packages: libc6 and openssh-server were there before.
		files = `case $2 in
bind9) printf '/.\n/etc/init.d\n/etc/init.d/named\n/lib/systemd/system\n/lib/systemd/system/named.service\n/usr/share/doc/bind9.service\n' ;;
rabbitmq-server) printf '/usr/lib/systemd/system/rabbitmq-server.service\n/usr/lib/systemd/system/rabbitmq-server.service.d/x.conf\n' ;;
erlang-base) printf '/lib/systemd/system/epmd.socket\n/lib/systemd/system/epmd@.service\n' ;;
openssh-server) printf '/lib/systemd/system/ssh.service\n' ;;
libc6) printf '/lib/libc.so.6\n' ;;
*) exit 1 ;; esac`
		before = `ii  libc6:amd64\nii  openssh-server\nrc  bind9\n`
		off    = "; systemctl disable "
	)
	for _, tc := range []struct {
		reason   string
		packages string
		comes    string // is installed then, as well
		policy   string // that is there before
		user     string
		apt      string // exit code of an update, and of an install
		calls    string
		code     int
	}{
		{"installed, with what it needs", "rabbitmq-server", "erlang-base", "", "0", "0 0", installed + "rabbitmq-server" + off + "epmd.socket" + off + "epmd@.service" + off + "rabbitmq-server.service", 0},
		{"a service of another name", "bind9", "", "", "0", "0 0", installed + "bind9" + off + "named.service", 0},
		{"one that was there before keeps its service", "openssh-server", "", "", "0", "0 0", installed + "openssh-server", 0},
		{"somebody's policy stays", "bind9", "", "#!/bin/sh\nexit 101\n", "0", "0 0", installed + "bind9" + off + "named.service", 0},
		{"apt-get fails", "bind9", "", "", "0", "1 0", "apt-get update", 1},
		{"one of two cannot be installed", "bind9 rabbitmq-server", "", "", "0", "0 1", installed + "bind9 rabbitmq-server" + off + "named.service" + off + "rabbitmq-server.service", 1},
		{"nobody says what was there before", "bind9", "none", "", "0", "0 0", installed + "bind9" + off + "named.service", 0},
		{"this is not root", "bind9", "", "", "1000", "0 0", "", 1},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			dir := t.TempDir()
			policy := filepath.Join(dir, "policy-rc.d")
			if tc.policy != "" {
				if err := os.WriteFile(policy, []byte(tc.policy), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			update, install, _ := strings.Cut(tc.apt, " ")
			there := filepath.Join(dir, "there") // packages, once there are more
			fake(t, dir, "bin/apt-get", policy+"; [ $? = 101 ] || echo allowed >>"+filepath.Join(dir, "calls")+`
[ "$1" = install ] || exit `+update+`
for p in `+tc.packages+" "+tc.comes+`; do [ $p = openssh-server ] || echo "i$([ `+install+` = 0 ] && echo i || echo F)  $p"; done >`+there+`
exit `+install)
			fake(t, dir, "bin/systemctl", "exit 1")
			for name, script := range map[string]string{
				"id": "echo " + tc.user, "dpkg": files,
				"dpkg-query": "printf '" + before + "'; [ ! -e " + there + " ] || cat " + there,
			} {
				if tc.comes == "none" && name == "dpkg-query" {
					script = "exit 1"
				}
				if err := os.WriteFile(filepath.Join(dir, "bin", name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.Command("../install.sh", strings.Fields(tc.packages)...)
			cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "DROVER_TEST_POLICY=" + policy, "TMPDIR=" + dir}
			said, _ := cmd.CombinedOutput()
			if got := calls(t, dir); got != tc.calls || cmd.ProcessState.ExitCode() != tc.code {
				t.Errorf("it called %q, want %q, and ended with %d, want %d: %s", got, tc.calls, cmd.ProcessState.ExitCode(), tc.code, said)
			}
			if left, _ := os.ReadFile(policy); string(left) != tc.policy {
				t.Errorf("it has left %q", left)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "tmp.*")); len(left) > 0 {
				t.Errorf("it has left %v", left)
			}
		})
	}
}

// From nothing but a clone, as the first page says it.
func TestMakeBootstrap(t *testing.T) {
	w := newWorld(t)
	clone := filepath.Join(filepath.Dir(w.state), "clone")
	if out, err := exec.Command("git", "clone", "--quiet", "../..", clone).CombinedOutput(); err != nil {
		t.Fatalf("cannot clone this repository: %v: %s", err, out)
	}
	engine := buildah.New(t, "../../deploy/Containerfile")
	typed := func(args ...string) *exec.Cmd {
		cmd := exec.Command("make", "--silent", "bootstrap", "ENGINE="+engine.Program, "ARGS="+strings.Join(args, " "))
		cmd.Dir = clone
		for _, v := range os.Environ() { // those of a make around this one are not for it
			if name, _, _ := strings.Cut(v, "="); !slices.Contains([]string{"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"}, name) {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(cmd.Env, "DROVER_CONFIG=")
		return cmd
	}
	lines, said, _, code := w.follow(0, typed(w.local()...))
	if code != 0 || len(lines) == 0 || lines[len(lines)-1].Report.Outcome != "bootstrapped" {
		t.Fatalf("it ends with %d: %s\n%+v\n%s", code, said, lines, w.logs())
	}
	w.healthy()
	if at, err := os.Readlink("/proc/" + strconv.Itoa(w.pid("drover")) + "/exe"); err != nil || at != filepath.Join(clone, "bin/drover") {
		t.Errorf("what runs is %s, not what was built: %v", at, err)
	}
	name := regexp.MustCompile(`the image (\S+) is on this machine`).FindStringSubmatch(said)
	if name == nil {
		t.Fatalf("no image was built: %s", said)
	}
	if i := engine.Image(t, name[1]); !slices.Equal(i.Entrypoint, []string{"/drover"}) {
		t.Errorf("the image %s runs %v", name[1], i.Entrypoint)
	}
	if out, err := typed("destroy", "--yes", "--state", w.state).CombinedOutput(); err != nil || len(w.processes()) > 0 {
		t.Errorf("destroy: %v, %s; %v are left", err, out, w.processes())
	}
}

// A microk8s is given the image as a file, which has its name in it.
func TestTheImageIsGivenToMicrok8s(t *testing.T) {
	engine := buildah.New(t, "../../deploy/Containerfile")
	dir := t.TempDir()
	fake(t, dir, "bin/drover", "")
	got := filepath.Join(dir, "image.tar")
	if err := os.WriteFile(filepath.Join(dir, "bin/microk8s"), []byte("#!/bin/sh\ncat >"+got+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("deploy/bootstrap.sh", "--location", "microk8s")
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "ENGINE="+engine.Program, "VERSION=v1.2.3", "DROVER="+filepath.Join(dir, "bin/drover"), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	const image = "localhost/drover:v1.2.3"
	if want := "drover bootstrap --location microk8s --image " + image; calls(t, dir) != want {
		t.Errorf("it called %q, want %q", calls(t, dir), want)
	}
	manifest, err := exec.Command("tar", "-xOf", got, "manifest.json").CombinedOutput()
	if err != nil || !strings.Contains(string(manifest), `"RepoTags":["`+image+`"]`) {
		t.Errorf("what microk8s was given is %s: %v", manifest, err)
	}
}
