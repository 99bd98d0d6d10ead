package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/executor/process"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// BootstrapSettings are those of the command line: its structure is converted to
// this one.
type BootstrapSettings struct {
	Location     string   // local, microk8s, a context of the kubeconfig, or the address of a Kubernetes API
	Organisation string   // whose repositories describe other environments; empty: none
	Prefix       string   // that their names begin with
	BaseURL      string   // of the Git server; default https://github.com
	Repositories []string // their names, where the server cannot be asked for them
	GitTokenFile string   // what opens them
	// MetaRepository has the meta template, in place of the one that ships: a name in
	// the organisation or a URL, perhaps with "@" and a commit. Whoever may push to it says what runs.
	MetaRepository string
	State          string // directory; default: one of the user's
	Port           int    // local: of the API, and eleven more; default 8100
	Kubeconfig     string
	Namespace      string // default drover-meta
	Image          string // of Drover's container; default: of this version
	PublicHost     string // kubernetes: name that others reach the API by, perhaps with ":" and a port; empty: nobody
	ServiceType    string // kubernetes: how they do; default ClusterIP
	DryRun         bool
	NoWait         bool // kubernetes: applied is enough
	Timeout        time.Duration
}

// BootstrapEvent is one step forward.
type BootstrapEvent struct {
	Step     string  `json:"step"` // plan, resource, handover, repository, environment
	Name     string  `json:"name,omitempty"`
	Phase    string  `json:"phase,omitempty"`
	Message  string  `json:"message,omitempty"`
	Seconds  float64 `json:"seconds"` // since the beginning
	Executor string  `json:"executor,omitempty"`
}

// BootstrapReport is what has come of it.
type BootstrapReport struct {
	Outcome      string                `json:"outcome"` // planned, applied, bootstrapped, revived, unchanged
	Location     string                `json:"location"`
	State        string                `json:"state"`
	Server       string                `json:"server,omitempty"`
	Data         string                `json:"data,omitempty"`      // directory that finds the server and its admin's token
	Namespace    string                `json:"namespace,omitempty"` // of a cluster; empty: it is on this machine
	Outputs      map[string]any        `json:"outputs,omitempty"`
	Repositories []BootstrapRepository `json:"repositories,omitempty"`
	Left         []string              `json:"left,omitempty"` // what was left out, and why
	Seconds      float64               `json:"seconds"`
}

// BootstrapConfig is what a bootstrap is run with.
type BootstrapConfig struct {
	BootstrapSettings
	Version string
	Tell    func(BootstrapEvent) // of each step; never nil
}

// metaName is the environment that Drover itself runs in.
const metaName = "meta"

// bootstrap is one run.
type bootstrap struct {
	BootstrapConfig
	began  time.Time
	where  metaSite
	report BootstrapReport
	tunnel *tunnel // into the cluster; nil: there is none
	// revived: something was started again that did not run.
	revived bool
}

// tell tells of a step.
func (b *bootstrap) tell(step, name, phase, message string) {
	b.Tell(BootstrapEvent{Step: step, Name: name, Phase: phase, Message: message, Seconds: time.Since(b.began).Seconds()})
}

// asOperator is who bootstraps: the same as the one whose token the new server writes
// for its owner.
func asOperator(ctx context.Context) context.Context {
	ctx = ledger.WithCause(ctx, ledger.BySchedule("bootstrap"))
	return access.With(ctx, access.Principal{User: "admin", Org: "local", OrgAdmin: true, Admin: true})
}

// Bootstrap makes the environment that Drover runs in, hands it over to the Drover in
// it, and sends that one the environments that repositories describe. It may be
// killed at any moment, and goes on where it was when it is run again.
func Bootstrap(ctx context.Context, c BootstrapConfig) (BootstrapReport, error) {
	b := &bootstrap{BootstrapConfig: c, began: time.Now()}
	err := b.run(asOperator(ctx))
	b.report.Seconds = time.Since(b.began).Seconds()
	return b.report, err
}

func (b *bootstrap) run(ctx context.Context) error {
	var err error
	if b.where, err = b.locate(); err != nil {
		return err
	}
	b.report.Location, b.report.State, b.report.Left = b.Location, b.State, b.where.left
	if b.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.Timeout)
		defer cancel()
	}
	if b.DryRun {
		return b.dryRun(ctx)
	}
	if err := b.settle(); err != nil {
		return err
	}
	unlock, err := lockState(b.State)
	if err != nil {
		return err
	}
	defer unlock()
	made, err := b.make(ctx)
	if err != nil || b.report.Outcome == "applied" {
		return err
	}
	var end func()
	if b.where.cluster != nil { // what is in it is reached through its API alone
		b.report.Namespace = b.Namespace
		b.tunnel, ctx, end = dig(ctx, b.where.cluster)
		defer end()
		defer os.RemoveAll(b.keysDir()) // they are in the cluster, and one that is killed leaves them
	}
	fresh, sent, err := b.deliver(ctx)
	if err != nil {
		return err
	}
	switch {
	case made || fresh || sent:
		b.report.Outcome = "bootstrapped"
	case b.revived:
		b.report.Outcome = "revived"
	default:
		b.report.Outcome = "unchanged"
	}
	return nil
}

// deliver hands the environment over, and sends the others.
func (b *bootstrap) deliver(ctx context.Context) (fresh, sent bool, err error) {
	if fresh, err = b.handOver(ctx); err == nil {
		sent, err = b.repositories(ctx)
	}
	if cause := context.Cause(ctx); err != nil && fault.Reason(cause) == "tunnel" {
		err = cause // it is why the rest could not go on
	}
	return fresh, sent, err
}

func (b *bootstrap) runDir() string { return filepath.Join(b.State, "run") }

// laptop opens the control plane of the state directory: a whole one, of which the
// environment engine is used. Nobody else reaches it.
func (b *bootstrap) laptop(ctx context.Context, dir string) (*Server, error) {
	return New(ctx, Config{Version: b.Version, own: b.where.connections, Settings: Settings{
		DataDir: dir, Listen: "127.0.0.1:0", LogLevel: "error",
	}})
}

// work runs the control plane while f does something with it, and ends with it.
func (b *bootstrap) work(ctx context.Context, dir string, f func(ctx context.Context, s *Server) error) error {
	s, err := b.laptop(ctx, dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The loop works as nobody in particular, and ends when f has.
	run, end := context.WithCancel(context.Background())
	defer end()
	ended := make(chan error, 1)
	go func() {
		err := s.Run(run)
		if err != nil {
			cancel(err)
		}
		ended <- err
	}()
	err = f(ctx, s)
	cause := context.Cause(ctx) // before its own end is one
	end()
	if ran := <-ended; err != nil && ran != nil && cause == ran {
		return ran // it is why f could not go on
	}
	return err
}

// make makes the meta environment, and waits until it works. It is done at once where
// that was handed over.
func (b *bootstrap) make(ctx context.Context) (made bool, err error) {
	err = b.work(ctx, b.ledgerDir(), func(ctx context.Context, s *Server) error {
		o, err := s.environments.Get(ctx, metaName)
		var e environment.Environment
		if err == nil {
			if e, err = environment.Decode(o); err == nil && e.Spec.Handed != nil {
				return nil
			}
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		version, terr := b.template(ctx, s, e.Spec.Version)
		if terr != nil {
			return terr
		}
		switch order := (environment.PlanOrder{Environment: metaName, Template: version, Parameters: b.where.parameters, Tags: []string{"meta"}}); {
		case err != nil:
			if err := b.where.ready(ctx); err != nil {
				return err
			}
			b.tell("plan", metaName, "planned", "the environment "+metaName+" is made")
			_, _, err = s.environments.Create(ctx, order)
		case e.Spec.Next == nil && e.Spec.Turn > 0 && e.Spec.Version != version:
			b.tell("plan", metaName, "planned", "the environment "+metaName+" is changed: there is another template")
			order.Keep, order.Parameters = true, b.where.again()
			_, _, err = s.environments.Change(ctx, order)
		case e.Phase == environment.Fail:
			b.tell("plan", metaName, "planned", "what has failed is tried again")
			_, _, err = s.environments.Retry(ctx, metaName)
		case e.Phase == environment.OK:
		default:
			b.tell("plan", metaName, "planned", "the environment "+metaName+" is gone on with")
		}
		made = true
		if err != nil {
			return err
		}
		return b.watch(ctx, s)
	})
	return made, err
}

func (b *bootstrap) ledgerDir() string { return filepath.Join(b.State, "ledger") }

// watch tells of resources as they become ready, until the environment works or has
// failed.
func (b *bootstrap) watch(ctx context.Context, s *Server) error {
	told := map[string]string{}
	for {
		o, err := s.environments.Get(ctx, metaName)
		if err != nil {
			return err
		}
		e, err := environment.Decode(o)
		if err != nil {
			return err
		}
		all, err := s.ledger.List(ctx, ledger.Query{Kind: environment.KindResource.Name, Scope: map[string]any{"parent": e.ID}, Limit: 1000})
		if err != nil {
			return err
		}
		for _, o := range all {
			r, err := environment.DecodeResource(o)
			if err != nil {
				return err
			}
			if r.Phase == environment.Pending || told[r.ID] == r.Phase {
				continue
			}
			told[r.ID] = r.Phase
			b.Tell(BootstrapEvent{Step: "resource", Name: r.Spec.Address, Executor: r.Spec.Executor, Phase: r.Phase, Message: r.Status.Message, Seconds: time.Since(b.began).Seconds()})
		}
		switch {
		case e.Phase == environment.OK && e.Spec.Next == nil && e.Status.Operation == "":
			return nil
		case e.Phase == environment.Fail && e.Spec.Next == nil:
			return fault.New(fault.Unavailable, "the environment %s could not be made: %s Mend it and run the same command again: it goes on where it stopped.", metaName, e.Status.Message).Because("failed")
		case b.NoWait && e.Status.Laid == e.Spec.Turn && b.where.started(all):
			b.report.Outcome = "applied"
			return nil
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("the environment %s is %s after %s, and waits for %s; run the same command again: it goes on where it stopped: %w", metaName, e.Phase, b.Timeout, b.where.waits(all), context.DeadlineExceeded)
			}
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// BootstrapStatus tells what is there of a bootstrap: programs, and whether they run.
func BootstrapStatus(ctx context.Context, c BootstrapConfig) (map[string]bool, error) {
	b := &bootstrap{BootstrapConfig: c, began: time.Now()}
	var err error
	if b.where, err = b.locate(); err != nil {
		return nil, err
	}
	if !b.begins() {
		return nil, fault.New(fault.NotFound, "there is no bootstrap in %s", b.State)
	}
	if b.where.kind != "local" {
		return nil, fault.New(fault.Invalid, "the status of what runs on Kubernetes is told by the cluster: kubectl --namespace %s get pods", b.Namespace)
	}
	_, at := b.processes(b.runDir(), "")
	return process.Running(ctx, at)
}
