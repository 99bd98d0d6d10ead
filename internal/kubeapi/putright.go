package kubeapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/droverhq/drover/internal/gitops"
)

const (
	putRight   = "PutRight"  // the reason of events
	eventLives = time.Hour   // as long as an API keeps events
	eventPause = time.Minute // between two about a status that somebody keeps changing
	maxEvents  = 10_000      // that are remembered
	eventTries = 5
)

// events remembers what was told last of each custom resource, so that each thing is
// told once. Losing it costs a question: an event has the name of what it tells.
type events struct {
	mu   sync.Mutex
	last map[string]time.Time // by UID
}

// news reports whether something was not told yet, and notes it.
func (e *events) news(uid string, at time.Time, pause time.Duration) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last, ok := e.last[uid]; ok && at.Sub(last) <= pause {
		return false
	}
	if e.last == nil || len(e.last) >= maxEvents {
		e.last = map[string]time.Time{}
	}
	e.last[uid] = at
	return true
}

func (e *events) forget(uid string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.last, uid)
}

// healed tells by an event at the custom resource what was put right behind
// somebody's back. Conditions are left as their users know them. What is old is
// told no more.
func (h *Home) healed(ctx context.Context, kind, uid string, of gitops.Origin, at time.Time, what string) {
	if h.Now().Sub(at) >= eventLives || !h.events.news(uid, at, 0) {
		return
	}
	if !h.event(ctx, kind, uid, of, at, "put right: "+what) {
		h.events.forget(uid) // the next status tells it
	}
}

// What somebody else has changed of a custom resource.
const (
	theStatus = "the status"
	theRow    = "what the ledger has of it"
)

// mended tells that something was changed by somebody else and is written again.
func (h *Home) mended(ctx context.Context, kind string, o client.Object, what string) {
	h.tellMended(ctx, kind, string(o.GetUID()), gitops.Origin{Namespace: o.GetNamespace(), Name: o.GetName()}, what)
}

// Mended implements gitops.Mirror.
func (h *Home) Mended(ctx context.Context, kind, uid string, of gitops.Origin) {
	h.tellMended(ctx, kind, uid, of, theRow)
}

func (h *Home) tellMended(ctx context.Context, kind, uid string, of gitops.Origin, what string) {
	if now := h.Now(); h.events.news(what+" of "+uid, now, eventPause) {
		h.event(ctx, kind, uid, of, now, "put right: "+what+" was changed by somebody else")
	}
}

// event is for people who look: nothing fails for want of it. False: the API did not
// take it, and may another time.
func (h *Home) event(ctx context.Context, kind, uid string, of gitops.Origin, at time.Time, text string) (settled bool) {
	var about client.Object = &corev1.Namespace{}
	if r, ok := resourceOf(kind); ok {
		about = r.one()
	} else if kind != gitops.KindWorkspace.Name {
		return true
	}
	kinds, _, err := h.scheme.ObjectKinds(about)
	if err != nil || len(kinds) == 0 {
		return true
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", uid, at.Unix(), text))
	when := metav1.NewTime(at)
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name[:min(len(of.Name), 200)] + "." + hex.EncodeToString(sum[:8])},
		InvolvedObject: corev1.ObjectReference{APIVersion: kinds[0].GroupVersion().String(), Kind: kinds[0].Kind, Namespace: of.Namespace, Name: of.Name, UID: types.UID(uid)},
		Reason:         putRight, Message: strings.ToValidUTF8(text[:min(len(text), 1000)], ""), Type: corev1.EventTypeNormal, Count: 1, FirstTimestamp: when, LastTimestamp: when,
		Source: corev1.EventSource{Component: "drover"}, ReportingController: "drover.dev/gitops", ReportingInstance: h.Name,
	}
	for range eventTries {
		call, cancel := context.WithTimeout(ctx, patience)
		err := h.kube.Create(call, e.DeepCopy())
		cancel()
		if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return false
}
