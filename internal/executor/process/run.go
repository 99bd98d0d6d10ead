package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/program"
)

// proof of the process that was started last.
func (p directory) proof(rec *record) program.Proof {
	return program.Proof{PID: rec.PID, Birth: rec.Birth, Nonce: rec.nonce(), Log: p.logPath(rec.Name)}
}

// alive reports whether it runs. What cannot prove to be ours is neither.
func (p directory) alive(rec *record) (bool, error) {
	if rec.PID == 0 {
		return false, nil
	}
	switch p.proof(rec).Verdict() {
	case program.Match:
		return true, nil
	case program.Unproven:
		return false, fault.New(fault.Unavailable, "process %d may be program %s, but does not prove it; end it by hand", rec.PID, rec.Name)
	}
	return false, nil
}

// make makes it as it is wanted, or goes on with that.
func (p directory) make(ctx context.Context, r executor.Resource, w wanted, seen survey) error {
	uid, gid, err := account(w.User)
	if err != nil {
		return err
	}
	for _, name := range append([]string{w.Program}, programs(w)...) { // before anything is stopped
		if _, err := p.find(name); err != nil {
			return err
		}
	}
	rec := seen.here
	if rec == nil {
		if seen.lost != nil { // what has lost its directory may still run
			if err := p.remove(ctx, seen.lost, w.launch.grace()); err != nil {
				return err
			}
		}
		if rec, err = p.settle(r, w.name, uid, gid); err != nil {
			return err
		}
	}
	if err := p.enter(rec); err != nil {
		return err
	}
	restart, anew := rec.Beginning || !seen.alive, false
	for _, f := range seen.fields(w) {
		takes, file := w.takes(f.Path)
		restart, anew = restart || !takes, anew || file
	}
	if restart && seen.alive && rec.PID == self() {
		if anew && r.Mark == "" { // nobody has planned the rest: it stays, and is told
			return p.renewSome(r, rec, w, uid, gid)
		}
		return fault.New(fault.Denied, "program %s is this server itself, which cannot start itself anew: end it, and `drover bootstrap` starts it as it was; what is wanted now is not applied", rec.Name)
	}
	if restart {
		rec.Beginning = true
		if err := p.keep(rec); err != nil {
			return err
		}
		for _, other := range append(seen.old, rec) { // what it was may have the ports
			if err := p.stop(ctx, other, w.launch.grace()); err != nil {
				return err
			}
		}
		if err := p.lay(rec, w, uid, gid); err != nil {
			return err
		}
		if err := p.prepare(ctx, r, rec, w); err != nil {
			return err
		}
	}
	if anew && !restart {
		if err := p.renew(r, rec, w, uid, gid); err != nil {
			return err
		}
	}
	rec.Launch, rec.Pieces = w.launch, w.pieces
	if restart {
		if err := p.start(ctx, rec); err != nil {
			return err
		}
		fmt.Fprintf(r.Log, "started %s as process %d\n", rec.Name, rec.PID)
	}
	rec.Beginning = false
	return p.keep(rec)
}

// renew writes files that a running program takes as they are, and tells it. Whoever is
// killed in between has left files that are not those of the record, and does it again.
func (p directory) renew(r executor.Resource, rec *record, w wanted, uid, gid int) error {
	if err := p.lay(rec, w, uid, gid); err != nil {
		return err
	}
	if w.reload.signal != "" {
		if err := program.TellGroup(p.proof(rec), w.reload.signal); err != nil {
			return fault.New(fault.Unavailable, "program %s cannot be told of its new files: %w", rec.Name, err)
		}
	}
	fmt.Fprintf(r.Log, "%s has new files, and goes on\n", rec.Name)
	return nil
}

// fields is differs, of what there is.
func (s survey) fields(w wanted) []executor.Field {
	if s.here == nil {
		return nil
	}
	return s.differs(w, false)
}

// programs are those that are needed besides the program itself.
func programs(w wanted) (out []string) {
	for _, s := range w.prepare {
		out = append(out, s.command[0])
	}
	if len(w.Health.Command) > 0 {
		out = append(out, w.Health.Command[0])
	}
	return out
}

// settle makes the record, with the home that is going to be used, at once.
func (p directory) settle(r executor.Resource, name string, uid, gid int) (*record, error) {
	rec := &record{Name: name, ID: r.ID, Number: time.Now().UnixNano(), Beginning: true, Pieces: map[string]piece{}, Directory: p.at}
	fail := func(err error) error {
		return fault.New(fault.Unavailable, "the directory of program %s cannot be made: %w", name, bare(err))
	}
	if err := os.Mkdir(filepath.Join(p.at, records), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fail(err)
	}
	fresh, err := os.MkdirTemp(filepath.Join(p.at, records), ".new-*")
	if err != nil {
		return nil, fail(err)
	}
	defer os.RemoveAll(fresh) // gone already where all went well
	home := filepath.Join(fresh, unused)
	if err := os.MkdirAll(filepath.Join(home, own), 0o700); err != nil {
		return nil, fail(err)
	}
	if uid >= 0 {
		if err := os.Chown(home, uid, gid); err != nil {
			return nil, fail(err)
		}
	}
	kept := *rec
	kept.Name = filepath.Base(fresh)
	if err := p.keep(&kept); err != nil {
		return nil, err
	}
	// What has no record is what a removal has left that was cut short.
	if there, err := p.record(name); err != nil || there != nil {
		return nil, errors.Join(err, executor.NotOurs("the directory "+name))
	}
	if err := os.RemoveAll(p.known(name)); err != nil {
		return nil, fail(err)
	}
	if err := os.Rename(fresh, p.known(name)); err != nil {
		return nil, executor.NotOurs("the directory " + name)
	}
	return rec, nil
}

// enter puts the home where it belongs, unless it is there.
func (p directory) enter(rec *record) error {
	is, begun := p.look(rec.Name)
	if is == nothing && begun {
		// It takes nobody's place: not that of an empty directory either.
		if err := os.Rename(filepath.Join(p.known(rec.Name), unused), p.home(rec.Name)); err == nil {
			return nil
		}
	}
	if is == ours {
		return nil
	}
	return executor.NotOurs("the directory " + rec.Name)
}

// prepare runs what is run once.
func (p directory) prepare(ctx context.Context, r executor.Resource, rec *record, w wanted) error {
	if rec.Prepared {
		return nil
	}
	root, err := os.OpenRoot(p.home(rec.Name)) // links in there lead nowhere
	if err != nil {
		return fault.New(fault.Unavailable, "the directory of program %s cannot be used", rec.Name)
	}
	defer root.Close()
	for _, name := range w.clear {
		if err := root.RemoveAll(filepath.FromSlash(name)); err != nil {
			return fault.New(fault.Unavailable, "%s of program %s cannot be removed: %w", name, rec.Name, bare(err))
		}
	}
	rec.Launch = w.launch
	for _, s := range w.prepare {
		cmd, err := p.command(rec, s.command)
		if err != nil {
			return err
		}
		out, err := p.output(rec)
		if err != nil {
			return err
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(s.stdin), out, out
		err = runBounded(ctx, cmd)
		_ = out.Close()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			p.tail(r.Log, rec)
			return fault.New(fault.Unavailable, "%s, which prepares program %s, has failed (%v); its output is in %s", filepath.Base(s.command[0]), rec.Name, err, p.logPath(rec.Name))
		}
	}
	rec.Prepared = true
	return p.keep(rec)
}

func (p directory) output(rec *record) (*os.File, error) {
	f, err := os.OpenFile(p.logPath(rec.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "the output of program %s cannot be kept: %w", rec.Name, bare(err))
	}
	return f, nil
}

// find returns the file of a program.
func (p directory) find(name string) (string, error) {
	if filepath.IsAbs(name) {
		if found, err := exec.LookPath(name); err == nil {
			return found, nil
		}
	} else if !strings.ContainsRune(name, filepath.Separator) {
		for _, pattern := range p.path {
			found, _ := filepath.Glob(filepath.Join(pattern, name))
			slices.Sort(found)
			for _, f := range slices.Backward(found) { // of several versions the highest
				if f, err := exec.LookPath(f); err == nil {
					return f, nil
				}
			}
		}
		if found, err := exec.LookPath(name); err == nil {
			return filepath.Abs(found)
		}
	}
	return "", fault.New(fault.Invalid, "there is no program %.128q on this machine: install it, or add its directory to the connection's path", name).Because("program")
}

// command prepares a command of the program, with nothing of the server's
// environment.
func (p directory) command(rec *record, argv []string) (*exec.Cmd, error) {
	found, err := p.find(argv[0])
	if err != nil {
		return nil, err
	}
	uid, gid, err := account(rec.Launch.User)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(found, argv[1:]...)
	cmd.Dir, cmd.SysProcAttr = p.home(rec.Name), program.Detached()
	become(cmd.SysProcAttr, uid, gid)
	env := program.BareEnv(cmd.Dir)
	maps.Copy(env, rec.Launch.Env)
	env[program.NonceVar] = rec.nonce() + "." + strconv.FormatInt(rec.Run, 10)
	for _, k := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, k+"="+env[k])
	}
	return cmd, nil
}

// start starts it in a session of its own, with a file for its output: nothing of
// ours is needed to go on.
func (p directory) start(ctx context.Context, rec *record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for name, port := range rec.Launch.Ports {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return fault.New(fault.Unavailable, "port %d (%s) of program %s is taken by another program: end that, or choose another port", port, name, rec.Name).Because("port")
		}
		_ = l.Close()
	}
	rec.Run++
	rec.PID, rec.Birth, rec.Ready, rec.Started = 0, "", false, time.Now().UTC()
	if err := p.keep(rec); err != nil {
		return err
	}
	cmd, err := p.command(rec, append([]string{rec.Launch.Program}, rec.Launch.Args...))
	if err != nil {
		return err
	}
	out, err := p.output(rec)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return fault.New(fault.Unavailable, "program %s cannot be run: %w", rec.Name, bare(err))
	}
	rec.PID = cmd.Process.Pid
	rec.Birth, _ = program.Birth(rec.PID) // it cannot be reaped before Wait
	go func() { _ = cmd.Wait() }()        // ends with the program
	return p.keep(rec)
}

// await waits until it works.
func (p directory) await(ctx context.Context, r executor.Resource, w wanted) (executor.Result, error) {
	rec, err := p.record(w.name)
	if err != nil {
		return executor.Result{}, err
	}
	if rec == nil {
		return executor.Result{}, fault.New(fault.Unavailable, "program %s is gone while it was made", w.name)
	}
	alive, err := p.alive(rec)
	if err != nil {
		return executor.Result{}, err
	}
	if !alive {
		p.tail(r.Log, rec)
		return executor.Result{}, fault.New(fault.Unavailable, "program %s has ended soon after its start; its output is in %s", w.name, p.logPath(w.name))
	}
	if rec.Ready {
		return executor.Result{Done: true}, nil
	}
	why := w.Health.ask(ctx, p, rec)
	switch within := duration(w.Health.Within, 2*time.Minute); {
	case ctx.Err() != nil:
		return executor.Result{}, ctx.Err()
	case why == "":
		return executor.Result{Done: true}, p.works(ctx, rec)
	case time.Since(rec.Started) > within:
		p.tail(r.Log, rec)
		return executor.Result{}, fault.New(fault.Unavailable, "program %s runs, and does not work: %s; its output is in %s", w.name, why, p.logPath(w.name))
	}
	return executor.Result{Message: "it has started: " + why, After: 250 * time.Millisecond}, nil
}

// tail shows people the last of what a program printed.
func (p directory) tail(to io.Writer, rec *record) {
	f, err := os.Open(p.logPath(rec.Name))
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > 4096 {
		_, _ = f.Seek(-4096, io.SeekEnd)
	}
	data, _ := io.ReadAll(io.LimitReader(f, 4096))
	fmt.Fprintf(to, "%s\n", strings.ToValidUTF8(string(data), "?"))
}
