package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
)

const (
	// breath is the least time between two messages to one agent. It grows
	// with the message, so that a large fleet does not spend itself on
	// repeating its state.
	breath = 20 * time.Millisecond
	// breathBytes is how many bytes of a message lengthen the breath by a second.
	breathBytes = 32 << 20
)

// maxReport bounds an agent's report: after a long silence it tells everything
// that a large cluster holds.
const maxReport = 32 << 20

// bodyLimit is how large the body of a request may be. Reports are read only
// after it is known that their cluster's agent sends them.
func (s *server) bodyLimit(path string) int64 {
	if strings.HasSuffix(path, "/observed") || strings.Contains(path, "/agent-clusters/") {
		return max(s.MaxBody, maxReport)
	}
	return s.MaxBody
}

func (o *own) routesAgent() {
	o.desired = newDesiredHub(o.Ledger, o.Feed)
	tags := []string{"agents"}
	id := pathParam("id", "Id of the cluster")
	o.raw(huma.Operation{
		OperationID: "stream-desired", Method: http.MethodGet, Path: "/api/v1/clusters/{id}/desired", Tags: tags,
		Summary: "The full desired state of a cluster, whenever it changes, as server-sent events",
		Description: "Each event is named desired and its data is one complete message. An item whose body was sent on this connection comes without it. " +
			"An item that is not listed is left alone: only delete asks for a removal.",
		Parameters: []*huma.Param{id, queryParam("agent", "The agent process that reads, as in its reports", "string"),
			queryParam("installation", "The agent's installation, as in its reports; another one than the cluster's is refused", "string")},
		Responses: map[string]*huma.Response{"200": {Description: "A stream of desired states", Content: o.content("text/event-stream", v1.Desired{})}},
	}, o.streamDesired)
	o.raw(huma.Operation{
		OperationID: "put-observed", Method: http.MethodPut, Path: "/api/v1/clusters/{id}/observed", Tags: tags,
		Summary:     "What an agent observes of its cluster",
		Description: "What is left out changes nothing. An item that makes no sense is refused alone; the others count.",
		Parameters:  []*huma.Param{id},
		RequestBody: &huma.RequestBody{Required: true, Content: o.content("application/json", v1.Report{})},
		Responses:   map[string]*huma.Response{"200": {Description: "The report was taken", Content: o.content("application/json", v1.Acknowledged{})}},
	}, o.putObserved)
	o.raw(huma.Operation{
		OperationID: "create-agent-credentials", Method: http.MethodPost, Path: "/api/v1/clusters/{id}/credentials", Tags: []string{"operator"},
		Summary:     "What a cluster's agent logs in with at the identity provider; operators only",
		Description: "For agents that speak the fleet managers' protocol. The account is made where it is not there. The call is on record.",
		Parameters:  []*huma.Param{id},
		Responses:   map[string]*huma.Response{"200": {Description: "The account", Content: o.content("application/json", v1.AgentCredentials{})}},
	}, o.agentCredentials)
}

// presence counts the streams of every agent process, so that the end of the
// last one is known as the end of the process.
type presence struct {
	mu    sync.Mutex
	count map[[2]string]int
}

func (p *presence) come(cluster, agent string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count == nil {
		p.count = map[[2]string]int{}
	}
	p.count[[2]string{cluster, agent}]++
}

// leave reports whether that was the agent's last stream.
func (p *presence) leave(cluster, agent string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]string{cluster, agent}
	if p.count[key]--; p.count[key] > 0 {
		return false
	}
	delete(p.count, key)
	return true
}

var identityText = regexp.MustCompile(`^[-_.A-Za-z0-9]{0,128}$`)

const badIdentity = "an installation is at most 128 letters, digits, dots, dashes and underscores"

// identity reports whether a text may name an installation, or none.
func identity(text string) bool { return identityText.MatchString(text) }

// streamDesired tells an agent what its cluster must be.
func (o *own) streamDesired(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), r.PathValue("id")
	agent, installation := r.URL.Query().Get("agent"), r.URL.Query().Get("installation")
	if err := o.speaksFor(ctx, id); err != nil {
		o.fail(w, r, err)
		return
	}
	if len(agent) > 128 || !utf8.ValidString(agent) {
		o.fail(w, r, fault.New(fault.Invalid, "agent is plain text of at most 128 bytes").Because("list"))
		return
	}
	if !identity(installation) || agent == "" && installation != "" {
		o.fail(w, r, fault.New(fault.Invalid, badIdentity+", and comes with an agent").Because("list"))
		return
	}
	if agent != "" {
		if err := o.Clusters.Admit(ctx, id, cluster.Caller{Agent: agent, Installation: installation}); err != nil {
			o.fail(w, r, err)
			return
		}
		o.present.come(id, agent)
		defer func() {
			if o.present.leave(id, agent) {
				o.Clusters.Leave(id, agent)
			}
		}()
	}
	head, err := o.Ledger.Head(ctx)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	set, err := o.desired.join(ctx, id)
	if err != nil {
		o.fail(w, r, err)
		return
	}
	defer o.desired.leave(set)
	st, err := o.openStream(w, r)
	if err != nil {
		return
	}
	checked := time.Now()
	t := teller{hub: o.desired, set: set, head: head, st: st, sent: map[string]string{}, reveal: o.reveal}
	for err == nil {
		if err = t.step(ctx); err == nil {
			err = o.alive(ctx, st, r)
		}
		if err == nil && agent != "" && time.Since(checked) >= st.beat {
			checked = time.Now()
			o.Clusters.Alive(id, agent)
			if lost := o.Clusters.Belongs(ctx, id, installation); fault.Is(lost, fault.Conflict) {
				err = lost
			}
		}
	}
	// The agent has gone or does not read: it keeps what it has, and is told
	// everything when it comes back.
}

// teller is one connection to an agent.
type teller struct {
	hub  *desiredHub
	set  *desiredSet
	head ledger.Head
	st   *stream

	// reveal returns an item's body with its secrets.
	reveal func(ctx context.Context, it *desiredItem) ([]byte, error)

	sent   map[string]string // bodies that the agent has, by item
	digest string            // of the last message; empty before the first
	next   time.Time         // the earliest time of the next message
}

// step sends the state if it is news, and waits for a change no longer than a
// heartbeat.
func (t *teller) step(ctx context.Context) error {
	items, seq, whole, changed, err := t.hub.snapshot(t.set)
	if err != nil {
		return err
	}
	if whole {
		if wait := time.Until(t.next); wait > 0 { // more may change while the last message is digested
			if err := pause(ctx, wait); err != nil {
				return err
			}
			items, seq, _, changed, err = t.hub.snapshot(t.set)
			if err != nil {
				return err
			}
		}
		if err := t.tell(ctx, items, seq); err != nil {
			return err
		}
	}
	timer := time.NewTimer(t.st.quiet())
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-timer.C:
	}
	return nil
}

func (t *teller) tell(ctx context.Context, items []*desiredItem, seq int64) error {
	digest := digestOf(items)
	if digest == t.digest {
		return nil
	}
	items, filled := t.fill(ctx, items)
	if digest = digestOf(items); digest == t.digest {
		return nil // what is new cannot be told yet
	}
	msg := encodeDesired(v1.Desired{Ledger: t.head.Ledger, Epoch: t.head.Epoch, Seq: seq, Digest: digest}, items, t.sent, filled)
	t.st.event("desired", strconv.FormatInt(seq, 10), msg)
	if err := t.st.flush(); err != nil {
		return err
	}
	t.digest = digest
	t.next = time.Now().Add(breath + time.Duration(len(msg))*time.Second/breathBytes)
	return nil
}

// fill puts secrets into the bodies that are to be sent. An item whose secrets
// cannot be had is left out until they can: the agent leaves alone what is not
// listed, and the other items need not wait.
func (t *teller) fill(ctx context.Context, items []*desiredItem) ([]*desiredItem, map[string][]byte) {
	filled, out := map[string][]byte{}, make([]*desiredItem, 0, len(items))
	for _, it := range items {
		if it.secret && !it.Delete && t.sent[it.ID] != it.Digest { // a removal needs no secrets
			body, err := t.reveal(ctx, it)
			if err != nil {
				continue
			}
			filled[it.ID] = body
		}
		out = append(out, it)
	}
	return out, filled
}

// reveal puts the secrets of an instance into its body, for its agent alone.
func (o *own) reveal(ctx context.Context, it *desiredItem) ([]byte, error) {
	object, err := o.Ledger.Get(ctx, ledger.Ref{Kind: instance.Kind.Name, ID: it.ID})
	var body json.RawMessage
	if err == nil {
		body, err = o.Instances.Reveal(ctx, object, it.Body)
	}
	if err != nil {
		o.Log.WarnContext(ctx, "cannot fill the secrets of an instance in; its agent is not told of it", "instance", it.ID, "error", err)
		return nil, err
	}
	var compact bytes.Buffer // no line break may end an event early
	err = json.Compact(&compact, body)
	return compact.Bytes(), err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// looseReport is a report whose items are looked at one by one.
type looseReport struct {
	v1.Report
	Items []json.RawMessage `json:"items"`
}

// putObserved takes an agent's report. The ledger's truth is guarded by
// versions, generations and placings; what is checked here keeps agents that
// are mixed up from being listened to at all.
func (o *own) putObserved(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), r.PathValue("id")
	if err := o.speaksFor(ctx, id); err != nil {
		o.fail(w, r, err)
		return
	}
	data, err := io.ReadAll(r.Body)
	if err != nil {
		o.fail(w, r, unreadable(err))
		return
	}
	var report looseReport
	if !utf8.Valid(data) || json.Unmarshal(data, &report) != nil {
		o.fail(w, r, fault.New(fault.Invalid, "the body is not a report").Because("body"))
		return
	}
	if !identity(report.Installation) {
		o.fail(w, r, fault.New(fault.Invalid, badIdentity).Because("body"))
		return
	}
	head, err := o.Ledger.Head(ctx)
	if err == nil {
		err = epochFits(report.Epoch, report.Seq, head)
	}
	if err != nil {
		o.fail(w, r, err)
		return
	}
	ctx = ledger.WithCause(ctx, ledger.ByReport(id, strconv.FormatInt(report.Number, 10)))
	err = o.Clusters.Report(ctx, id, cluster.Report{
		Agent: report.Agent, Installation: report.Installation, Number: report.Number, Ready: report.Ready, Capacity: report.Capacity,
	})
	if err == nil {
		err = o.observe(ctx, id, report.Items)
	}
	if err != nil {
		o.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, v1.Acknowledged{Epoch: head.Epoch, Seq: head.Seq})
}

// epochFits refuses a report that speaks of another life of the ledger, or of a
// state that this ledger has not reached.
func epochFits(epoch, seq int64, head ledger.Head) error {
	switch {
	case epoch < head.Epoch:
		return fault.New(fault.Conflict, "the report is of epoch %d, the ledger is in %d: connect again for the present desired state", epoch, head.Epoch).Because("epoch")
	case epoch > head.Epoch:
		return fault.New(fault.Conflict, "the report is of epoch %d, this ledger is in %d: it may be an old copy, and the agent must not follow it", epoch, head.Epoch).Because("epoch")
	case seq > head.Seq:
		return fault.New(fault.Conflict, "the report is of sequence %d, the ledger ends at %d: it may have been restored without a new epoch", seq, head.Seq).Because("epoch")
	}
	return nil
}

// observe hands what can be read of the items to the instances; what cannot is
// logged and harms nothing.
func (s *server) observe(ctx context.Context, clusterID string, items []json.RawMessage) error {
	seen := make([]instance.Observation, 0, len(items))
	garbage := 0
	for _, raw := range items {
		var it v1.ObservedItem
		if json.Unmarshal(raw, &it) != nil || it.ID == "" || len(it.ID) > ledger.MaxText {
			garbage++
			continue
		}
		seen = append(seen, instance.Observation{
			ID: it.ID, Generation: it.Generation, State: it.State, Message: it.Message, Versions: it.Versions,
		})
	}
	refused, err := s.Instances.Report(ctx, clusterID, seen)
	s.logRefused(ctx, clusterID, garbage, refused)
	return err
}

// logRefused tells how many items of a report could not be read, and which ones
// were not taken.
func (s *server) logRefused(ctx context.Context, clusterID string, garbage int, refused []string) {
	if garbage > 0 || len(refused) > 0 {
		s.Log.WarnContext(ctx, "items of a report were refused", "cluster", clusterID, "request", traceOf(ctx).id,
			"garbage", garbage, "refused", len(refused), "first", refused[:min(len(refused), 5)])
	}
}
