package argocd

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/droverhq/drover/internal/runtime"
	"github.com/droverhq/drover/internal/runtime/keep"
)

// operationKept is how long an Operation is shown after its end; operationLost is
// how long one is whose end nobody tells, and that nobody works on.
const (
	operationKept = 10 * time.Minute
	operationLost = time.Hour
	gather        = 500 * time.Millisecond // before they are written
)

// States of Operations.
const (
	waiting    = "Waiting"
	inProgress = "In_Progress"
	completed  = "Completed"
	failed     = "Failed"
)

var operationKind = kind{schema.GroupVersionResource{Group: "managed-gitops.redhat.com", Version: "v1alpha1", Resource: "operations"}, "Operation"}

// operations shows what is done for deployments as custom resources. It is for
// people who look: nothing waits for it, and nothing fails because of it.
type operations struct {
	s    *shift
	wake chan struct{}

	mu      sync.Mutex
	pending map[string]shown
	open    map[string]string    // states of those that have not ended, as this shift has told them
	over    map[string]bool      // shown to have ended, whatever is pending of them
	missing string               // why there is nowhere to show them: told once
	opened  map[string]time.Time // of credentials and targets that this shift has shown, with when they had ended

	pen   sync.Mutex      // held while one is written
	made  map[string]bool // those that were shown and have not ended; of run alone
	shown atomic.Int64    // how many there were when old ones were last looked for
}

// shown is an operation as it is to be shown.
type shown struct {
	runtime.DeploymentOperation
	state, message string
	begun, at      time.Time // begun: where that is known
}

func (o shown) ended() bool { return o.state == completed || o.state == failed }

func newOperations(s *shift) *operations {
	return &operations{s: s, wake: make(chan struct{}, 1), pending: map[string]shown{}, open: map[string]string{}, over: map[string]bool{}, made: map[string]bool{}, opened: map[string]time.Time{}}
}

// begin has an operation shown that has not ended, if that is news.
func (o *operations) begin(op runtime.DeploymentOperation, state string) {
	o.mu.Lock()
	known := o.open[op.ID] == state
	o.mu.Unlock()
	if now := o.s.r.cfg.Now(); !known {
		o.show(shown{DeploymentOperation: op, state: state, begun: now, at: now})
	}
}

// first reports whether something is begun for the first time, until it is dropped.
func (o *operations) first(key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	known := o.open[key] != ""
	o.open[key] = inProgress
	return !known
}

func (o *operations) drop(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, key)
}

// end has an operation shown that is over.
func (o *operations) end(op runtime.DeploymentOperation, state, message string) {
	o.show(shown{DeploymentOperation: op, state: state, message: short(message, 1000), at: o.s.r.cfg.Now()})
}

// show has an operation shown, the last state of it.
func (o *operations) show(op shown) {
	if o.s.r.cfg.Quiet || op.ID == "" {
		return
	}
	o.mu.Lock()
	if was, waits := o.pending[op.ID]; waits && !was.begun.IsZero() {
		op.begun = was.begun
	}
	o.pending[op.ID] = op
	if o.open[op.ID] = op.state; op.ended() {
		delete(o.open, op.ID)
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run writes what is pending until the context ends. What cannot be written is
// tried again soon, and less and less often.
func (o *operations) run(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	var again <-chan time.Time
	pause := gather
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-o.wake:
			// Most end at once, and are written when they have.
			select {
			case <-ctx.Done():
				return
			case <-time.After(gather):
			}
		case <-tick.C:
			clear(o.made)
			o.forget()
			o.sweep(ctx)
		}
		if again = nil; o.flush(ctx) {
			pause = gather
			continue
		}
		pause = min(2*pause, time.Minute)
		again = time.After(pause)
	}
}

// flush writes what is pending, and reports whether nothing is left. One that is refused
// does not stand in the way of the others.
func (o *operations) flush(ctx context.Context) bool {
	o.mu.Lock()
	all := slices.Collect(maps.Values(o.pending))
	clear(o.pending)
	o.mu.Unlock()
	for i, op := range all {
		err := o.write(ctx, op)
		var answer apierrors.APIStatus
		switch {
		case err == nil:
		case o.absent(err):
			return true // there is nowhere to show any
		case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
			o.s.r.cfg.Logger.Warn("an Operation is refused by the cluster, and is not shown: its definition may be an old one", "operation", op.ID, "error", err)
		case errors.As(err, &answer):
			o.keep(op)
			o.s.r.cfg.Logger.Debug("an Operation cannot be shown", "operation", op.ID, "error", err)
		default: // nobody answers
			o.keep(all[i:]...)
			o.s.r.cfg.Logger.Debug("Operations cannot be shown", "error", err)
			return false
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending) == 0
}

// keep puts back what could not be written, unless it is old by now.
func (o *operations) keep(all ...shown) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, op := range all {
		if _, newer := o.pending[op.ID]; !newer {
			o.pending[op.ID] = op
		}
	}
}

// absent reports whether there is nowhere to show operations, and says so once.
// That one of them is not there does not mean it.
func (o *operations) absent(err error) bool {
	var why string
	switch {
	case noKind(err):
		why = "the cluster has no Operation of managed-gitops.redhat.com"
	case noNamespace(err):
		why = "there is no namespace " + o.s.r.cfg.ArgoCD + ", where Argo CD should be"
	default:
		return false
	}
	o.mu.Lock()
	told := o.missing == why
	o.missing = why
	o.mu.Unlock()
	if !told {
		o.s.r.cfg.Logger.Info(why + ": operations are not shown there (the option operations=false says that this is meant)")
	}
	return true
}

// noKind reports whether the cluster says that it does not have a kind of objects,
// which is another thing than not having one of them.
func noKind(err error) bool {
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(), "could not find the requested resource")
}

func noNamespace(err error) bool {
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(), "namespaces ")
}

// instance is which Argo CD it is: the cluster as the control plane calls it, and
// the namespace.
func (o *operations) instance(op shown) string {
	if op.Instance == "" {
		return o.s.r.cfg.ArgoCD
	}
	return op.Instance + "/" + o.s.r.cfg.ArgoCD
}

// finish shows at once that an operation is over, and that it was under way no more.
// It tries a few times.
func (o *operations) finish(ctx context.Context, op runtime.DeploymentOperation) {
	o.pen.Lock()
	defer o.pen.Unlock()
	for range 3 {
		if o.put(ctx, shown{DeploymentOperation: op, state: completed, at: o.s.r.cfg.Now()}, false) == nil {
			o.mu.Lock()
			o.over[op.ID] = true
			o.mu.Unlock()
			return
		}
	}
}

// late tells whether an operation is over that is to be shown under way; once its end
// is shown again that need not be known any more.
func (o *operations) late(op shown) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op.ended() {
		delete(o.over, op.ID)
	}
	return o.over[op.ID]
}

// write is of run alone, put of everybody.
func (o *operations) write(ctx context.Context, op shown) error {
	o.pen.Lock()
	defer o.pen.Unlock()
	if o.late(op) {
		return nil
	}
	known := o.made[op.ID]
	err := o.put(ctx, op, known)
	if known && apierrors.IsNotFound(err) && !noKind(err) { // somebody has removed it
		err = o.put(ctx, op, false)
	}
	if o.made[op.ID] = err == nil; err != nil || op.ended() {
		delete(o.made, op.ID)
	}
	return err
}

// put shows an operation in the cluster, where it is known to be already or not.
func (o *operations) put(ctx context.Context, op shown, known bool) error {
	ctx, stop := context.WithTimeout(ctx, keep.CallTimeout)
	defer stop()
	in, name := o.s.r.in(operationKind), keep.Named("operation-", op.ID)
	if !known {
		spec := object{"operationID": op.ID, "instance": o.instance(op), "owner": op.Owner, "resource": op.Resource, "resourceType": op.Type}
		if op.Cause != "" {
			spec["cause"] = short(op.Cause, 500)
		}
		_, err := in.Create(ctx, operationKind.make(o.s.r.cfg.ArgoCD, name, nil, object{"spec": spec}), metav1.CreateOptions{FieldManager: managedBy})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	at := op.at.UTC().Format(time.RFC3339)
	status := object{"state": op.state, "message": op.message, "lastStateUpdate": at, "finishedAt": nil}
	if op.ended() {
		status["finishedAt"] = at
	}
	if !op.begun.IsZero() {
		status["startedAt"] = op.begun.UTC().Format(time.RFC3339)
	}
	patch, err := json.Marshal(object{"status": status})
	if err == nil {
		_, err = in.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: managedBy}, "status")
	}
	return err
}

// sweep removes Operations that ended a while ago, whoever has shown them.
func (o *operations) sweep(ctx context.Context) {
	if o.s.r.cfg.Quiet {
		return
	}
	in, next, left := o.s.r.in(operationKind), "", int64(0)
	for {
		call, stop := context.WithTimeout(ctx, keep.CallTimeout)
		page, err := in.List(call, metav1.ListOptions{LabelSelector: managedLabel + "=" + managedBy, Limit: 500, Continue: next})
		stop()
		if err != nil {
			return
		}
		for i := range page.Items {
			one := &page.Items[i]
			if old(one, o.works(one), o.s.r.cfg.Now()) {
				uid := one.GetUID()
				call, stop := context.WithTimeout(ctx, keep.CallTimeout)
				err := in.Delete(call, one.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
				if stop(); err == nil || apierrors.IsNotFound(err) {
					continue
				}
			}
			left++
		}
		if next = page.GetContinue(); next == "" {
			o.shown.Store(left)
			return
		}
	}
}

// works reports whether an Operation is under way here.
func (o *operations) works(one *unstructured.Unstructured) bool {
	id, _, _ := unstructured.NestedString(one.Object, "spec", "operationID")
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open[id] != ""
}

// old reports whether an Operation has ended long enough ago, or was left by
// whoever began it.
func old(o *unstructured.Unstructured, works bool, now time.Time) bool {
	text, _, _ := unstructured.NestedString(o.Object, "status", "finishedAt")
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return now.Sub(at) >= operationKept
	}
	text, _, _ = unstructured.NestedString(o.Object, "status", "lastStateUpdate")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at = o.GetCreationTimestamp().Time
	}
	return !works && !at.IsZero() && now.Sub(at) >= operationLost
}
