package rabbitmq

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// enough is free on every disk, and tooMuch on none.
const enough, tooMuch = "10MB", "1000000GB"

// Alarm has the node find its disk full: it stops taking messages.
func (s *Server) Alarm(t testing.TB) { t.Helper(); s.ctl(t, "set_disk_free_limit", tooMuch) }

// Calm ends the alarm.
func (s *Server) Calm(t testing.TB) { t.Helper(); s.ctl(t, "set_disk_free_limit", enough) }

// ChangePassword gives User another one. Open connections stay.
func (s *Server) ChangePassword(t testing.TB, password string) {
	t.Helper()
	// One that begins with a dash would be taken for an option.
	s.ctl(t, "eval", fmt.Sprintf(`rabbit_auth_backend_internal:change_password(<<%q>>, <<%q>>, <<"test">>).`, User, password))
}

// Grant makes an account, or gives it other rights: patterns of names that it may
// configure, write to and read from.
func (s *Server) Grant(t testing.TB, name, password, configure, write, read string) {
	t.Helper()
	s.ctl(t, "eval", fmt.Sprintf(`case rabbit_auth_backend_internal:exists(<<%[1]q>>) of
	true -> ok; false -> rabbit_auth_backend_internal:add_user(<<%[1]q>>, <<%[2]q>>, <<"test">>) end,
	rabbit_auth_backend_internal:set_permissions(<<%[1]q>>, <<"/">>, <<%[3]q>>, <<%[4]q>>, <<%[5]q>>, <<"test">>).`, name, password, configure, write, read))
}

// Revoke deletes an account. The node ends its connections.
func (s *Server) Revoke(t testing.TB, name string) { t.Helper(); s.ctl(t, "delete_user", name) }

// Users are the accounts that have connections.
func (s *Server) Users(t testing.TB) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	out, err := s.answer(ctx, "--quiet", "list_connections", "--no-table-headers", "user")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(out)
}

// Bound has a queue refuse more than so many messages, by a policy; 0 takes it away.
func (s *Server) Bound(t testing.TB, queue string, most int) {
	t.Helper()
	if most == 0 {
		s.ctl(t, "clear_policy", queue)
		return
	}
	s.ctl(t, "set_policy", "--apply-to", "queues", queue, "^"+regexp.QuoteMeta(queue)+"$", fmt.Sprintf(`{"max-length": %d, "overflow": "reject-publish"}`, most))
}

// ctl asks the node, as rabbitmqctl does.
func (s *Server) ctl(t testing.TB, args ...string) {
	t.Helper()
	// A cleanup may ask, when the test's own context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	if err := s.ask(ctx, args...); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) ask(ctx context.Context, args ...string) error {
	_, err := s.answer(ctx, args...)
	return err
}

func (s *Server) answer(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "rabbitmqctl"), args...)
	cmd.Dir = s.leash.Dir
	cmd.Env = append([]string{"HOME=" + s.leash.Dir, "TMPDIR=" + s.leash.Dir, "PATH=" + os.Getenv("PATH")}, s.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w: %s", args[0], err, out)
	}
	return string(out), nil
}

// DeleteQueue deletes a queue with all that is in it.
func (s *Server) DeleteQueue(t testing.TB, queue string) {
	t.Helper()
	if _, err := Channel(t, s.URL).QueueDelete(queue, false, false, false); err != nil {
		t.Fatalf("cannot delete %s: %v", queue, err)
	}
}

// Channel opens a channel of its own, as another program would; it ends with the
// test.
func Channel(t testing.TB, url string) *amqp.Channel {
	t.Helper()
	c, err := amqp.Dial(url)
	if err != nil {
		t.Fatal("the broker cannot be reached")
	}
	t.Cleanup(func() { c.CloseDeadline(time.Now().Add(time.Second)) }) //nolint:errcheck // the broker may be gone
	ch, err := c.Channel()
	if err != nil {
		t.Fatalf("cannot open a channel: %v", err)
	}
	return ch
}

// Follow declares a queue of its own that gets what is published to an exchange
// with a routing key that matches, and returns what comes.
func Follow(t testing.TB, url, exchange, pattern string) <-chan amqp.Delivery {
	t.Helper()
	ch := Channel(t, url)
	q, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err == nil {
		err = ch.QueueBind(q.Name, pattern, exchange, false, nil)
	}
	var out <-chan amqp.Delivery
	if err == nil {
		out, err = ch.Consume(q.Name, "", true, true, false, false, nil)
	}
	if err != nil {
		t.Fatalf("cannot follow %s: %v", exchange, err)
	}
	return out
}
