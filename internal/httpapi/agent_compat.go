package httpapi

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// outsideAgent stands for agents that speak the fleet managers' protocol, which
// knows neither processes, installations nor numbers: they are one agent of one
// installation, so a cluster of theirs is refused to Drover's own agents and the
// other way round, but two of theirs cannot be told apart.
const outsideAgent = "outside"

// outsideCapacity is what an outside agent's cluster can hold if nobody says:
// not every agent counts, so it refuses what does not fit.
const outsideCapacity = 1_000_000

// compatAgent serves an offering's API for outside agents. rest is the path
// after agent-clusters/.
func (s *server) compatAgent(w http.ResponseWriter, r *http.Request, off *offering.Offering, rest []string) {
	if len(rest) == 0 {
		s.fail(w, r, nothingAt(r))
		return
	}
	object, may, err := s.agentOf(r.Context(), rest[0])
	if fault.Is(err, fault.NotFound) {
		err, may = fault.New(fault.Invalid, "cluster %.64q is not registered", rest[0]), true
		if who := access.From(r.Context()); !who.Admin && who.Cluster != rest[0] {
			may = false // an account that could be anybody's
		}
	}
	if !may && (err == nil || !fault.Is(err, fault.Unavailable)) {
		s.fail(w, r, nothingAt(r))
		return
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
	if !access.From(r.Context()).Admin { // an operator may look without being the agent
		err = s.Clusters.Admit(r.Context(), object.ID, cluster.Caller{Agent: outsideAgent, Installation: outsideAgent, Polls: true})
	}
	if err == nil {
		err = serve(w, r, off, object)
	}
	if err != nil {
		s.fail(w, r, err)
	}
}

// outsideConfig tells an agent how to behave, as the offering's file has it.
func (s *server) outsideConfig(w http.ResponseWriter, r *http.Request, off *offering.Offering, object ledger.Object) error {
	if off.Spec.Agent.Config == nil {
		writeJSON(w, http.StatusOK, map[string]any{"spec": map[string]any{
			"observability": map[string]any{"channel": "", "repository": "", "tag": ""},
		}})
		return nil
	}
	around, err := s.around(r.Context(), off, object)
	if err != nil {
		return err
	}
	doc, err := off.AgentConfig(r.Context(), around)
	if err == nil {
		doc, err = offering.FillSecrets(doc, noSecret)
	}
	if err != nil {
		return err
	}
	writeRaw(w, http.StatusOK, append(doc, '\n'))
	return nil
}

// noSecret stands for the secrets of documents that belong to no instance.
func noSecret(string) (string, error) { return "", nil }

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

// outsideStatus is what an outside agent says of its cluster. What it is called
// by which its operators are listed is the offering's to say.
type outsideStatus struct {
	Conditions []condition `json:"conditions"`
	Capacity   map[string]struct {
		MaxUnits       int64 `json:"maxUnits"`
		RemainingUnits int64 `json:"remainingUnits"`
	} `json:"capacity"`
	operators []cluster.Operator // nil: not told
}

func (o *outsideStatus) read(r *http.Request, agent offering.Agent) error {
	var all map[string]json.RawMessage
	if err := readReport(r, &all); err != nil {
		return err
	}
	bad := fault.New(fault.Invalid, "the body is not the JSON that is expected here").Because("body")
	for name, into := range map[string]any{"conditions": &o.Conditions, "capacity": &o.Capacity} {
		if raw, told := all[name]; told && json.Unmarshal(raw, into) != nil {
			return bad
		}
	}
	raw, told := all[agent.Operator]
	if !told || agent.Operator == "" || string(raw) == "null" {
		return nil
	}
	var entries []map[string]json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return bad
	}
	o.operators = []cluster.Operator{}
	for _, entry := range entries {
		op, err := operatorOf(agent, entry)
		if err != nil {
			return err
		}
		o.operators = append(o.operators, op)
	}
	return nil
}

// operatorOf reads one operator: the versions of a component are in the list
// that the offering names, or it is the operator's own version.
func operatorOf(agent offering.Agent, entry map[string]json.RawMessage) (cluster.Operator, error) {
	bad := fault.New(fault.Invalid, "an entry of %s has version, ready and lists of versions", agent.Operator).Because("body")
	op := cluster.Operator{Name: agent.Operator, Components: map[string][]string{}}
	if json.Unmarshal(entry["version"], &op.Version) != nil || op.Version == "" || len(op.Version) > maxText {
		return op, bad
	}
	if raw, told := entry["ready"]; told && json.Unmarshal(raw, &op.Ready) != nil {
		return op, bad
	}
	for component, list := range agent.Reports {
		if list == "version" {
			op.Components[component] = []string{op.Version}
			continue
		}
		var versions []string
		if raw, told := entry[list]; told && json.Unmarshal(raw, &versions) != nil {
			return op, bad
		}
		if len(versions) > 0 {
			op.Components[component] = versions
		}
	}
	return op, nil
}

func (s *server) outsideCluster(w http.ResponseWriter, r *http.Request, off *offering.Offering, object ledger.Object) error {
	var told outsideStatus
	if err := told.read(r, off.Spec.Agent); err != nil {
		return err
	}
	_, known, err := cluster.Decode(object)
	if err != nil {
		return err
	}
	report := cluster.Report{
		Agent: outsideAgent, Installation: outsideAgent, Unnumbered: true, Capacity: known.Capacity,
		Offering: off.Metadata.Name, Operators: told.operators,
	}
	if len(told.Capacity) > 0 {
		report.Units = map[string]cluster.Units{}
		for name, c := range told.Capacity {
			if len(name) <= maxText {
				report.Units[name] = cluster.Units{Max: max(c.MaxUnits, 0), Remaining: max(c.RemainingUnits, 0)}
			}
		}
	} else if report.Capacity == 0 {
		report.Capacity = outsideCapacity
	}
	ready, said := readiness(told.Conditions)
	report.Ready = ready.Status == "True" || !said && object.Phase == cluster.Ready
	ctx := ledger.WithCause(r.Context(), ledger.ByReport(object.ID, traceOf(r.Context()).id))
	if err := s.Clusters.Report(ctx, object.ID, report); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
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
