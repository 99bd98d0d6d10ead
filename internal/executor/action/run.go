package action

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// Config of a Runner.
type Config struct {
	// Cache is the directory where programs are kept that were downloaded, by
	// digest. It is made if it is not there.
	Cache string
	// Work is where directories of runs are made; default: the system's for
	// temporary files.
	Work string
	// Allow lists programs of this machine that may be run, by name. A path is
	// allowed under its last part. Default: none.
	Allow []string
	// Client downloads; default: one that heeds the proxy settings of the
	// environment.
	Client *http.Client
	// MaxOutput is how much of what a program prints is kept; default 64 KiB.
	MaxOutput int
	// MaxDownload is how large a program may be; default 256 MiB.
	MaxDownload int64
	// Grace is how long a program may take to end once it is asked to; default 5 s.
	Grace time.Duration
}

// Runner runs commands. It is safe for concurrent use. While a command runs there
// is one goroutine to end it, which ends with it.
type Runner struct {
	cfg   Config
	allow map[string]string

	mu      sync.Mutex
	loading map[string]*sync.Mutex // by digest
}

// NewRunner makes a runner, and clears up what those of earlier processes have left.
func NewRunner(cfg Config) *Runner {
	if cfg.MaxOutput <= 0 {
		cfg.MaxOutput = 64 << 10
	}
	if cfg.MaxDownload <= 0 {
		cfg.MaxDownload = 256 << 20
	}
	if cfg.Grace <= 0 {
		cfg.Grace = 5 * time.Second
	}
	r := &Runner{cfg: cfg, allow: map[string]string{}, loading: map[string]*sync.Mutex{}}
	for _, name := range cfg.Allow {
		r.allow[filepath.Base(name)] = name
	}
	r.sweep()
	return r
}

// App is where a program comes from.
type App struct {
	Name   string
	URL    string // https, or file:./x of the command's files; empty: one that is allowed by name
	SHA256 string // needed with https
}

// File that a program finds in its directory.
type File struct {
	Data []byte
	Exec bool
}

// Command is what to run.
type Command struct {
	App App
	// Argv is the program and its arguments. The first is the app's name, or the
	// name of a program that is allowed.
	Argv []string
	// Env is all that the program is told besides PATH, HOME, TMPDIR and LANG.
	Env   map[string]string
	Files map[string]File // by path in its directory
	// Timeout; default: until the context ends.
	Timeout time.Duration
	// Secrets are struck out of the log and of errors.
	Secrets []string
	Log     io.Writer // what it prints, as it does; nil: nobody reads
}

// Output of a command that has ended.
type Output struct {
	Exit   int
	Stdout string // the beginning of it; secrets are still in it
	Cut    bool   // there was more
	Result any    // Stdout, where it is one JSON document
	// Tells is the last that it said, without secrets, for people.
	Tells string
}

var (
	programName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}$`)
	envName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
)

const (
	maxFiles = 8 << 20
	path     = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Check refuses a command that cannot be run, without running anything.
func (r *Runner) Check(c Command) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, format, args...).Because("command")
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return bad("the command is empty: name a program and its arguments, one by one")
	}
	for _, a := range c.Argv {
		if strings.ContainsRune(a, 0) {
			return bad("an argument of the command holds a zero byte")
		}
	}
	for name, value := range c.Env {
		switch {
		case !envName.MatchString(name):
			return bad("%.64q is no name of an environment variable", name)
		case strings.HasPrefix(name, "LD_"), strings.HasPrefix(name, "DYLD_"), slices.Contains([]string{"PATH", "HOME", "TMPDIR", "BASH_ENV", "ENV", "IFS"}, name):
			return bad("the environment variable %s is not for commands to set", name)
		case strings.ContainsRune(value, 0):
			return bad("the environment variable %s holds a zero byte", name)
		}
	}
	size := 0
	for name, f := range c.Files {
		if !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsAny(name, "\\\x00") || filepath.Clean(filepath.FromSlash(name)) == "." {
			return bad("%.128q leads out of the command's directory", name)
		}
		if size += len(f.Data); size > maxFiles {
			return bad("the files of the command are larger than %d bytes", maxFiles)
		}
	}
	return r.source(c)
}

// source checks where the program comes from.
func (r *Runner) source(c Command) error {
	name := c.Argv[0]
	if !programName.MatchString(name) {
		return fault.New(fault.Invalid, "%.64q is no name of a program: name the app, or a program that the server allows, without a path", name).Because("command")
	}
	if name != c.App.Name || c.App.URL == "" {
		if r.allow[name] == "" {
			return fault.New(fault.Denied, "this server does not allow the program %q: give its URL and sha256, or ask its operators to allow it", name).Because("program")
		}
		return nil
	}
	if file, ok := strings.CutPrefix(c.App.URL, "file:"); ok {
		if _, ok := c.Files[strings.TrimPrefix(file, "./")]; !ok {
			return fault.New(fault.Invalid, "there is no file %.128q beside the command", file).Because("program")
		}
		return nil
	}
	return checkDownload(c.App)
}

// Run runs a command to its end. How it ended is in the output; an error means
// that it was not run, or was not let run to its end.
func (r *Runner) Run(ctx context.Context, c Command) (Output, error) {
	if err := ctx.Err(); err != nil {
		return Output{}, err
	}
	if err := r.Check(c); err != nil {
		return Output{}, err
	}
	if c.Timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, c.Timeout)
		defer stop()
	}
	at, err := r.enter()
	if err != nil {
		return Output{}, err
	}
	defer at.leave()
	if err := lay(at.dir, c.Files); err != nil {
		return Output{}, err
	}
	program, err := r.program(ctx, c, at.dir)
	if err != nil {
		return Output{}, err
	}
	return r.start(ctx, c, at, program)
}

// lay writes files into a directory, and never beside it.
func lay(dir string, files map[string]File) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		at := filepath.FromSlash(name)
		mode := os.FileMode(0o600)
		if files[name].Exec {
			mode = 0o700
		}
		if err := errors.Join(root.MkdirAll(filepath.Dir(at), 0o700), root.WriteFile(at, files[name].Data, mode)); err != nil {
			return fault.New(fault.Invalid, "the file %.128q cannot be put where the command finds it: %w", name, err).Because("command")
		}
	}
	return nil
}

// program is the file to run.
func (r *Runner) program(ctx context.Context, c Command, dir string) (string, error) {
	if c.Argv[0] != c.App.Name || c.App.URL == "" {
		found, err := exec.LookPath(r.allow[c.Argv[0]])
		if err != nil {
			return "", fault.New(fault.Unavailable, "the program %q is allowed, and is not installed on this server", c.Argv[0])
		}
		return filepath.Abs(found)
	}
	if file, ok := strings.CutPrefix(c.App.URL, "file:"); ok {
		at := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(file, "./")))
		return at, os.Chmod(at, 0o700)
	}
	return r.download(ctx, c.App)
}

func (r *Runner) start(ctx context.Context, c Command, at room, program string) (Output, error) {
	dir := at.dir
	strike := newStrike(c.Secrets)
	log := &lines{to: c.Log, strike: strike}
	out := &head{max: r.cfg.MaxOutput}
	for n := 0; ; n++ {
		cmd := exec.CommandContext(ctx, program)
		cmd.Args = append([]string{c.Argv[0]}, c.Argv[1:]...)
		cmd.Dir, cmd.ExtraFiles = dir, []*os.File{at.hold}
		cmd.Env = []string{"PATH=" + path, "HOME=" + dir, "TMPDIR=" + dir, "LANG=C.UTF-8"}
		for _, name := range slices.Sorted(maps.Keys(c.Env)) {
			cmd.Env = append(cmd.Env, name+"="+c.Env[name])
		}
		cmd.Stdout, cmd.Stderr = io.MultiWriter(out, log), log
		ended := make(chan struct{})
		group(cmd)
		cmd.Cancel = func() error {
			end(cmd, false)
			go func() {
				select {
				case <-ended:
				case <-time.After(r.cfg.Grace):
					end(cmd, true)
				}
			}()
			return nil
		}
		cmd.WaitDelay = r.cfg.Grace + time.Second
		err := cmd.Start()
		if errors.Is(err, syscall.ETXTBSY) && n < 10 {
			// Another run was begun while the file was being written, and has it open
			// for as long as it takes to begin.
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		if err != nil {
			if ctx.Err() != nil {
				return Output{}, ctx.Err()
			}
			return Output{}, fault.New(fault.Invalid, "%q cannot be run: is it a program for this machine?", c.Argv[0]).Because("program")
		}
		err = cmd.Wait()
		close(ended)
		end(cmd, true) // what it has started does not outlive it
		log.flush()
		return finish(ctx, cmd, out, log, err)
	}
}

func finish(ctx context.Context, cmd *exec.Cmd, out *head, log *lines, err error) (Output, error) {
	tells := log.last()
	if ctx.Err() != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return Output{Tells: tells}, fault.New(fault.Unavailable, "%s did not end in time and was ended%s", cmd.Args[0], behind(tells)).Because("timeout")
		}
		return Output{Tells: tells}, ctx.Err()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return Output{}, fault.New(fault.Unavailable, "%s could not be followed to its end", cmd.Args[0])
	}
	o := Output{Exit: cmd.ProcessState.ExitCode(), Stdout: strings.ToValidUTF8(out.String(), "\uFFFD"), Cut: out.cut, Tells: tells}
	if !o.Cut {
		o.Result = parse(out.Bytes())
	}
	return o, nil
}

func behind(tells string) string {
	if tells == "" {
		return ""
	}
	return "; the last it said: " + tells
}

// parse reads one JSON document, as the rest of the house has its values.
func parse(data []byte) any {
	if data = bytes.TrimSpace(data); len(data) == 0 || !json.Valid(data) {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return numbers(v)
}

func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, err := x.Float64()
		if err != nil {
			return x.String()
		}
		return f
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	}
	return v
}

// Failed is the fault of a command that ended with another code than 0.
func (o Output) Failed(name string) error {
	return fault.New(fault.Unavailable, "%s", fmt.Sprintf("%s ended with code %d%s", name, o.Exit, behind(o.Tells))).Because("exit")
}
