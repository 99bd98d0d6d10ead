package httpapi

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// trace is what the server knows of one request while it runs. It belongs to
// the request's goroutine.
type trace struct {
	id       string
	route    string // template for metrics; default: the mux's pattern
	face     face   // how its API names errors
	user     string
	org      string
	recorded bool   // it is on record besides what it changed
	about    string // whom an operator's call was about, for the record
	// note puts on record what an operator's call is about before it is done; nil: it is
	// not on record.
	note func(about string) error
	err  error // what went wrong, for the log
	// compat is set for paths below an offering's group.
	compat *compatPath
	// stream ends the time limit and gives the place among the requests in
	// flight to another one; see streaming.
	stream func()
}

type traceKey struct{}

func traceOf(ctx context.Context) *trace {
	if t, ok := ctx.Value(traceKey{}).(*trace); ok {
		return t
	}
	return &trace{face: ownFace}
}

// streaming declares that the answer will take as long as the client listens:
// neither the server's time limit nor its write deadline ends it, and it counts
// no longer as a request in flight.
func (s *server) streaming(w http.ResponseWriter, r *http.Request) {
	if t := traceOf(r.Context()); t.stream != nil {
		t.stream()
		t.stream = nil // once is enough
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // no deadline, or a test's recorder that knows none
	_ = control.SetReadDeadline(time.Time{})
}

// middleware is everything that happens to every request, in this order:
// name it, watch it, admit it, find out who asks, bound it, answer it.
func (s *server) middleware(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := s.Clock()
		t := &trace{id: requestID(r), face: ownFace, route: "(none)"}
		out := &response{ResponseWriter: w, gzip: acceptsGzip(r)}
		out.Header().Set("X-Request-ID", t.id)
		ctx := context.WithValue(r.Context(), traceKey{}, t)
		ctx = ledger.WithOrigin(ledger.WithCause(ctx, ledger.ByRequest(t.id)), s.origin(r))
		ctx, span := s.follow(ctx, r, t)
		r = r.WithContext(ctx)
		s.meters.running.Inc()
		defer func() {
			s.meters.running.Dec()
			aborted := s.recovered(out, r, recover())
			out.close()
			s.report(r, t, out, s.Clock().Sub(start))
			t.ended(span, r.Method, out.status)
			if aborted {
				panic(http.ErrAbortHandler) // half an answer must not look like a whole one
			}
		}()
		s.serve(mux, out, r, t)
	})
}

// recovered answers for a handler that panicked; it says whether it is too late for that.
func (s *server) recovered(w *response, r *http.Request, p any) (aborted bool) {
	if p == nil {
		return false
	}
	if p != http.ErrAbortHandler {
		s.Log.ErrorContext(r.Context(), "panic in a handler", "panic", p, "request", traceOf(r.Context()).id, "stack", string(debug.Stack()))
	}
	if w.status != 0 {
		return true
	}
	s.fail(w, r, fault.New(fault.Internal, "panic in a handler"))
	return false
}

func (s *server) serve(mux *http.ServeMux, w *response, r *http.Request, t *trace) {
	if cors(w, r) {
		return
	}
	if s.Site != nil {
		s.Site.Mark(w.Header())
	}
	s.resolve(r, t)
	release, err := s.admit(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	defer release()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	timer := time.AfterFunc(s.Timeout, func() {
		cancel(fault.New(fault.Unavailable, "the request took too long"))
	})
	defer timer.Stop()
	settled := func() bool { return true }
	t.stream = func() {
		timer.Stop()
		release()
		settled = context.AfterFunc(s.Ending, func() { cancel(fault.New(fault.Unavailable, "the server is shutting down")) })
	}
	defer func() { settled() }()
	// A client that sends or takes its bytes too slowly is cut off as well.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(s.Timeout)) // a test's recorder knows none
	_ = control.SetWriteDeadline(time.Now().Add(2 * s.Timeout))
	r = r.WithContext(ctx)
	who, err := s.authenticate(r, t)
	t.user, t.org = who.Actor(), who.Org
	if limited := s.limits.take(w, r, who); limited != nil {
		err = limited
	}
	if err == nil {
		err = s.elsewhere(r)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	r = r.WithContext(ledger.WithOrg(access.With(ctx, who), who.Org))
	if r.Body != nil {
		r.Body = http.MaxBytesReader(w, r.Body, s.bodyLimit(r.URL.Path))
	}
	s.route(mux, w, r, t)
	s.recordRefused(r, who, w.status)
}

// route hands the request to an offering's API or to the mux. The mux has pages
// of its own for an unknown path and a wrong method; ours are error objects.
func (s *server) route(mux *http.ServeMux, w http.ResponseWriter, r *http.Request, t *trace) {
	if t.compat != nil {
		s.compat(w, r, t)
		return
	}
	handler, pattern := mux.Handler(r)
	if pattern != "" {
		t.route = pattern
		if err := s.shutOut(r); err != nil {
			s.fail(w, r, err)
			return
		}
		if waysIn[pattern] && access.From(r.Context()).Admin {
			s.audited(w, r, false, mux.ServeHTTP)
			return
		}
		mux.ServeHTTP(w, r)
		return
	}
	t.route = "(unknown)"
	probe := &probe{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		s.fail(w, r, wrongMethod(r))
		return
	}
	s.fail(w, r, nothingAt(r))
}

// shutOut keeps whoever may not use the service out of Drover's own API, too;
// what says who and what one is, and which terms there are, stays open.
func (s *server) shutOut(r *http.Request) error {
	rest, own := strings.CutPrefix(r.URL.Path, "/api/v1/")
	if !own || s.Policy == nil {
		return nil
	}
	switch first, _, _ := strings.Cut(rest, "/"); first {
	case "whoami", "errors", "kinds", "terms", "state":
		return nil
	}
	return s.Policy.Admit(access.From(r.Context()))
}

// probe asks a handler for the headers it would send.
type probe struct{ header http.Header }

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) WriteHeader(int)             {}
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

func wrongMethod(r *http.Request) error {
	return fault.New(fault.Invalid, "%.16s is not possible at %.256q", r.Method, r.URL.Path).Because("method")
}

func nothingAt(r *http.Request) error {
	return fault.New(fault.NotFound, "there is nothing at %.256q", r.URL.Path)
}

// authenticate finds out who asks. Everything under /api/ needs a token, but
// for what describes an offering's API; so do service accounts beside the issuer.
func (s *server) authenticate(r *http.Request, t *trace) (access.Principal, error) {
	if !strings.HasPrefix(r.URL.Path, "/api/") && !strings.Contains(r.URL.Path, accountsPath) || t.compat != nil && t.compat.public() {
		return access.Principal{}, nil
	}
	if s.pushing(r) {
		return access.Principal{}, nil
	}
	token, cookie := bearer(r)
	if token == "" {
		if who, joining, err := s.joining(r); joining {
			return who, err
		}
		if who, run, err := s.remembering(r); run {
			return who, err
		}
		return access.Principal{}, fault.New(fault.Denied, "a bearer token is needed").Because("token")
	}
	// A browser sends its cookie whoever wrote the page: it is good for looking,
	// and even that not from a page of another origin.
	if cookie && (r.Method != http.MethodGet && r.Method != http.MethodHead || foreign(r)) {
		return access.Principal{}, fault.New(fault.Denied, "the cookie is good for reading alone; send a bearer token").Because("token")
	}
	who, err := s.Authenticator.Authenticate(r.Context(), token)
	if err == nil {
		err = s.vouched(r.Context(), who)
	}
	return who, err
}

// foreign reports whether a page of another origin had the browser ask, as far
// as the browser tells.
func foreign(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site != "same-origin" && site != "none"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}

// bearer returns the token of a request, and whether it came as a cookie.
func bearer(r *http.Request) (token string, cookie bool) {
	if header := r.Header.Get("Authorization"); header != "" {
		scheme, token, _ := strings.Cut(header, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", false
		}
		return strings.TrimSpace(token), false
	}
	if c, err := r.Cookie("cs_jwt"); err == nil {
		return c.Value, true
	}
	return "", false
}

// requestID takes the caller's id if it is fit for logs and the ledger.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-ID")
	if len(id) < 8 || len(id) > 64 {
		return rand.Text()
	}
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return rand.Text()
		}
	}
	return id
}

// cors lets pages of any origin use the API; it says whether that was all.
// Tokens are never sent by a browser on its own account: the cookie is not,
// because credentials are not allowed here.
func cors(w http.ResponseWriter, r *http.Request) (done bool) {
	if r.Header.Get("Origin") == "" {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Add("Vary", "Origin")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", "X-Request-ID, Retry-After")
		return false
	}
	h.Set("Access-Control-Allow-Methods", "DELETE, GET, PATCH, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusOK)
	return true
}

// report writes the request into log and metrics. Queries are left out of both:
// a client may have put into one what belongs into a header. What went well and
// changed nothing that a user wants is only said on level debug.
func (s *server) report(r *http.Request, t *trace, w *response, took time.Duration) {
	s.meters.observe(r.Method, t.route, w.status, took)
	level := slog.LevelInfo
	if t.err == nil && (r.Method == http.MethodGet || r.Method == http.MethodHead || strings.HasPrefix(t.user, "agent:")) {
		level = slog.LevelDebug
	}
	switch {
	case w.status == http.StatusMisdirectedRequest && strings.HasPrefix(t.user, "agent:"):
		level = slog.LevelDebug // it goes to the site that leads, and looks in again while that is silent
	case w.status == http.StatusServiceUnavailable && t.user == "" && strings.HasSuffix(r.URL.Path, "/sync"):
		level = slog.LevelDebug // there was no room for an agent, which comes again: thousands of lines would keep the others waiting
	case t.err != nil && w.status >= 500:
		level = slog.LevelError
	}
	if !s.Log.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("request", t.id), slog.String("method", printable(r.Method, 16)), slog.String("path", printable(r.URL.Path, 256)),
		slog.Int("status", w.status), slog.Duration("took", took), slog.String("user", t.user),
	}
	if t.org != "" {
		attrs = append(attrs, slog.String("org", t.org))
	}
	if t.err != nil {
		attrs = append(attrs, slog.String("error", printable(t.err.Error(), 1024)))
	}
	s.Log.LogAttrs(r.Context(), level, "request", attrs...)
}

func printable(s string, most int) string {
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
