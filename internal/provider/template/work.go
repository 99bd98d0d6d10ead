package template

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/provider"
)

// work runs apply or destroy. OpenTofu writes down what it has made when it
// ends, so it must not die with this process: it runs in a group of its own and
// writes to a file. A later run meets its lock, and waits.
func (r *run) work(ctx context.Context, verb string) error {
	path := filepath.Join(r.dir, verb+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	before, err := log.Seek(0, 2)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, r.binary, verb, "-auto-approve", "-input=false", "-no-color", "-json")
	cmd.Dir = filepath.Join(r.dir, "module")
	cmd.Stdout, cmd.Stderr = log, log
	for name, value := range r.environment() {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	apart(cmd)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopWithin
	worked := cmd.Run()
	if worked == nil {
		return os.Truncate(path, 0)
	}
	if _, err := log.Seek(before, 0); err != nil {
		return errors.Join(worked, err)
	}
	if said := complaints(bufio.NewScanner(log)); said != "" {
		return errors.New(said)
	}
	return worked
}

// complaints are the errors among the lines that OpenTofu wrote.
func complaints(lines *bufio.Scanner) string {
	lines.Buffer(nil, 1<<20)
	var said []string
	for lines.Scan() {
		var line struct {
			Level      string `json:"@level"`
			Message    string `json:"@message"`
			Diagnostic struct {
				Summary string `json:"summary"`
				Detail  string `json:"detail"`
			} `json:"diagnostic"`
		}
		if json.Unmarshal(lines.Bytes(), &line) != nil || line.Level != "error" {
			continue
		}
		text := line.Message
		if d := line.Diagnostic; d.Summary != "" {
			text = fmt.Sprintf("Error: %s: %s", d.Summary, d.Detail)
		}
		said = append(said, text)
	}
	return strings.Join(said, "\n")
}

// askAgain is when to look whether an earlier run has ended.
const askAgain = 5 * time.Second

// busy turns the lock of an earlier run, whose caller is gone, into waiting.
func busy(id string, err error) (provider.Progress, error) {
	if fault.Is(err, fault.Unavailable) && strings.Contains(err.Error(), "state lock") {
		return provider.Progress{Message: fmt.Sprintf("an earlier run on cluster %s is still at work", id), After: askAgain}, nil
	}
	return provider.Progress{}, err
}
