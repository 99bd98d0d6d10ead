package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/site"
)

const (
	askEach  = 500 * time.Millisecond // between questions to the other site
	askTime  = 2 * time.Second
	sitePath = "/site"
	// siteHeader is where a site that asks is reached itself; it counts with an
	// operator's token, which the sites make from the ledger that they share.
	siteHeader = "Drover-Site"
)

// peer is the other site, as it was heard of.
type peer struct {
	url    string // where it is asked
	told   string // where it says that others reach it
	status v1.Site
	leads  bool
	at     time.Time // when it answered last
	fresh  time.Time // a moment whose changes it has told of
	err    error
}

func (p *peer) wire() *v1.PeerSite {
	out := &v1.PeerSite{URL: cmp.Or(p.told, p.url), Site: p.status.Site, State: p.status.State, Epoch: p.status.Epoch, Seq: p.status.Seq}
	if !p.at.IsZero() {
		out.Heard = &p.at
	}
	if p.err != nil {
		out.Error = p.err.Error()
	}
	return out
}

// clusterURL is where a name that a primary is registered with in Consul is asked:
// drover, drover:8443, drover.service.east.consul, or a URL of it. The machine's
// resolver finds it, which forwards such names to Consul.
func clusterURL(name string) string {
	if name == "" || strings.Contains(name, "://") {
		return name
	}
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		host, port = name, "8000"
	}
	if !strings.Contains(host, ".") {
		host += ".service.consul"
	}
	return "https://" + net.JoinHostPort(host, port)
}

// primary is where to write; the caller has the lock.
func (k *keeper) primary() string {
	if k.view.Role == site.Secondary || k.peer.leads || k.view.Seen > k.view.Database.Epoch {
		return cmp.Or(k.peer.told, k.peer.url)
	}
	return ""
}

func peerClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: askTime, KeepAlive: 15 * time.Second}).DialContext, TLSHandshakeTimeout: askTime,
			MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask hears how the other site stands, and tells it where this one is.
func (k *keeper) ask(ctx context.Context) {
	k.mu.Lock()
	at, token, own := k.peer.url, k.token, k.url
	k.mu.Unlock()
	if at == "" {
		return
	}
	began := time.Now()
	status, err := k.inquire(ctx, at, token, own)
	k.mu.Lock()
	defer k.mu.Unlock()
	if at != k.peer.url {
		return // it has moved
	}
	if err == nil && k.standing.Ledger != "" && status.Ledger != "" && status.Ledger != k.standing.Ledger {
		err = fault.New(fault.Conflict, "it has another ledger, %.64s: this is not the other site of %s", status.Ledger, k.standing.Ledger)
	}
	// A site that was heard to lead and is silent may lead still, and may not: an
	// operator's word decides.
	if k.peer.err = err; err != nil {
		k.peer.leads, k.view.Peer.Leads = false, false
		k.decide()
		return
	}
	k.peer.status, k.peer.at = status, time.Now()
	k.peer.leads = status.State == string(site.Leading)
	k.peer.fresh = began.Add(-time.Duration(status.Age) * time.Millisecond)
	if at := status.URL; at != "" && at != k.peer.told && usable(at) {
		k.peer.told = at
		k.remember()
	}
	if status.State == string(site.Following) && status.Epoch == k.standing.Epoch && status.Epoch > k.followed {
		k.followed = status.Epoch
		k.remember()
	}
	k.view.Peer = site.Peer{Heard: true, Site: status.Site, Epoch: status.Epoch, Leads: k.peer.leads}
	if k.peer.leads { // an epoch that is only on its disk has nobody led in
		k.saw(status.Epoch)
	}
	k.decide()
}

func (k *keeper) inquire(ctx context.Context, at string, token func(context.Context) (string, error), own string) (v1.Site, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var out v1.Site
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(at, "/")+sitePath, nil)
	if err != nil {
		return out, err
	}
	if token != nil && own != "" {
		if bearer, err := token(ctx); err == nil { // it is heard without, too
			req.Header.Set("Authorization", "Bearer "+bearer)
			req.Header.Set(siteHeader, own)
		}
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return out, fault.New(fault.Unavailable, "it does not answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return out, fault.New(fault.Unavailable, "it answered %d: is it a site of Drover?", resp.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&out); err != nil {
		return out, fault.New(fault.Unavailable, "it did not answer as a site does: %w", err)
	}
	return out, nil
}

// answer tells the other site, and whoever asks, how this one stands. Nothing in it is
// worth a token.
func (k *keeper) answer(known func(r *http.Request) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get(siteHeader); from != "" && known != nil && usable(from) && known(r) {
			k.introduced(from)
		}
		s := k.Status()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(v1.Site{Site: s.Site, Role: s.Role, State: s.State, URL: s.URL, Ledger: s.Ledger, Epoch: s.Epoch, Seq: s.Seq, Age: s.Age, Version: s.Version})
	}
}

// introduced notes where the other site is: it has asked, with a token of the ledger.
func (k *keeper) introduced(at string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at == k.url || at == k.peer.told {
		return
	}
	if k.peer.told = at; k.peer.url == "" {
		k.peer.url = at
	}
	k.log.Info("the other site is known", "url", at)
	k.remember()
}

func usable(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil && len(raw) < 512
}

// Mark implements httpapi.Site.
func (k *keeper) Mark(h http.Header) {
	k.mu.Lock()
	defer k.mu.Unlock()
	d := site.Plan(k.view, time.Now())
	if d.State == site.Leading {
		h.Set("Drover-Role", string(site.Primary))
		return
	}
	h.Set("Drover-Role", string(site.Secondary))
	lag := k.lag()
	h.Set("Drover-Lag", strconv.FormatFloat(lag.Seconds(), 'f', 3, 64))
	to := k.primary()
	if to != "" {
		h.Set("Drover-Primary", to)
	}
	if d.State == site.Following {
		h.Set("Drover-Warning", fmt.Sprintf("from the secondary site, at most %.1f s behind the primary %s", lag.Seconds(), to))
	} else {
		h.Set("Drover-Warning", "this site is "+string(d.State)+": "+d.Why)
	}
}
