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

	"github.com/droverhq/drover/api/client"
	"github.com/droverhq/drover/api/client/keypair"
	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/site"
)

const (
	askEach = 500 * time.Millisecond // between questions to the other site
	askTime = 2 * time.Second
	// twinTime is how long a site of the same name counts that does not answer any more:
	// one question that is lost must not let both lead.
	twinTime = 10 * time.Second
	sitePath = "/site"
	// siteHeader is where a site that asks is reached itself; it counts with a token for
	// that, which the sites make from the ledger that they share and which is good for
	// nothing else.
	siteHeader = "Drover-Site"
	errandSite = "site"
)

// peer is the other site, as it was heard of.
type peer struct {
	url    string // where it is asked
	told   string // where it says that others reach it
	status v1.Site
	leads  bool
	at     time.Time // when it answered last
	fresh  time.Time // a moment whose changes it has told of
	twin   time.Time // when it had this site's name last
	err    error
}

func (p *peer) wire(d site.Drain) *v1.PeerSite {
	out := &v1.PeerSite{URL: cmp.Or(p.told, p.url), Site: p.status.Site, State: p.status.State, Epoch: p.status.Epoch, Seq: p.status.Seq}
	if d != (site.Drain{}) {
		out.Drained = &d.At
	}
	if !p.at.IsZero() {
		out.Heard = &p.at
	}
	if p.err != nil {
		out.Error = p.err.Error()
	}
	return out
}

// told is how a site answers the other one: how it stands, and who it is.
type told struct {
	v1.Site
	Process  string `json:"process"`
	Database int64  `json:"database_started,omitempty"` // the PostgreSQL server's start, in microseconds
	Ending   bool   `json:"ending,omitempty"`           // the process is about to
}

// clusterURL is where a name that a primary is registered with in Consul is asked:
// drover, drover:8443, drover.service.east.consul, or a URL of it. port is for names
// that have none; default 8000.
func clusterURL(name, port string) string {
	if name == "" || strings.Contains(name, "://") {
		return name
	}
	host, own, err := net.SplitHostPort(name)
	if err != nil {
		host, own = name, cmp.Or(port, "8000")
	}
	if !strings.Contains(host, ".") {
		host += ".service.consul"
	}
	return "https://" + net.JoinHostPort(host, own)
}

// configured is where the settings say that the other site is. Where --consul finds
// names, the port is the service's own.
func (k *keeper) configured() string {
	port := ""
	if k.needs.names.finder != nil {
		port = "0"
	}
	c := k.cfg
	return k.needs.names.url(cmp.Or(c.PrimaryURL, clusterURL(c.PrimaryCluster, port), c.SecondaryURL))
}

// primary is where to write; the caller has the lock.
func (k *keeper) primary() string {
	if k.view.Role == site.Secondary || k.peer.leads || k.view.Seen > k.view.Database.Epoch {
		return cmp.Or(k.peer.told, k.peer.url)
	}
	return ""
}

// peerClient finds hosts by the machine, or by n where Consul is asked for names. The
// certificates of the options are read anew when they change.
func peerClient(n *names, setting string, set options, policy *resilience.Policy) (*http.Client, error) {
	if err := set.check(setting, "ca", "certificate", "key", "server-name"); err != nil {
		return nil, err
	}
	dial := (&net.Dialer{Timeout: askTime, KeepAlive: 15 * time.Second}).DialContext
	if n != nil && n.finder != nil {
		dial = n.DialContext
	}
	way := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: dial, TLSHandshakeTimeout: askTime,
		MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute,
	}
	files, err := keypair.Open(keypair.Files{CA: set["ca"], Certificate: set["certificate"], Key: set["key"], Name: set["server-name"]})
	if err != nil {
		return nil, fault.New(fault.Invalid, "--%s: %w", setting, err)
	}
	return &http.Client{
		Transport:     siteLine{files.Transport(way), policy},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// ask hears how the other site stands, and tells it where this one is. What is new of that is
// written down at once: the process may end before it looks at the database again.
func (k *keeper) ask(ctx context.Context) {
	k.hear(ctx)
	k.mu.Lock()
	known, writes := k.standing.Heard, k.probe != nil && k.standing.Ledger != "" && !k.standing.Recovering
	k.mu.Unlock()
	if writes {
		ctx, cancel := context.WithTimeout(ctx, lookTime)
		defer cancel()
		k.note(ctx, known)
	}
}

func (k *keeper) hear(ctx context.Context) {
	k.mu.Lock()
	at, token, own := k.peer.url, k.token, k.url
	k.mu.Unlock()
	if at == "" {
		return
	}
	began := time.Now()
	status, err := k.inquire(ctx, at, token, own)
	answered := err == nil
	if answered && k.itself(status) {
		k.client.CloseIdleConnections() // a name may lead elsewhere the next time
		err = fault.New(fault.Conflict, "that is this site itself, or another replica of it: name the other site's address")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if at != k.peer.url {
		return // it has moved
	}
	k.view.Peer.Asked = true
	if answered || time.Since(k.peer.twin) > twinTime { // whoever is there now is looked at anew
		k.view.Peer.Twin = false
	}
	if err == nil && k.standing.Ledger != "" && status.Ledger != "" && status.Ledger != k.standing.Ledger {
		err = fault.New(fault.Conflict, "it has another ledger, %.64s: this is not the other site of %s", status.Ledger, k.standing.Ledger)
	}
	if err == nil && status.Site.Site == k.view.Site && status.Database != 0 && k.standing.Server != 0 && status.Database != k.standing.Server {
		k.view.Peer.Twin, k.peer.twin = true, time.Now()
		err = fault.New(fault.Conflict, "it is called %.64s as this site is, and has a database of its own: start each with another --site", status.Site.Site)
	}
	// A site that was heard to lead and is silent may lead still, and may not: an
	// operator's word decides.
	if k.peer.err = err; err != nil {
		k.peer.leads, k.view.Peer.Leads = false, false
		k.decide()
		return
	}
	k.peer.status, k.peer.at = status.Site, time.Now()
	k.peer.leads = status.State == string(site.Leading)
	k.peer.fresh = began.Add(-time.Duration(status.Age) * time.Millisecond)
	if at := status.URL; at != "" && at != k.peer.told && k.believable(at) {
		k.peer.told, k.moved = at, true
		k.remember()
	}
	if status.State == string(site.Following) && status.Epoch == k.standing.Epoch && status.Epoch > k.followed {
		k.followed = status.Epoch
		k.remember()
	}
	// One that has no ledger yet cannot say that it has not led in a later epoch.
	heard := k.view.Peer.Heard || status.Ledger != "" || k.standing.Ledger == ""
	k.view.Peer = site.Peer{Heard: heard, Asked: true, Site: status.Site.Site, Epoch: status.Epoch, Leads: k.peer.leads}
	if k.peer.leads { // an epoch that is only on its disk has nobody led in
		k.saw(status.Epoch)
	}
	if k.peer.leads && !status.Ending {
		k.hears(k.drained.Works(began))
	}
	k.decide()
}

func (k *keeper) inquire(ctx context.Context, at string, token func(ctx context.Context, own string) (string, error), own string) (told, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var out told
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(at, "/")+sitePath, nil)
	if err != nil {
		return out, err
	}
	if token != nil && own != "" {
		if bearer, err := token(ctx, own); err == nil { // it is heard without, too
			req.Header.Set("Authorization", "Bearer "+bearer)
			req.Header.Set(siteHeader, own)
		}
	}
	resp, err := k.client.Do(req)
	if err != nil {
		k.client.CloseIdleConnections() // one that hangs would have the next question hang
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

// itself tells whether an answer is this process's own, or that of another replica of
// this site: one in the same part, on the same database.
func (k *keeper) itself(s told) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.Process == k.self || s.Database != 0 && s.Database == k.standing.Server && s.Role == string(k.view.Role)
}

// answer tells the other site, and whoever asks, how this one stands. Nothing in it is
// worth a token.
func (k *keeper) answer(known func(ctx context.Context, token, from string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get(siteHeader); from != "" && known != nil && usable(from) {
			if _, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); known(r.Context(), token, from) == nil {
				k.introduced(from)
			}
		}
		s := k.Status()
		k.mu.Lock()
		server, ending := k.standing.Server, k.ending
		k.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(told{
			Site:    v1.Site{Site: s.Site, Role: s.Role, State: s.State, URL: s.URL, Ledger: s.Ledger, Epoch: s.Epoch, Seq: s.Seq, Age: s.Age, Version: s.Version},
			Process: k.self, Database: server, Ending: ending,
		})
	}
}

// introduced notes where the other site is: it has asked, with a token of the ledger.
func (k *keeper) introduced(at string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if at == k.url || at == k.peer.told || !k.believable(at) {
		return
	}
	if k.peer.told, k.moved = at, true; !k.named {
		k.peer.url = at // also where it has moved
	}
	k.log.Info("the other site is known", "url", at)
	k.remember()
}

// believable tells whether the other site can be where it says, and may be asked there;
// the caller has the lock.
func (k *keeper) believable(at string) bool {
	if usable(at) && k.safe(at) && (!loopback(at) || loopback(k.url)) {
		return true
	}
	if k.refused != at {
		k.refused = at
		k.log.Warn("the other site says that it is reached where this one cannot or may not go: start it with --public-url https://...", "url", at)
	}
	return false
}

// safe tells whether what is said there, a token among it, cannot be read on the way, or
// may be.
func (k *keeper) safe(at string) bool {
	u, err := url.Parse(at)
	return err == nil && (u.Scheme != "http" || CheckPlaintext(k.cfg.Plaintext, PlaceServer, u.Hostname(), "") == nil)
}

func loopback(at string) bool {
	u, err := url.Parse(at)
	return err == nil && client.Loopback(u.Hostname())
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
