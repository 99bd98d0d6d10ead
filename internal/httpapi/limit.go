package httpapi

import (
	"context"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
)

// admit bounds the requests that are worked on at once. The others wait, for as
// long as a request may take, and are told to come again if that is not enough.
func (s *server) admit(ctx context.Context) (release func(), err error) {
	select {
	case s.inflight <- struct{}{}:
	default:
		timer := time.NewTimer(s.Timeout)
		defer timer.Stop()
		select {
		case s.inflight <- struct{}{}:
		case <-ctx.Done():
			return nil, fault.New(fault.Unavailable, "the client went away while it waited")
		case <-timer.C:
			return nil, fault.New(fault.Unavailable, "too many requests at once")
		}
	}
	return sync.OnceFunc(func() { <-s.inflight }), nil
}

// maxLimiters bounds the principals whose rate is remembered.
const maxLimiters = 10_000

// limits holds a token bucket per principal.
type limits struct {
	rate  rate.Limit
	burst int
	clock func() time.Time

	mu      sync.Mutex
	buckets map[string]*rate.Limiter
}

func newLimits(perSecond float64, burst int, clock func() time.Time) *limits {
	return &limits{rate: rate.Limit(perSecond), burst: burst, clock: clock, buckets: map[string]*rate.Limiter{}}
}

// take uses one request of the principal's rate, of the address's where nobody
// has said who they are.
func (l *limits) take(w http.ResponseWriter, r *http.Request, who access.Principal) error {
	if l.rate <= 0 || r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
		return nil
	}
	key := "user:" + who.Org + "\x00" + who.Actor()
	if who.Actor() == "" {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			host = r.RemoteAddr
		}
		key = "address:" + host
	}
	now := l.clock()
	res := l.bucket(key, now).ReserveN(now, 1)
	wait := res.DelayFrom(now)
	if wait <= 0 {
		return nil
	}
	res.CancelAt(now)
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	return fault.New(fault.Exhausted, "too many requests: at most %g per second", float64(l.rate)).Because("rate")
}

func (l *limits) bucket(key string, now time.Time) *rate.Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.buckets[key]; ok {
		return b
	}
	if len(l.buckets) >= maxLimiters {
		for k, b := range l.buckets { // a full bucket is as good as a new one
			if b.TokensAt(now) >= float64(l.burst) {
				delete(l.buckets, k)
			}
		}
	}
	for k := range l.buckets {
		if len(l.buckets) < maxLimiters {
			break
		}
		delete(l.buckets, k)
	}
	b := rate.NewLimiter(l.rate, l.burst)
	l.buckets[key] = b
	return b
}
