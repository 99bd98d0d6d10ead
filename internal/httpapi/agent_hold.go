package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

// respond answers: at once if there is news or the agent does not wait, else when
// something of its cluster changes or the interval ends. Nothing but the
// request's own goroutine waits.
func (x *exchange) respond(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	see := x.look()
	out, news, err := x.answer(ctx, see)
	if err != nil {
		return err
	}
	if x.req.Wait && !see.over && !see.lost {
		x.streaming(w, r)
		x.held(1)
		defer x.held(-1)
		hold := time.NewTimer(x.Interval - x.Interval/10 + rand.N(x.Interval/5+1))
		defer hold.Stop()
		token, _ := bearer(r)
		for {
			wait, changed := time.Duration(-1), see.changed
			if news {
				var again bool
				if wait, again = x.tooSoon(see); wait <= 0 {
					break
				} else if !again {
					changed = nil
				}
			}
			if done := rest(ctx, changed, wait, hold.C); done {
				break
			}
			next := x.look()
			if see.over, see.lost = next.over, next.lost; see.over || see.lost {
				break // what is said is what was seen before
			}
			see = next
			if _, err := x.Authenticator.Authenticate(ctx, token); fault.Is(err, fault.Denied) {
				return err // its right has ended while it waited
			}
			if out, news, err = x.answer(ctx, see); err != nil {
				return err
			}
		}
	}
	if ctx.Err() != nil && x.Ending.Err() == nil { // the agent's process may have ended; nobody reads the answer
		x.gone()
		out, news = v1.Synced{}, false
	}
	if see.lost {
		return x.belongs(ctx)
	}
	x.write(w, see, out, news)
	return nil
}

// tooSoon is how long news have to wait for more of them, and whether only because
// the agent was told the same before.
func (x *exchange) tooSoon(see outlook) (wait time.Duration, again bool) {
	h := x.agents
	h.mu.Lock()
	defer h.mu.Unlock()
	return x.p.pace.wait(x.Clock(), x.said(see))
}

// rest waits for a change, and for as long as news have to wait (negative: there
// are none). It reports whether the answer is due, whatever it is.
func rest(ctx context.Context, changed <-chan struct{}, wait time.Duration, end <-chan time.Time) (due bool) {
	var soon <-chan time.Time
	if wait >= 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		soon = timer.C
	}
	select {
	case <-ctx.Done():
		return true
	case <-end:
		return true
	case <-soon:
	case <-changed:
	}
	return false
}

// held counts the messages of an agent that wait for news.
func (x *exchange) held(by int) {
	x.agents.mu.Lock()
	defer x.agents.mu.Unlock()
	x.p.held += by
}

// hungUp reports whether the agent has ended its connection: neither the server's
// time limit nor its end has.
func hungUp(ctx context.Context) bool { return errors.Is(context.Cause(ctx), context.Canceled) }

// gone notes that the connection of an agent has ended while it waited or was
// heard, unless it has spoken over another one since, or waits over one.
func (x *exchange) gone() {
	h := x.agents
	h.mu.Lock()
	p, number := x.p, x.req.Number
	alive := p.agent != x.req.Agent || p.latest > number || p.latest < number && p.held > 0
	h.mu.Unlock()
	if !alive {
		x.Clusters.Leave(x.id, x.req.Agent)
	}
}

func (x *exchange) write(w http.ResponseWriter, see outlook, out v1.Synced, news bool) {
	data, err := json.Marshal(out)
	if err != nil {
		panic(err) // a defect
	}
	if news {
		h := x.agents
		h.mu.Lock()
		x.p.pace.answered(x.Clock(), x.said(see), len(data), x.Interval)
		h.mu.Unlock()
	}
	// A client that does not take its answer is cut off.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * x.Timeout))
	w.Header().Set("Cache-Control", "no-store")
	writeRaw(w, http.StatusOK, append(data, '\n'))
}

// said tells what was asked and answered from other questions and answers: what
// the agent knows and wants, and what there is to tell it.
func (x *exchange) said(see outlook) uint64 {
	sum := uint64(len(x.req.Bodies))
	mix := func(v uint64) { sum = sum*1099511628211 ^ v }
	for i := range x.req.Desired {
		mix(x.req.Desired[i])
		mix(x.req.Observed[i])
	}
	for _, parts := range see.parts {
		for i := range parts {
			mix(parts[i].leaf)
		}
	}
	for i := range see.asked {
		mix(see.asked[i].leaf)
	}
	for _, b := range x.ask {
		mix(uint64(b))
	}
	return sum
}

// keptTTL is how long the tokens live that follow the one of an installation. The
// older half of it is to be longer than a control plane may be away: an agent that
// comes back with one that has ended meanwhile is nobody's, and so is its fleet.
const keptTTL = 30 * 24 * time.Hour

// renew gives the agent a new token where the old one's life is half over, and
// the keys that it does not know. One that was made to live for less than that of
// an installation is followed by its like.
func (x *exchange) renew(r *http.Request) {
	if x.Issuer == nil {
		return
	}
	ctx := r.Context()
	if text, digest := x.keyset.get(ctx, x.Issuer, x.Clock()); digest != x.req.Keys {
		x.keys = text
	}
	who := access.From(ctx)
	if who.Cluster != x.id || who.Issuer != x.Issuer.Name() {
		return
	}
	token, _ := bearer(r)
	from, until, ok := access.Life(token)
	life := until.Sub(from)
	if life >= firstTTL {
		life = max(life, keptTTL)
	}
	if !ok || until.Sub(x.Clock()) >= life/2 {
		return
	}
	x.agents.mu.Lock()
	anew := x.p.anew
	x.agents.mu.Unlock()
	fresh, _, err := x.Issuer.Issue(ctx, access.Claims{Cluster: x.id, NotOlder: anew}, life)
	if err != nil {
		if x.grumble(x.p) {
			x.Log.WarnContext(ctx, "cannot renew the token of an agent", "cluster", x.id, "error", err)
		}
		return
	}
	x.token = fresh
}

// keyset keeps the keys that sign items, for a moment.
type keyset struct {
	mu           sync.Mutex
	text, digest string
	at           time.Time
}

const keysetFor = time.Minute

// get returns the key set and its digest. If it cannot be had, what was known
// last counts.
func (k *keyset) get(ctx context.Context, issuer *access.Issuer, now time.Time) (text, digest string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.text != "" && now.Sub(k.at) < keysetFor {
		return k.text, k.digest
	}
	if data, err := issuer.JWKS(ctx); err == nil {
		k.text, k.digest, k.at = string(data), v1.BodyDigest(data), now
	}
	return k.text, k.digest
}
