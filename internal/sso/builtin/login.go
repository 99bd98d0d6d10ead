package builtin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// loginTime is how long people may take to log in.
const loginTime = 10 * time.Minute

//go:embed login.html
var loginHTML string

var loginPage = template.Must(template.New("login").Parse(loginHTML))

// page is what the login page shows.
type page struct {
	Title, Message       string
	Action               string // empty: no form
	Request, Proof, Name string
	Client               string
}

// loginForm shows the page for a request that the authorization endpoint sealed.
func (p *Provider) loginForm(w http.ResponseWriter, r *http.Request) {
	text := r.URL.Query().Get("request")
	req, ok := p.opened(text)
	if !ok {
		p.show(w, http.StatusBadRequest, page{Title: "Log in", Message: stale})
		return
	}
	p.ask(w, r, http.StatusOK, page{Request: text, Name: req.Hint, Client: req.Client})
}

const stale = "This login is not valid any more. Go back to where you came from and start again."

// ask shows the form, tied to a cookie of this browser: what another site's page
// sends in its place is refused.
func (p *Provider) ask(w http.ResponseWriter, r *http.Request, status int, show page) {
	nonce := ""
	if c, err := r.Cookie(p.cookie()); err == nil && len(c.Value) == 26 {
		nonce = c.Value // another tab may have it
	} else {
		nonce = rand.Text()
	}
	http.SetCookie(w, &http.Cookie{
		Name: p.cookie(), Value: nonce, Path: p.path(""), HttpOnly: true,
		Secure: p.base.Scheme == "https", SameSite: http.SameSiteLaxMode, MaxAge: int(loginTime.Seconds()),
	})
	show.Title, show.Action, show.Proof = "Log in", p.issuer+loginPath, p.box.proof(nonce, show.Request)
	p.show(w, status, show)
}

func (p *Provider) cookie() string { return "drover_login_" + p.Realm }

func (p *Provider) show(w http.ResponseWriter, status int, show page) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	w.WriteHeader(status)
	_ = loginPage.Execute(w, show) // the browser has gone
}

// opened reads a request that is still good.
func (p *Provider) opened(text string) (request, bool) {
	var req request
	plain, ok := p.box.open(forLogin, text)
	if !ok || json.Unmarshal(plain, &req) != nil || !p.Clock().Before(req.Until) {
		return request{}, false
	}
	return req, true
}

// login takes a name and a password. Whatever is wrong with them, the answer is
// the same.
func (p *Provider) login(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		p.show(w, http.StatusBadRequest, page{Title: "Log in", Message: "That was too much. Go back and try again."})
		return
	}
	form := r.PostForm
	text, name := form.Get("request"), strings.TrimSpace(form.Get("username"))
	req, ok := p.opened(text)
	if !ok {
		p.show(w, http.StatusBadRequest, page{Title: "Log in", Message: stale})
		return
	}
	again := page{Request: text, Name: short(name), Client: req.Client}
	cookie, err := r.Cookie(p.cookie())
	if err != nil || !hmac.Equal([]byte(form.Get("proof")), []byte(p.box.proof(cookie.Value, text))) {
		again.Message = "The form did not come from this page. Cookies must be allowed; please try again."
		p.ask(w, r, http.StatusForbidden, again)
		return
	}
	address := p.Address(r)
	if wait := p.backoff.wait(name, address); wait > 0 {
		again.Message = "Too many failed attempts. Please wait a while and try again."
		w.Header().Set("Retry-After", fmt.Sprint(int(wait.Seconds())+1))
		p.ask(w, r, http.StatusTooManyRequests, again)
		return
	}
	who, err := p.Users.Check(r.Context(), name, form.Get("password"))
	switch {
	case fault.Is(err, fault.Denied):
		p.backoff.failed(name, address)
		again.Message = "The name or the password is wrong."
		p.ask(w, r, http.StatusUnauthorized, again)
		return
	case err != nil:
		again.Message = "Logging in is not possible at the moment. Please try again in a minute."
		p.ask(w, r, http.StatusServiceUnavailable, again)
		return
	}
	p.backoff.succeeded(name)
	// The client may have changed while the page was open.
	found, err := p.server.Storage().GetClientByClientID(r.Context(), req.Client)
	if app, ok := found.(*application); err != nil || !ok || !app.sentTo(req.Redirect) {
		p.show(w, http.StatusBadRequest, page{Title: "Log in", Message: stale})
		return
	}
	http.SetCookie(w, &http.Cookie{Name: p.cookie(), Path: p.path(""), HttpOnly: true, MaxAge: -1})
	req.Until = time.Time{}
	s := &session{
		id: ledger.NewID(), who: who, aud: p.audience(req.Client),
		spec: sessionSpec{Request: req, Epoch: who.Epoch, At: p.Clock()},
	}
	op.AuthResponse(s, p.server, w, r.WithContext(context.WithValue(r.Context(), pending{}, s)))
}

// goodbye is where people end who logged out and are not sent anywhere else.
func (p *Provider) goodbye(w http.ResponseWriter, _ *http.Request) {
	p.show(w, http.StatusOK, page{Title: "Logged out", Message: "You are logged out."})
}

func short(name string) string {
	if len(name) > 256 {
		return ""
	}
	return name
}
