package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/rabbitmq"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/site"
)

const (
	errandSignal = "site-signal"
	signalLife   = 10 * time.Minute // of what vouches for a signal
	signalFirst  = 2 * time.Second  // before one is sent again that may not have been heard; doubles
	signalLast   = 5 * time.Minute
	drainTime    = 2 * time.Second // for the last one
)

// vouching makes and checks what vouches for signals, out of the ledger that the sites
// share.
type vouching interface {
	IssueErrand(ctx context.Context, purpose, subject string, ttl time.Duration) (token string, expires time.Time, err error)
	Errand(ctx context.Context, token, purpose, subject string) error
}

// openSignals opens the broker that both sites reach, where there is one.
func (k *keeper) openSignals() error {
	if len(k.cfg.SiteBusOptions) == 0 {
		return nil
	}
	o := bus.Options(pairs(k.cfg.SiteBusOptions))
	who, err := k.needs.broker("site-bus-options", o)
	if err != nil {
		return err
	}
	with := rabbitmq.Outside{Observer: k.calls, Dial: k.needs.names.DialContext, Away: awayOn(k.log), Back: backOn(k.log)}
	if who != nil {
		with.Login = who
	}
	if k.bus, err = rabbitmq.Connect(o, with); err != nil {
		return fault.New(fault.Invalid, "--site-bus-options: %w", err)
	}
	return nil
}

// listenSignals hears signals until ctx ends. The replicas of a site share them: an epoch
// that one has heard is written down for all.
func (k *keeper) listenSignals(ctx context.Context) {
	if err := k.bus.Consume(ctx, site.SignalQueue(k.view.Site), k.signalled); err != nil && ctx.Err() == nil {
		k.log.Error("signals of the other site are not heard any more", "error", err)
	}
}

// signalled takes one signal. One that nobody vouches for changes nothing.
func (k *keeper) signalled(ctx context.Context, d bus.Delivery) error {
	k.mu.Lock()
	vouch := k.vouch
	k.mu.Unlock()
	if vouch == nil {
		return fault.New(fault.Unavailable, "there is no ledger yet to know the other site by") // it comes again
	}
	s, err := site.ReadSignal(d.Body, k.view.Site)
	if err == nil {
		_, token, _ := strings.Cut(d.Headers["authorization"], " ")
		err = vouch.Errand(ctx, token, errandSignal, site.Digest(d.Body))
	}
	if fault.Is(err, fault.Unavailable) {
		return err
	}
	if err != nil {
		k.log.Warn("a signal was refused that says that it is the other site's", "error", err)
		return nil
	}
	k.log.Info("a signal of the other site", "kind", s.Kind, "site", s.Site, "epoch", s.Epoch)
	k.mu.Lock()
	k.hears(k.drained.Told(s, time.Now()))
	k.saw(s.Epoch)
	k.decide()
	k.mu.Unlock()
	select {
	case k.poke <- struct{}{}: // it is asked at once
	default:
	}
	return nil
}

// hears notes what counts of the other site's word that it ends; the caller has the lock. A
// standby cannot be written into: it is known by the process that heard it.
func (k *keeper) hears(d site.Drain) {
	if d != k.drained {
		k.drained = d
		k.remember()
	}
}

// tell signals the other site that this one leads: once, and again as long as that one has
// not been heard to know.
func (k *keeper) tell(ctx context.Context) {
	var told int64 // the epoch that was signalled last; 0: none since it leads
	var next time.Time
	pause := signalFirst
	for {
		k.mu.Lock()
		s, leads := k.signal()
		knows := k.peer.err == nil && k.peer.status.Epoch >= s.Epoch
		k.mu.Unlock()
		if !leads {
			told, next, pause = 0, time.Time{}, signalFirst
		} else if s.To != "" && (told != s.Epoch || !knows) && !time.Now().Before(next) {
			if k.send(ctx, s) == nil {
				told = s.Epoch
			}
			next, pause = time.Now().Add(pause), min(2*pause, signalLast)
		}
		if !rested(ctx, time.Second) {
			return
		}
	}
}

// signal is how this site stands; the caller has the lock.
func (k *keeper) signal() (s site.Signal, leads bool) {
	kind := site.SignalEpoch
	if k.standing.Begun == k.view.Site {
		kind = site.SignalPromotion
	}
	return site.Signal{Kind: kind, Site: k.view.Site, To: k.view.Peer.Site, Epoch: k.standing.Epoch, Seq: k.standing.Seq, At: time.Now().UTC()},
		k.decision.State == site.Leading && k.acts && !k.ending
}

// drains tells the other site, if it can be told at once, that this one is about to end.
func (k *keeper) drains(ctx context.Context) {
	k.mu.Lock()
	s, leads := k.signal()
	k.ending = true // from now on nothing else is told
	k.mu.Unlock()
	if k.bus == nil || !leads || s.To == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	s.Kind = site.SignalDrain
	_ = k.send(ctx, s) // it hears soon enough that nobody answers
}

func (k *keeper) send(ctx context.Context, s site.Signal) error {
	k.mu.Lock()
	vouch := k.vouch
	k.mu.Unlock()
	if vouch == nil {
		return fault.New(fault.Unavailable, "there is no ledger yet")
	}
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	token, _, err := vouch.IssueErrand(ctx, errandSignal, site.Digest(body), signalLife)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err = k.bus.Send(ctx, site.SignalQueue(s.To), bus.Message{
		ID: rand.Text(), Type: "drover.site." + s.Kind, ContentType: "application/json", Time: s.At,
		Headers: map[string]string{"authorization": "Bearer " + token}, Body: body,
	})
	if err != nil {
		k.log.Debug("a signal was not sent", "kind", s.Kind, "error", err)
	}
	return err
}
