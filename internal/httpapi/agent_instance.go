package httpapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

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

// upgrading lists the components that the conditions say are being changed, by
// reasons such as KafkaUpdating.
func upgrading(off *offering.Offering, of []condition) (out []string) {
	for _, c := range of {
		what, changing := strings.CutSuffix(c.Reason, "Updating")
		if !changing || c.Type != "Ready" {
			continue
		}
		for _, component := range off.Spec.Components {
			if strings.EqualFold(component.Name, what) && !slices.Contains(out, component.Name) {
				out = append(out, component.Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// outsideInstance is what an outside agent says of one instance.
type outsideInstance struct {
	Conditions []condition       `json:"conditions"`
	Versions   map[string]string `json:"versions"`
	Routes     []struct {
		Name   string `json:"name"`
		Prefix string `json:"prefix"`
		Router string `json:"router"`
	} `json:"routes"`
	AdminURL string `json:"adminServerURI"`
}

// reported are the routes with a router of the cluster's own. Any other is left
// out: it could send the tenant's clients anywhere.
func (o outsideInstance) reported(domain string) (out []instance.RouteReport) {
	for _, r := range o.Routes {
		router := strings.ToLower(strings.TrimSuffix(r.Router, "."))
		if router == "" || domain != "" && router != domain && !strings.HasSuffix(router, "."+domain) {
			continue
		}
		out = append(out, instance.RouteReport{Name: r.Name, Prefix: r.Prefix, Router: router})
	}
	return out
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
	spec, _, err := cluster.Decode(object)
	if err != nil {
		return err
	}
	served := s.served.recall(object.ID, off.Metadata.Name, s.Clock())
	var seen []instance.Observation
	var bad []string
	for _, id := range slices.Sorted(maps.Keys(items)) {
		var it outsideInstance
		want, known := given[id]
		if reserved(off, id) {
			continue // nobody's: there is nothing to write it down for
		}
		if !known || json.Unmarshal(items[id], &it) != nil {
			bad = append(bad, id)
			continue
		}
		generation := want.Generation
		if last, ok := served[id]; ok {
			generation = min(generation, last)
		}
		if state, message, ok := observedState(it.Conditions); ok {
			seen = append(seen, instance.Observation{
				ID: id, Generation: generation, State: state, Message: message, Versions: it.Versions,
				Upgrading: upgrading(off, it.Conditions), Routes: it.reported(spec.Domain), AdminURL: it.AdminURL,
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

// reserved reports whether an id is that of an item which only keeps room warm.
func reserved(off *offering.Offering, id string) bool {
	return off.Spec.Reserved != nil && strings.HasPrefix(id, "reserved-"+off.Spec.Names.Singular+"-")
}

// givenItem is an instance as its data plane must have it.
type givenItem struct {
	instance.Item
	object ledger.Object
}

// given lists what the cluster's agent has been told to have of an offering.
func (s *server) given(r *http.Request, off *offering.Offering, clusterID string) (map[string]givenItem, error) {
	out := map[string]givenItem{}
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
			item, ok := instance.DesiredItem(object)
			if ok {
				out[item.ID] = givenItem{item, object}
				continue
			}
			if _, err := instance.Decode(object); err != nil { // it may well run there
				return nil, fault.New(fault.Unavailable, "cannot make the document of instance %s: %w", object.ID, err)
			}
		}
		if len(objects) < desiredPage {
			return out, nil
		}
		after = objects[len(objects)-1].ID
	}
}

func agentKind(spec offering.Spec) string {
	if spec.Agent.Kind != "" {
		return spec.Agent.Kind
	}
	return "Managed" + spec.Names.Kind
}

// outsideDesired lists the full desired state with its secrets, and what keeps
// room warm. Outside agents remove what is not listed, so a document that cannot
// be made fails the call as a whole. One that only lacks its certificate is listed
// without it: the others on the cluster are not to wait for it.
func (s *server) outsideDesired(w http.ResponseWriter, r *http.Request, off *offering.Offering, object ledger.Object) error {
	given, err := s.given(r, off, object.ID)
	if err != nil {
		return err
	}
	kind := agentKind(off.Spec)
	items := make([]map[string]any, 0, len(given))
	generations := make(map[string]int64, len(given))
	for _, id := range slices.Sorted(maps.Keys(given)) {
		item := given[id]
		generations[id] = item.Generation
		body, err := s.Instances.Reveal(r.Context(), item.object, item.Body)
		if body != nil && fault.Reason(err) == "certificate" {
			s.Log.WarnContext(r.Context(), "an instance is listed without its certificate", "instance", id, "err", err)
			err = nil
		}
		if err != nil {
			return fault.New(fault.Unavailable, "cannot make the document of instance %s: %w", id, err)
		}
		document, err := outsideDocument(id, kind, body)
		if err != nil {
			return err
		}
		document["spec"].(map[string]any)["deleted"] = item.Delete // it may have been rendered before the wish
		items = append(items, document)
	}
	if object.Phase == cluster.Ready && off.Spec.Reserved != nil {
		warm, err := s.warm(r, off, object)
		if err != nil {
			return err
		}
		items = append(items, warm...)
	}
	if !access.From(r.Context()).Admin { // what an operator looks at is not given to the agent
		s.served.remember(object.ID, off.Metadata.Name, generations, s.Clock())
	}
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusOK, map[string]any{"kind": kind + "List", "items": items})
	return nil
}

// outsideDocument puts id and kind into a document, which always has a spec.
func outsideDocument(id, kind string, body json.RawMessage) (map[string]any, error) {
	document := map[string]any{}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, err
	}
	document["id"], document["kind"] = id, kind
	if _, ok := document["spec"].(map[string]any); !ok {
		document["spec"] = map[string]any{}
	}
	return document, nil
}

// warm lists the items that no tenant ordered.
func (s *server) warm(r *http.Request, off *offering.Offering, object ledger.Object) ([]map[string]any, error) {
	spec, _, err := cluster.Decode(object)
	if err != nil || spec.Org != "" || spec.Offering != "" && spec.Offering != off.Metadata.Name {
		return nil, err // nobody but its tenant orders there
	}
	around, err := s.around(r.Context(), off, object)
	if err != nil {
		return nil, err
	}
	reserved, err := off.ReservedItems(r.Context(), around, spec.Provider, spec.Region)
	if err != nil {
		return nil, err
	}
	var out []map[string]any
	for _, item := range reserved {
		if len(spec.Types) > 0 && !slices.Contains(spec.Types, item.Type) {
			continue
		}
		body, err := offering.FillSecrets(item.Body, noSecret)
		if err != nil {
			return nil, err
		}
		document, err := outsideDocument(item.Name, agentKind(off.Spec), body)
		if err != nil {
			return nil, err
		}
		out = append(out, document)
	}
	return out, nil
}
