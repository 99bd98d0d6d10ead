package httpapi

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// outsideAgent stands for agents that speak the fleet managers' protocol, which
// knows neither processes, installations nor numbers: they are one agent of one
// installation, so a cluster of theirs is refused to Drover's own agents and the
// other way round, but two of theirs cannot be told apart.
const outsideAgent = "outside"

// outsideCapacity is what an outside agent's cluster can hold if nobody says:
// the protocol has no word for it, so the agent refuses what does not fit.
const outsideCapacity = 1_000_000

// compatAgent serves an offering's API for outside agents. rest is the path
// after agent-clusters/.
func (s *server) compatAgent(w http.ResponseWriter, r *http.Request, off *offering.Offering, rest []string) {
	who := access.From(r.Context())
	if len(rest) == 0 || !who.Admin && (who.Cluster == "" || who.Cluster != rest[0]) {
		s.fail(w, r, nothingAt(r))
		return
	}
	object, err := s.Clusters.Get(r.Context(), rest[0])
	if fault.Is(err, fault.NotFound) {
		err = fault.New(fault.Invalid, "cluster %.64q is not registered", rest[0])
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	plural, method := off.Spec.Names.Plural, r.Method
	var serve func(http.ResponseWriter, *http.Request, *offering.Offering, ledger.Object) error
	allow := http.MethodGet
	switch {
	case len(rest) == 1:
		serve = s.outsideConfig
	case len(rest) == 2 && rest[1] == "status":
		serve, allow = s.outsideCluster, http.MethodPut
	case len(rest) == 2 && rest[1] == plural:
		serve = s.outsideDesired
	case len(rest) == 3 && rest[1] == plural && rest[2] == "status":
		serve, allow = s.outsideObserved, http.MethodPut
	default:
		s.fail(w, r, nothingAt(r))
		return
	}
	if method != allow {
		w.Header().Set("Allow", allow)
		s.fail(w, r, fault.New(fault.Invalid, "%.16s is not possible here", method).Because("method"))
		return
	}
	if !who.Admin { // an operator may look without being the agent
		err = s.Clusters.Admit(r.Context(), object.ID, cluster.Caller{Agent: outsideAgent, Installation: outsideAgent, Polls: true})
	}
	if err == nil {
		err = serve(w, r, off, object)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// outsideConfig tells an agent how to behave; there is nothing to tell yet.
func (s *server) outsideConfig(w http.ResponseWriter, _ *http.Request, _ *offering.Offering, _ ledger.Object) error {
	writeJSON(w, http.StatusOK, map[string]any{"spec": map[string]any{
		"observability": map[string]any{"accessToken": nil, "channel": "", "repository": "", "tag": ""},
	}})
	return nil
}

type condition struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Status  string `json:"status"`
}

// readiness returns the condition that all others serve.
func readiness(of []condition) (condition, bool) {
	at := slices.IndexFunc(of, func(c condition) bool { return c.Type == "Ready" })
	if at < 0 {
		return condition{}, false
	}
	return of[at], true
}

func (s *server) outsideCluster(w http.ResponseWriter, r *http.Request, _ *offering.Offering, object ledger.Object) error {
	var status struct {
		Conditions []condition `json:"conditions"`
		Capacity   map[string]struct {
			MaxUnits int64 `json:"maxUnits"`
		} `json:"capacity"`
	}
	if err := readReport(r, &status); err != nil {
		return err
	}
	var known cluster.Status
	if len(object.Status) > 0 {
		if err := json.Unmarshal(object.Status, &known); err != nil {
			return err
		}
	}
	report := cluster.Report{Agent: outsideAgent, Installation: outsideAgent, Unnumbered: true, Capacity: known.Capacity}
	if len(status.Capacity) > 0 {
		report.Capacity = 0
		for _, c := range status.Capacity {
			report.Capacity += max(c.MaxUnits, 0)
		}
	} else if report.Capacity == 0 {
		report.Capacity = outsideCapacity
	}
	ready, told := readiness(status.Conditions)
	report.Ready = ready.Status == "True" || !told && object.Phase == cluster.Ready
	ctx := ledger.WithCause(r.Context(), ledger.ByReport(object.ID, traceOf(r.Context()).id))
	if err := s.Clusters.Report(ctx, object.ID, report); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// observedState maps the Ready condition to the state that package runtime
// names; false if it says nothing yet.
func observedState(of []condition) (state, message string, ok bool) {
	c, _ := readiness(of)
	switch {
	case c.Reason == "Suspended":
		return "suspended", "", true
	case c.Status == "True":
		return "ready", "", true
	case c.Status == "Unknown":
		return "", "", false
	case c.Reason == "Deleted":
		return "deleted", "", true
	case c.Reason == "Error":
		return "error", c.Message, true
	case c.Reason == "Rejected":
		return "rejected", c.Message, true
	}
	return "installing", c.Message, true
}

// outsideObserved takes what an outside agent says of its instances. It does
// not say which generation it speaks of, so the one that this replica has given
// it last is taken. Without a memory of that (the list was asked of another
// replica, or long ago) the generation that is rendered now is assumed, which
// may be one that the agent has not seen yet. Single items that make no sense
// are logged, and the call succeeds.
func (s *server) outsideObserved(w http.ResponseWriter, r *http.Request, off *offering.Offering, object ledger.Object) error {
	var items map[string]json.RawMessage
	if err := readReport(r, &items); err != nil {
		return err
	}
	ctx := ledger.WithCause(r.Context(), ledger.ByReport(object.ID, traceOf(r.Context()).id))
	given, err := s.given(r, off, object.ID)
	if err != nil {
		return err
	}
	served := s.served.recall(object.ID, off.Metadata.Name, s.Clock())
	var seen []instance.Observation
	var bad []string
	for _, id := range slices.Sorted(maps.Keys(items)) {
		var it struct {
			Conditions []condition       `json:"conditions"`
			Versions   map[string]string `json:"versions"`
		}
		want, known := given[id]
		if !known || json.Unmarshal(items[id], &it) != nil {
			bad = append(bad, id)
			continue
		}
		generation := want.Generation
		if last, ok := served[id]; ok {
			generation = min(generation, last)
		}
		state, message, ok := observedState(it.Conditions)
		if ok {
			seen = append(seen, instance.Observation{
				ID: id, Generation: generation, State: state, Message: message, Versions: it.Versions,
			})
		}
	}
	refused, err := s.Instances.Report(ctx, object.ID, seen)
	s.logRefused(ctx, object.ID, 0, append(bad, refused...))
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// given lists what the cluster's agent has been told to have of an offering.
func (s *server) given(r *http.Request, off *offering.Offering, clusterID string) (map[string]instance.Item, error) {
	out := map[string]instance.Item{}
	after := ""
	for {
		objects, err := s.Ledger.List(r.Context(), ledger.Query{
			Kind: instance.Kind.Name, AfterID: after, Limit: desiredPage,
			Scope: map[string]any{"cluster": clusterID, "offering": off.Metadata.Name},
		})
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if item, ok := instance.DesiredItem(object); ok {
				out[item.ID] = item
			}
		}
		if len(objects) < desiredPage {
			return out, nil
		}
		after = objects[len(objects)-1].ID
	}
}

// outsideDesired lists the full desired state, as it is stored.
func (s *server) outsideDesired(w http.ResponseWriter, r *http.Request, off *offering.Offering, object ledger.Object) error {
	given, err := s.given(r, off, object.ID)
	if err != nil {
		return err
	}
	kind := "Managed" + off.Spec.Names.Kind
	items := make([]map[string]any, 0, len(given))
	generations := make(map[string]int64, len(given))
	for _, id := range slices.Sorted(maps.Keys(given)) {
		item := given[id]
		generations[id] = item.Generation
		document := map[string]any{}
		if err := json.Unmarshal(item.Body, &document); err != nil {
			return err
		}
		document["id"], document["kind"] = id, kind
		spec, ok := document["spec"].(map[string]any)
		if !ok {
			spec = map[string]any{}
			document["spec"] = spec
		}
		spec["deleted"] = item.Delete // the document may have been rendered before the wish
		items = append(items, document)
	}
	if !access.From(r.Context()).Admin { // what an operator looks at is not given to the agent
		s.served.remember(object.ID, off.Metadata.Name, generations, s.Clock())
	}
	writeJSON(w, http.StatusOK, map[string]any{"kind": kind + "List", "items": items})
	return nil
}

// readReport reads a body of an agent, whose unknown fields are no mistake:
// agents are older and newer than the server.
func readReport(r *http.Request, into any) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return unreadable(err)
	}
	if !utf8.Valid(data) || json.Unmarshal(data, into) != nil {
		return fault.New(fault.Invalid, "the body is not the JSON that is expected here").Because("body")
	}
	return nil
}

func unreadable(err error) error {
	return fault.New(fault.Invalid, "cannot read the body: %w", err).Because("body")
}
