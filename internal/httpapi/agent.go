package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// maxReport bounds an agent's message: after a long silence it tells everything
// that a large cluster holds.
const maxReport = 32 << 20

// bodyLimit is how large the body of a request may be. Agents' messages are read
// only after it is known that their cluster's agent sends them.
func (s *server) bodyLimit(path string) int64 {
	if strings.HasPrefix(path, "/api/v1/clusters/") && strings.HasSuffix(path, "/sync") || strings.Contains(path, "/agent-clusters/") {
		return max(s.MaxBody, maxReport)
	}
	if strings.HasPrefix(path, statePrefix) {
		return max(s.MaxBody, maxState)
	}
	return s.MaxBody
}

func (o *own) routesAgent() {
	o.agents, o.turns = newHub(o.Config), newTurns(o.Admissions)
	if o.Begin != nil {
		go func() { // ends when the index is begun, or the server ends before
			select {
			case <-o.Begin:
				o.agents.start(o.Ending)
			case <-o.Ending.Done():
			}
		}()
	}
	id := pathParam("id", "Id of the cluster")
	o.raw(huma.Operation{
		OperationID: "sync-cluster", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/sync", Tags: []string{"agents"},
		Summary: "What a cluster's agent was told and observes, and what it is to know",
		Description: "Both sides compare digest trees; only what differs travels. What is left out changes nothing: only delete asks for a removal. " +
			"With wait the answer is held until there is news, at most for an interval. A refusal says why in the header " + reasonHeader + ".",
		Parameters:  []*huma.Param{id},
		RequestBody: &huma.RequestBody{Required: true, Content: o.content("application/json", v1.Sync{})},
		Responses:   map[string]*huma.Response{"200": {Description: "What differs", Content: o.content("application/json", v1.Synced{})}},
	}, o.sync)
	o.raw(huma.Operation{
		OperationID: "create-agent-credentials", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/credentials", Tags: []string{"operator"},
		Summary:     "What a cluster's agent logs in with at the identity provider; operators only",
		Description: "For agents that speak the fleet managers' protocol. The account is made where it is not there. The call is on record.",
		Parameters:  []*huma.Param{id},
		Responses:   map[string]*huma.Response{"200": {Description: "The account", Content: o.content("application/json", v1.AgentCredentials{})}},
	}, o.agentCredentials)
}

var identityText = regexp.MustCompile(`^[-_.A-Za-z0-9]{0,128}$`)

const badIdentity = "an installation is at most 128 letters, digits, dots, dashes and underscores"

// identity reports whether a text may name an installation, or none.
func identity(text string) bool { return identityText.MatchString(text) }

// reasonHeader tells an agent why it is refused in a word: protocol, agent,
// late, epoch.
const reasonHeader = "Drover-Reason"

// decline answers an agent with an error.
func (o *own) decline(w http.ResponseWriter, r *http.Request, err error) {
	if reason := fault.Reason(err); reason != "" && fault.Is(err, fault.Conflict) {
		w.Header().Set(reasonHeader, reason)
	}
	o.fail(w, r, err)
}

// sync takes an agent's message. The ledger's truth is guarded by versions,
// generations and placings; what is checked here keeps agents that are mixed up
// from being listened to at all.
func (o *own) sync(w http.ResponseWriter, r *http.Request) {
	o.agents.start(o.Ending)
	p, err := o.speaks(r.Context(), r.PathValue("id"))
	var req looseSync
	if err == nil {
		err = req.read(r)
	}
	if err != nil {
		o.refuse(w, r, p, err)
		return
	}
	x := &exchange{own: o, id: p.id, p: p, req: &req.Sync}
	if !o.agents.await(r.Context(), func() { o.streaming(w, r) }) {
		o.later(w, r, loadRetry+rand.N(loadRetry), "the server is getting ready")
		return
	}
	x.head, _ = o.agents.ready()
	if err = x.fits(r.Context()); err == nil {
		err = x.wanted()
	}
	if err == nil {
		if wait := x.turn(); wait > 0 && !x.stay(w, r, wait) {
			o.later(w, r, wait, "too many agents come at once")
			return
		}
		err = x.take(r.Context(), req.Items)
	}
	if err == nil {
		x.renew(r)
		err = x.respond(w, r)
	}
	if err != nil {
		if hungUp(r.Context()) {
			x.gone()
		}
		o.refuse(w, r, p, err)
	}
}

// refuse declines a message, and has the cluster say why where this will not pass
// by itself; p is nil where the caller is nobody's agent.
func (o *own) refuse(w http.ResponseWriter, r *http.Request, p *plane, err error) {
	if reason := fault.Reason(err); p != nil && fault.Is(err, fault.Conflict) && (reason == "protocol" || reason == "epoch") {
		_ = o.Clusters.Refused(r.Context(), p.id, "its agent is refused: "+err.Error()) // the agent comes again, and it is tried again
	}
	o.decline(w, r, err)
}

const (
	// loadHold is how long an agent that came too early is kept waiting for the
	// index. Most are loaded by then, and it need not ask twice.
	loadHold = 4 * time.Second
	// loadRetry is when agents that came even earlier come again, at least.
	loadRetry = 2 * time.Second
	// turnHold is how long an agent is kept waiting for its turn. It is well
	// within the time that agents wait for an answer.
	turnHold = 8 * time.Second
)

// stay waits for an agent's turn if that is not far away; false: it is.
func (x *exchange) stay(w http.ResponseWriter, r *http.Request, wait time.Duration) bool {
	if wait > turnHold {
		return false
	}
	x.streaming(w, r)
	_ = pause(r.Context(), wait)
	return x.turn() == 0
}

// later sends an agent away for a while.
func (o *own) later(w http.ResponseWriter, r *http.Request, wait time.Duration, why string) {
	w.Header().Set("Retry-After", strconv.Itoa(retryAfter(wait)))
	o.fail(w, r, fault.New(fault.Unavailable, "%s; try again", why))
	traceOf(r.Context()).err = nil // it is nobody's fault, and there may be thousands
}

// speaks returns the cluster if the caller is its agent, or an operator. The
// ledger is asked only about what the index does not know (yet).
func (o *own) speaks(ctx context.Context, id string) (*plane, error) {
	who, h := access.From(ctx), o.agents
	h.mu.Lock()
	p := h.planes[id]
	known := p != nil && p.known && h.need >= 0
	may := known && (who.Admin || who.Cluster == id && goodSince(who, p.anew) || p.client != "" && p.client == who.Client && o.accountOfAgent(who))
	h.mu.Unlock()
	if may && (who.Admin || o.certified(ctx, id) == nil) {
		return p, nil
	}
	if err := o.speaksFor(ctx, id); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.plane(id), nil
}

// looseSync is a message whose items are looked at one by one.
type looseSync struct {
	v1.Sync
	Items []json.RawMessage `json:"items"`
}

func (q *looseSync) read(r *http.Request) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return unreadable(err)
	}
	var version struct {
		Protocol int `json:"protocol"`
	}
	bad := fault.New(fault.Invalid, "the body is not what an agent says").Because("body")
	if !utf8.Valid(data) || json.Unmarshal(data, &version) != nil {
		return bad
	}
	if err := speakable(version.Protocol, v1.Protocol); err != nil {
		return err // whatever else it says may mean something else
	}
	if json.Unmarshal(data, q) != nil {
		return bad
	}
	if q.Agent == "" || len(q.Agent) > 128 {
		return fault.New(fault.Invalid, "a message names its agent process in at most 128 bytes").Because("body")
	}
	if !identity(q.Installation) {
		return fault.New(fault.Invalid, badIdentity).Because("body")
	}
	if q.Capacity < 0 || q.Number < 0 || q.Seq < 0 {
		return fault.New(fault.Invalid, "neither number, sequence nor capacity is negative").Because("body")
	}
	q.Bodies = q.Bodies[:min(len(q.Bodies), maxAsked)]
	// It is remembered for as long as the agent says the same.
	q.Message = strings.Clone(strings.ToValidUTF8(q.Message[:min(len(q.Message), maxSaying)], ""))
	return nil
}

// maxSaying bounds what an agent says of itself, in bytes.
const maxSaying = 1024

// speakable refuses agents that are too old. Newer ones speak to us as we are.
func speakable(theirs, ours int) error {
	if theirs >= ours-1 {
		return nil
	}
	return fault.New(fault.Conflict, "the agent speaks protocol %d, this control plane speaks %d and %d: upgrade the agent to this control plane's version, `drover cluster join` prints how; what runs keeps running",
		theirs, ours-1, ours).Because("protocol")
}

// fits refuses a message that speaks of another ledger, of a life of it that is
// yet to come, or of a state that it has not reached.
func (x *exchange) fits(ctx context.Context) error {
	q := x.req
	if q.Ledger != "" && q.Ledger != x.head.Ledger {
		return fault.New(fault.Conflict, "the agent follows ledger %.64s, this control plane has %s: it is another one, and the agent must not follow it", q.Ledger, x.head.Ledger).Because("epoch")
	}
	if q.Epoch > x.head.Epoch {
		x.saw(q.Epoch)
		return fault.New(fault.Conflict, "the agent has followed epoch %d, this ledger is in %d: it may be an old copy, and the agent must not follow it", q.Epoch, x.head.Epoch).Because("epoch")
	}
	if x.fresh = q.Ledger == "" || q.Epoch < x.head.Epoch; x.fresh || q.Seq <= x.head.Seq {
		return nil
	}
	head, err := x.Ledger.Head(ctx)
	if err != nil {
		return err
	}
	if q.Seq > head.Seq {
		return fault.New(fault.Conflict, "the agent was told of sequence %d, the ledger ends at %d: it was restored without a new epoch; start the server with --epoch %d, and the agent follows", q.Seq, head.Seq, head.Epoch+1).Because("epoch")
	}
	// Another replica told the agent: this one must not tell it less.
	return x.agents.reach(ctx, q.Seq)
}

// wanted refuses the agent of a cluster that was given up as lost, once it has
// removed what was deleted meanwhile.
func (x *exchange) wanted() error {
	x.agents.mu.Lock()
	defer x.agents.mu.Unlock()
	if x.p.abandoned == "" || !x.p.empty() {
		return nil
	}
	return cluster.Returned(x.id, x.p.abandoned)
}

// turn returns how long an agent that is new here has to wait.
func (x *exchange) turn() time.Duration {
	if x.Clusters.Knows(x.id, x.req.Agent) {
		return 0
	}
	return x.turns.take(x.id, x.Clock())
}

// take takes what the agent says of its cluster and of the items in it. Messages
// are taken one by one; one that is overtaken before its turn comes late.
func (x *exchange) take(ctx context.Context, items []json.RawMessage) error {
	done, err := x.p.turn(ctx)
	if err != nil {
		return err
	}
	defer done()
	q := x.req
	ctx = ledger.WithCause(ctx, ledger.ByReport(x.id, strconv.FormatInt(q.Number, 10)))
	if err := x.report(ctx); err != nil {
		return err
	}
	h := x.agents
	h.mu.Lock()
	x.p.agent, x.p.latest = q.Agent, q.Number
	x.p.announce() // an older message of it need not be held any more
	h.mu.Unlock()
	if x.fresh && q.Ledger != "" {
		return nil // what it observes is of another life, with other generations
	}
	said, err := x.observe(ctx, x.id, items)
	if err != nil {
		return err
	}
	if (said.garbage > 0 || len(said.refused) > 0) && x.grumble(x.p) {
		x.logRefused(ctx, x.id, said.garbage, said.refused)
	}
	ask, strays, news := h.settle(x.p, &q.Observed, said, x.Clock())
	x.ask = ask
	if news {
		return x.Clusters.Strays(ctx, x.id, strays)
	}
	return nil
}

// report takes what the agent says of the cluster itself. If that is what it
// said before, the ledger need not be looked at.
func (x *exchange) report(ctx context.Context) error {
	q := x.req
	report := cluster.Report{
		Agent: q.Agent, Installation: q.Installation, Number: q.Number, Ready: q.Ready, Capacity: q.Capacity,
		Told: &cluster.Told{Protocol: q.Protocol, Version: q.Version, Message: q.Message},
	}
	if q.Platform != nil {
		report.Told.Platform = cluster.Platform(*q.Platform)
	}
	if len(q.Units) > 0 {
		report.Told.Units = make(map[string]cluster.Units, len(q.Units))
		for name, u := range q.Units {
			report.Told.Units[name] = cluster.Units(u)
		}
	}
	x.agents.mu.Lock()
	version := x.p.version
	x.agents.mu.Unlock()
	if x.Clusters.Heartbeat(x.id, report, version) {
		return nil
	}
	if !x.Clusters.Knows(x.id, q.Agent) {
		// The index may not have heard yet that the cluster is another one of its name.
		if err := x.speaksFor(ctx, x.id); err != nil {
			return err
		}
		if err := x.Clusters.Admit(ctx, x.id, cluster.Caller{Agent: q.Agent, Installation: q.Installation}); err != nil {
			return err
		}
	}
	return x.Clusters.Report(ctx, x.id, report)
}

// logRefused tells how many items of a report could not be read, and which ones
// were not taken.
func (s *server) logRefused(ctx context.Context, clusterID string, garbage int, refused []string) {
	if garbage > 0 || len(refused) > 0 {
		s.Log.WarnContext(ctx, "items of a report were refused", "cluster", clusterID, "request", traceOf(ctx).id,
			"garbage", garbage, "refused", len(refused), "first", refused[:min(len(refused), 5)])
	}
}
