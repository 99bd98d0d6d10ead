package terraform

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"
	tfjson "github.com/hashicorp/terraform-json"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/tofu"
)

// run is one run of OpenTofu, in a directory of its own that it holds on to.
type run struct {
	x      *Executor
	r      executor.Resource
	m      module
	dir    string // of the run
	at     string // of the module
	binary string
	env    map[string]string
	hold   *os.File // locked for as long as this process or OpenTofu work there
	tofu   *tfexec.Terraform
	keep   bool // a state is left there that is nowhere else
}

// mode of a plan.
type mode int

const (
	normal mode = iota
	refresh
	destroy
)

const (
	holdFile  = "hold"
	planFile  = "plan"
	inputFile = "inputs.tfvars.json"
	// erroredFile is where OpenTofu puts a state that it cannot bring to its place.
	erroredFile = "errored.tfstate"

	// stopWithin is how long OpenTofu may take to end what it has begun and to write
	// down how far it came.
	stopWithin = 2 * time.Minute
	// grace is how long OpenTofu may need its state after its caller has given up.
	grace = 15 * time.Minute
)

// begin lays a module out and readies it. A patient run goes on asking for its state
// for minutes: the server may be starting again.
func (x *Executor) begin(ctx context.Context, r executor.Resource, m module, patient bool) (*run, error) {
	binary, err := tofu.Find(x.Binary, "--executor-options terraform.binary=...")
	if err != nil {
		return nil, err
	}
	if r.ID == "" || r.ID != filepath.Base(r.ID) || strings.HasPrefix(r.ID, ".") {
		return nil, fault.New(fault.Invalid, "%.64q cannot be the id of a resource", r.ID)
	}
	n := &run{x: x, r: r, m: m, binary: binary}
	if err := n.lay(ctx, patient); err != nil {
		n.end()
		var known *fault.Error
		if errors.As(err, &known) || ctx.Err() != nil {
			return nil, err
		}
		return nil, fault.New(fault.Unavailable, "cannot use the directory of OpenTofu's runs: %w", err)
	}
	select {
	case x.fetch <- struct{}{}:
		err = n.tofu.Init(ctx, tfexec.Upgrade(false))
		<-x.fetch
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		err = n.trouble(ctx, "prepare", err)
		n.end()
		return nil, err
	}
	return n, nil
}

func (n *run) lay(ctx context.Context, patient bool) (err error) {
	if n.dir, err = os.MkdirTemp(n.x.Work, "."); err != nil { // for this user alone
		return err
	}
	if n.hold, err = hold(filepath.Join(n.dir, holdFile)); err != nil {
		return err
	}
	// Now that it is held nobody sweeps it up.
	if named := filepath.Join(n.x.Work, n.r.ID+"."+filepath.Base(n.dir)[1:]); os.Rename(n.dir, named) == nil {
		n.dir = named
	}
	if n.at, err = n.m.lay(filepath.Join(n.dir, "tree")); err != nil {
		return err
	}
	if err := write(filepath.Join(n.dir, inputFile), n.m.variables); err != nil {
		return err
	}
	within := time.Hour
	if until, ok := ctx.Deadline(); ok {
		within = time.Until(until) + grace
	}
	access, err := n.x.States.Access(ctx, Run{Resource: n.r.ID, Host: n.x.host, Dir: n.dir, Fence: n.r.Fence.Token, Within: min(within, 23*time.Hour)})
	if err != nil {
		return err
	}
	tries := 2
	if patient {
		tries = 300
	}
	n.env = tofu.Environment()
	for name, value := range map[string]string{
		"TF_HTTP_ADDRESS": access.URL, "TF_HTTP_LOCK_ADDRESS": access.URL, "TF_HTTP_UNLOCK_ADDRESS": access.URL,
		"TF_HTTP_USERNAME": access.User, "TF_HTTP_PASSWORD": access.Password,
		"TF_HTTP_RETRY_MAX": strconv.Itoa(tries), "TF_HTTP_RETRY_WAIT_MIN": "1", "TF_HTTP_RETRY_WAIT_MAX": "2",
		"TF_ENCRYPTION":       tofu.Encryption(rand.Text(), "plan"), // it holds the inputs
		"TF_CLI_CONFIG_FILE":  n.x.Settings,
		"TF_PLUGIN_CACHE_DIR": n.x.Cache,
		// Modules come without a lock file, and would never use the cache otherwise.
		"TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE": "1",
	} {
		if value != "" {
			n.env[name] = value
		}
	}
	n.tofu, err = tofu.Open(n.at, n.binary, n.env)
	return err
}

// end removes the directory of the run.
func (n *run) end() {
	if n.dir != "" && !n.keep {
		_ = os.RemoveAll(n.dir) // what is left is swept up later
	}
	if n.hold != nil {
		n.hold.Close()
	}
}

// plan asks what would be done. Nothing is locked: whoever carries it out finds
// whether its state is still the same.
func (n *run) plan(ctx context.Context, how mode) (*tfjson.Plan, bool, error) {
	file := filepath.Join(n.dir, planFile)
	inputs := filepath.Join(n.dir, inputFile)
	options := []tfexec.PlanOption{tfexec.Out(file), tfexec.Lock(false), tfexec.VarFile(inputs)}
	switch how {
	case refresh:
		options = append(options, tfexec.RefreshOnly(true))
	case destroy:
		options = append(options, tfexec.Destroy(true))
	}
	differs, err := n.tofu.Plan(ctx, options...)
	_ = os.Remove(inputs) // the plan has them
	if err != nil {
		return nil, false, n.trouble(ctx, "plan", err)
	}
	p, err := n.tofu.ShowPlanFile(ctx, file)
	if err != nil {
		return nil, false, n.trouble(ctx, "read the plan of", err)
	}
	return p, differs, nil
}

// apply carries the plan out. Where OpenTofu could not bring the state to its place
// that is done for it.
func (n *run) apply(ctx context.Context) error {
	veil := strings.NewReplacer(n.m.secrets()...)
	worked := tofu.Work(ctx, tofu.Job{
		Binary: n.binary, Dir: n.at, Env: n.env, Hold: n.hold, Within: stopWithin, Log: filepath.Join(n.dir, "log"),
		Args: []string{"apply", "-input=false", "-no-color", "-json", filepath.Join(n.dir, planFile)},
		Tell: func(line string) { fmt.Fprintln(n.r.Log, veil.Replace(line)) },
	})
	if err := n.x.rescue(context.WithoutCancel(ctx), n.r.ID, n.at); err != nil {
		n.keep = true
		fmt.Fprintf(n.r.Log, "the state of %s could not be kept yet, and is tried again: %s\n", n.r.Address, err)
	}
	if worked != nil {
		return n.trouble(ctx, "apply", worked)
	}
	return nil
}

// rescue brings a state to its place that OpenTofu had to leave behind in a module.
func (x *Executor) rescue(ctx context.Context, id, at string) error {
	path := filepath.Join(at, erroredFile)
	state, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	err = x.States.Rescue(ctx, id, state)
	if err == nil || fault.Is(err, fault.Conflict) && fault.Reason(err) != "locked" { // a newer one is there
		return os.Remove(path)
	}
	return err
}

var (
	// placed are mistakes in files; what providers say of a resource has "with".
	placed    = regexp.MustCompile(`\bon \S+ line \d+`)
	undefined = regexp.MustCompile(`There is no variable named "([^"]+)"`)
)

// trouble is what people read of a failed call. Only what cannot be mended by
// trying again is Invalid, and only that nobody answers is Unavailable: a module
// that fails is no reason to keep others from theirs.
func (n *run) trouble(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	words := strings.NewReplacer(n.m.secrets()...).Replace(tofu.Words(err))
	if found := undefined.FindStringSubmatch(words); found != nil && strings.HasPrefix(words, "Error: Missing base variable") {
		return fault.New(fault.Invalid, "the module has no variable %.80q: declare it, or leave it out", found[1])
	}
	switch {
	case strings.Contains(words, "acquiring the state lock") || strings.Contains(words, "already locked"):
		return fault.New(fault.Conflict, "somebody else works on it: %s", words).Because("locked")
	case strings.Contains(words, "Saved plan is stale"):
		return fault.New(fault.Conflict, "its state was written meanwhile").Because("stale")
	case strings.Contains(words, "remote state") || strings.Contains(words, "refresh state") || strings.Contains(words, "get state"):
		return fault.New(fault.Unavailable, "cannot %s the module: its state cannot be reached: %s", what, words)
	case strings.Contains(words, "No value for required variable") || strings.Contains(words, "Output refers to sensitive values"):
		return fault.New(fault.Invalid, "cannot %s the module: %s", what, words)
	case what == "prepare" && placed.MatchString(words):
		return fault.New(fault.Invalid, "the module has mistakes: %s", words)
	case what == "plan":
		if checked, failed := n.tofu.Validate(ctx); failed == nil && !checked.Valid {
			return fault.New(fault.Invalid, "the module has mistakes: %s", tofu.Mistakes(checked))
		}
	}
	return fault.New(fault.Conflict, "cannot %s the module: %s", what, words).Because("module")
}
