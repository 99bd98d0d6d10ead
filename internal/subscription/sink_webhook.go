package subscription

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/hook"
	"github.com/droverhq/drover/internal/trace"
)

// Poster makes one call of somebody's URL.
type Poster interface {
	Post(ctx context.Context, p hook.Post) error
}

// Webhook is the sink of URLs. Each event is one request, in order, signed in the way
// that the Standard Webhooks specification describes.
type Webhook struct {
	Poster Poster
	Keeper interface {
		Unseal(ctx context.Context, ref string) ([]byte, error)
	}
	Now    func() time.Time // default: time.Now
	Tracer *trace.Tracer    // default: nobody follows events on their way
}

// Deliver implements Sink. A slow receiver gets what there is time for: it has one of
// the few turns, and others wait for that.
func (w *Webhook) Deliver(ctx context.Context, s Subscription, events []Event) (int, error) {
	secret, err := w.Keeper.Unseal(ctx, s.Spec.Secret)
	if err != nil {
		return 0, err
	}
	end := w.now().Add(stretch)
	for i := range events {
		if i > 0 && !w.now().Before(end) {
			return i, nil
		}
		spans := follow(ctx, w.Tracer, events[i:i+1], "webhook ", trace.Client)
		err := w.post(ctx, s.Spec.URL, secret, &events[i])
		for _, span := range spans {
			tell(span, &s, err)
		}
		if err != nil {
			return i, err
		}
	}
	return len(events), nil
}

// tell ends the span of a delivery. Of one that fails again nothing is told: a receiver
// that is away for a day is met again and again.
func tell(span *trace.Span, s *Subscription, err error) {
	if err != nil && s.Status.Tries > 0 {
		return
	}
	span.Set(trace.Text("drover.subscription", s.ID), trace.Number("drover.tries", int64(s.Status.Tries)+1))
	span.Done(err)
}

func (w *Webhook) now() time.Time {
	if w.Now != nil {
		return w.Now()
	}
	return time.Now()
}

func (w *Webhook) post(ctx context.Context, url string, secret []byte, e *Event) error {
	body, err := e.encode()
	if err != nil {
		return err
	}
	at := strconv.FormatInt(w.now().Unix(), 10)
	header := map[string]string{
		"Content-Type": ContentType, "webhook-id": e.ID, "webhook-timestamp": at, "webhook-signature": Sign(secret, e.ID, at, body),
	}
	if e.Trace != "" {
		header[trace.Header] = e.Trace
	}
	return w.Poster.Post(ctx, hook.Post{URL: url, Header: header, Body: body})
}

// Sign is the signature of a delivery: who has the secret can check that it is ours,
// whole, and not an old one sent again.
func Sign(secret []byte, id, at string, body []byte) string {
	key := secret
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(string(secret), secretPrefix)); err == nil {
		key = raw
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + at + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
