package tofu

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	tfjson "github.com/hashicorp/terraform-json"
)

// Job is work of the program that changes something.
type Job struct {
	Binary, Dir string
	Env         map[string]string
	Args        []string // with -json among them
	Log         string   // path of the file that it writes to
	// Tell is given each line for people while it works; nil: nobody listens.
	Tell func(line string)
	// Hold is kept open by the program, so that a lock on it lasts as long as that;
	// nil: nothing is.
	Hold *os.File
	// Within is how long it may take to write down how far it came when ctx ends.
	Within time.Duration
}

// Work does the job. The program writes down what it has made when it ends, so it
// must not die with this process: it runs in a group of its own and writes to a
// file. A caller that ends interrupts it. One goroutine, which ends with it.
func Work(ctx context.Context, j Job) error {
	log, err := os.OpenFile(j.Log, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	before, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, j.Binary, j.Args...)
	cmd.Dir = j.Dir
	cmd.Stdout, cmd.Stderr = log, log
	for name, value := range j.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	if j.Hold != nil {
		cmd.ExtraFiles = []*os.File{j.Hold}
	}
	apart(cmd)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = j.Within
	ended, heard := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heard)
		follow(j.Log, before, ended, j.Tell)
	}()
	worked := cmd.Run()
	close(ended)
	<-heard
	if worked == nil {
		return os.Truncate(j.Log, 0)
	}
	if _, err := log.Seek(before, io.SeekStart); err != nil {
		return errors.Join(worked, err)
	}
	if said := Complaints(log); said != "" {
		return errors.New(said)
	}
	return worked
}

// glance is how often a log is read that is being written.
const glance = 200 * time.Millisecond

// follow reads the lines of a log from a place on until ended is closed, and then
// those that are left.
func follow(path string, from int64, ended <-chan struct{}, tell func(string)) {
	file, err := os.Open(path)
	if err != nil || tell == nil {
		return
	}
	defer file.Close()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return
	}
	lines := bufio.NewReaderSize(file, 64<<10)
	var part []byte
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for last := false; ; {
		for {
			piece, err := lines.ReadSlice('\n')
			if len(part) < 1<<20 { // no line is that long
				part = append(part, piece...)
			}
			if err == nil {
				if text := Readable(part); text != "" {
					tell(text)
				}
				part = part[:0]
			} else if !errors.Is(err, bufio.ErrBufferFull) {
				break
			}
		}
		if last {
			return
		}
		select {
		case <-ended:
			last = true
		case <-ticker.C:
		}
	}
}

type line struct {
	Level      string `json:"@level"`
	Message    string `json:"@message"`
	Type       string `json:"type"`
	Diagnostic struct {
		Summary string `json:"summary"`
		Detail  string `json:"detail"`
	} `json:"diagnostic"`
}

// Readable turns a line of JSON into one for people; nothing where it tells them
// nothing. What is no JSON stays as it is.
func Readable(text []byte) string {
	var l line
	if json.Unmarshal(text, &l) != nil || l.Message == "" {
		if text = bytes.TrimSpace(text); len(text) > 0 && text[0] == '{' {
			return ""
		}
		return string(text)
	}
	switch l.Type {
	case "version", "outputs", "planned_change", "resource_drift":
		return ""
	}
	if l.Diagnostic.Detail != "" {
		return fmt.Sprintf("%s: %s", l.Message, strings.ReplaceAll(l.Diagnostic.Detail, "\n", " "))
	}
	return l.Message
}

// Complaints are the errors among lines that were written.
func Complaints(from io.Reader) string {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	var said []string
	for lines.Scan() {
		var l line
		if json.Unmarshal(lines.Bytes(), &l) != nil || l.Level != "error" {
			continue
		}
		text := l.Message
		if d := l.Diagnostic; d.Summary != "" {
			text = fmt.Sprintf("Error: %s: %s", d.Summary, d.Detail)
		}
		said = append(said, text)
	}
	return strings.Join(said, "\n")
}

// Mistakes are what is wrong with a module, each with its place.
func Mistakes(checked *tfjson.ValidateOutput) string {
	var wrong []string
	for _, d := range checked.Diagnostics {
		if d.Severity != tfjson.DiagnosticSeverityError {
			continue
		}
		at := ""
		if d.Range != nil {
			at = fmt.Sprintf(" (%s:%d)", d.Range.Filename, d.Range.Start.Line)
		}
		wrong = append(wrong, strings.TrimSuffix(d.Summary, ".")+at)
	}
	return strings.Join(wrong, "; ")
}
