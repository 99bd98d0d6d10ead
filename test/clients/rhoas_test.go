package clients

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/droverhq/drover/test/drover"
)

// shell is a person's terminal with rhoas in it. Nothing leaves the machine: no
// telemetry, and whatever is not on the loopback interface is sent to a proxy that
// is not there.
type shell struct {
	*world
	path, home string
}

func (w *world) shell() *shell {
	w.Helper()
	return &shell{w, cached(w.T, "rhoas-v0.53.0", "rhoas"), w.TempDir()}
}

func (s *shell) command(args ...string) *exec.Cmd {
	cmd := exec.Command(s.path, args...)
	cmd.Dir = s.home
	closed := "http://127.0.0.1:1"
	cmd.Env = []string{
		"HOME=" + s.home, "XDG_CONFIG_HOME=" + s.home, "PATH=" + os.Getenv("PATH"), "RHOAS_TELEMETRY=false", "TERM=dumb", "NO_COLOR=1",
		"HTTP_PROXY=" + closed, "HTTPS_PROXY=" + closed, "NO_PROXY=127.0.0.1,localhost",
	}
	return cmd
}

// run runs a command to its good end and returns what it says.
func (s *shell) run(args ...string) (stdout, stderr string) {
	s.Helper()
	stdout, stderr, err := s.try(args...)
	if err != nil {
		s.Fatalf("rhoas %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout, stderr
}

func (s *shell) try(args ...string) (stdout, stderr string, err error) {
	s.Helper()
	cmd := s.command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	s.Logf("$ rhoas %s\n%s%s", strings.Join(args, " "), out.String(), errs.String())
	return out.String(), errs.String(), err
}

// login runs `rhoas login`, with a browser that is us.
func (s *shell) login(user string) {
	s.Helper()
	cmd := s.command("login", "--print-sso-url", "--api-gateway", s.url, "--auth-url", s.url+realm)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	said, link := "", ""
	lines := bufio.NewScanner(out)
	for link == "" && lines.Scan() {
		said += lines.Text() + "\n"
		if strings.HasPrefix(lines.Text(), s.url) {
			link = lines.Text()
		}
	}
	if link == "" {
		_ = cmd.Wait()
		s.Fatalf("rhoas tells no link: %s%s", said, errs.String())
	}
	back := s.browse(link, user)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() {
			said += lines.Text() + "\n"
		}
	}()
	// It prints its link a moment before it listens, and once it has the code it may be
	// gone before it has answered: how it ends tells whether it was content.
	last, taken := "", false
	defer func() {
		if !taken {
			s.Logf("rhoas last answered: %s", last)
		}
	}()
	drover.Until(s, "rhoas to take the code", func() bool {
		select {
		case <-ended:
			taken = true
			return true
		default:
		}
		resp, err := http.Get(back)
		if err != nil {
			last = err.Error()
			return false
		}
		resp.Body.Close()
		last, taken = resp.Status, resp.StatusCode == http.StatusOK
		return taken
	})
	<-ended
	if err := cmd.Wait(); err != nil {
		s.Fatalf("rhoas login: %v\n%s%s", err, said, errs.String())
	}
}

// says checks what a command prints.
func (s *shell) says(want string, args ...string) string {
	s.Helper()
	stdout, stderr := s.run(args...)
	if !regexp.MustCompile(want).MatchString(stdout + stderr) {
		s.Errorf("rhoas %s: no %q in:\n%s%s", strings.Join(args, " "), want, stdout, stderr)
	}
	return stdout
}

func TestRhoas(t *testing.T) {
	needs(t, "RHOAS")
	w := newWorld(t)
	w.cluster("c1", "aws", "us-east-1")
	s := w.shell()
	if _, stderr, err := s.try("kafka", "list"); err == nil {
		t.Errorf("nobody has logged in: %s", stderr)
	}
	s.login("alice")
	s.says(`^alice\n$`, "whoami")
	s.says(`"cloud_provider":"aws","region":"us-east-1","plan":"standard.x1"`, "kafka", "providers", "-o", "json")
	s.says(`standard`, "kafka", "billing", "-o", "json")
	s.says(`No Kafka instances`, "kafka", "list")

	var kafka struct{ ID, Status, Name, Owner, Kind string }
	out, _ := s.run("kafka", "create", "--name", "orders", "--provider", "aws", "--region", "us-east-1", "--size", "x1",
		"--billing-model", "standard", "--wait", "-o", "json")
	if err := json.Unmarshal([]byte(out), &kafka); err != nil || kafka.Status != "ready" || kafka.Name != "orders" || kafka.Owner != "alice" {
		t.Fatalf("created %+v: %v", kafka, err)
	}
	s.says(`(?m) orders .*\balice +ready +aws +us-east-1`, "kafka", "list")
	s.says(`"total": 1\n`, "kafka", "list", "--search", "ord", "-o", "json")
	s.says(`"bootstrap_server_host": "orders-.*:443"`, "kafka", "describe", "--name", "orders")
	s.says(`:443`, "kafka", "describe", "--id", kafka.ID, "--bootstrap-server")
	s.says(`orders`, "status", "kafka")
	_, stderr, err := s.try("kafka", "create", "--name", "orders", "--billing-model", "standard")
	if err == nil || !strings.Contains(stderr, "already exists") {
		t.Errorf("a name that is taken: %v %s", err, stderr)
	}
	s.says(`updated`, "kafka", "update", "--name", "orders", "--reauthentication", "false", "-y")
	s.says(`"reauthentication_enabled": false`, "kafka", "describe", "--name", "orders")

	s.says(`eval`, "kafka", "create", "--name", "trying", "--billing-model", "eval", "--wait", "-o", "json")
	s.says(`being promoted`, "kafka", "promote", "--name", "trying", "--billing-model", "standard")
	drover.Until(t, "the promotion", func() bool {
		stdout, _ := s.run("kafka", "describe", "--name", "trying")
		return strings.Contains(stdout, `"billing_model": "standard"`)
	})
	s.says(`deleted`, "kafka", "delete", "--name", "trying", "-y")
	s.says(`deleted`, "kafka", "delete", "--name", "orders", "-y")
	drover.Until(t, "the list to be empty", func() bool {
		stdout, stderr := s.run("kafka", "list")
		return strings.Contains(stdout+stderr, "No Kafka instances")
	})

	file := filepath.Join(s.home, "credentials.env")
	s.says(`created`, "service-account", "create", "--short-description", "app", "--file-format", "env", "--output-file", file)
	credentials, err := os.ReadFile(file)
	if err != nil || !regexp.MustCompile(`(?m)^RHOAS_SERVICE_ACCOUNT_CLIENT_ID=srvc-acct-`).Match(credentials) ||
		!strings.Contains(string(credentials), s.url+realm+"/protocol/openid-connect/token") {
		t.Errorf("the credentials are %s, %v", regexp.MustCompile(`SECRET=.*`).ReplaceAll(credentials, []byte("SECRET=...")), err)
	}
	id := regexp.MustCompile(`"id": ?"([^"]+)"`).FindStringSubmatch(s.says(`"name": ?"app"`, "service-account", "list", "-o", "json"))
	if id == nil {
		t.Fatal("the account has no id")
	}
	s.says(`"createdBy": ?"alice"`, "service-account", "describe", "--id", id[1])
	s.says(`reset`, "service-account", "reset-credentials", "--id", id[1], "--file-format", "env", "--output-file", file, "--overwrite", "-y")
	if again, err := os.ReadFile(file); err != nil || bytes.Equal(again, credentials) {
		t.Errorf("the secret is the old one, %v", err)
	}
	s.says(`deleted`, "service-account", "delete", "--id", id[1], "-y")
	if _, stderr, err := s.try("service-account", "describe", "--id", id[1]); err == nil {
		t.Errorf("the account is still there: %s", stderr)
	}
	s.says(`Successfully logged out`, "logout")
	if _, stderr, err := s.try("kafka", "list"); err == nil {
		t.Errorf("logged out, and still in: %s", stderr)
	}

	// Somebody without quota gets a trial.
	trial := w.shell()
	trial.login("carol")
	out, _ = trial.run("kafka", "create", "--name", "trial", "--wait", "-o", "json")
	if err := json.Unmarshal([]byte(out), &kafka); err != nil || kafka.Status != "ready" || !strings.Contains(out, `"instance_type": "developer"`) {
		t.Errorf("created %s: %v", out, err)
	}
	if os.Getenv("DROVER_TEST_NO_GOSDK") == "1" {
		return // the peer's document comes with it
	}
	w.check(readDocument(t, kafkaSDK, ""), readDocument(t, accountSDK, realm))
}
