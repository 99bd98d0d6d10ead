package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

func (s *server) compatGet(w http.ResponseWriter, r *http.Request, p *compatPath) {
	o, err := s.find(r, p)
	s.show(w, r, p, http.StatusOK, o, err)
}

func (s *server) compatCreate(w http.ResponseWriter, r *http.Request, p *compatPath) {
	if err := wantsAsync(r); err != nil {
		s.fail(w, r, err)
		return
	}
	req, err := readCreate(r, p.off)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	o, err := s.Instances.Create(r.Context(), p.off, req)
	s.show(w, r, p, http.StatusAccepted, o, err)
}

// compatUpdate changes what a tenant may change: the owner, and the fields that
// the offering names. null leaves a field as it is.
func (s *server) compatUpdate(w http.ResponseWriter, r *http.Request, p *compatPath) {
	fields := map[string]json.RawMessage{}
	err := readObject(r, func(name string, value json.RawMessage) error {
		if _, ok := p.off.Spec.Changes[name]; !ok && name != "owner" {
			return unknownField(name)
		}
		if string(value) != "null" {
			fields[name] = value
		}
		return nil
	})
	if raw, ok := fields["owner"]; ok && err == nil {
		var owner *string
		if err = into("owner", raw, &owner); err == nil && !plainName(*owner) {
			err = fault.New(fault.Invalid, "owner must be a user's name of at most %d bytes", maxText).Because("field")
		}
	}
	var o ledger.Object
	switch {
	case err != nil:
	case len(fields) == 0:
		o, err = s.find(r, p)
	case !plainName(p.rest[1]):
		err = noInstance(p)
	default:
		o, err = s.Instances.Patch(r.Context(), p.off.Metadata.Name, p.rest[1], fields)
	}
	s.show(w, r, p, http.StatusOK, o, err)
}

func (s *server) compatDelete(w http.ResponseWriter, r *http.Request, p *compatPath) {
	err := wantsAsync(r)
	if err == nil && !plainName(p.rest[1]) {
		err = noInstance(p)
	}
	if err == nil {
		_, err = s.Instances.Delete(r.Context(), p.off.Metadata.Name, p.rest[1])
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func (s *server) find(r *http.Request, p *compatPath) (ledger.Object, error) {
	if !plainName(p.rest[1]) {
		return ledger.Object{}, noInstance(p)
	}
	return s.Instances.Get(r.Context(), p.off.Metadata.Name, p.rest[1])
}

// show answers with the instance or with what went wrong.
func (s *server) show(w http.ResponseWriter, r *http.Request, p *compatPath, status int, o ledger.Object, err error) {
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeRaw(w, status, append(newView(p.off).append(make([]byte, 0, 1024), &o), '\n'))
}

// maxText bounds ids and names that go into a look-up as they came.
const maxText = 256

func plainName(s string) bool {
	if s == "" || len(s) > maxText || !utf8.ValidString(s) {
		return false
	}
	for _, c := range []byte(s) {
		if c < 0x20 || c == 0x7f {
			return false
		}
	}
	return true
}

func noInstance(p *compatPath) error {
	return fault.New(fault.NotFound, "%s with id=%.64q not found", p.off.Spec.Names.Kind, p.rest[1])
}

func wantsAsync(r *http.Request) error {
	if yes, err := strconv.ParseBool(r.URL.Query().Get("async")); err != nil || !yes {
		return fault.New(fault.Invalid, "synchronous action is not supported, use async=true").Because("async")
	}
	return nil
}

// readCreate reads an order: the fields that every order has, and the
// offering's own parameters beside them.
func readCreate(r *http.Request, off *offering.Offering) (instance.Create, error) {
	var req instance.Create
	var name, provider, region, plan, model, market, payer, cluster *string
	known := orderFields(off.Spec)
	err := readObject(r, func(field string, value json.RawMessage) error {
		switch field {
		case "name":
			return into(field, value, &name)
		case "cloud_provider":
			return into(field, value, &provider)
		case "region":
			return into(field, value, &region)
		case "plan":
			return into(field, value, &plan)
		case "multi_az":
			return into(field, value, &req.MultiAZ)
		}
		if known[field] {
			switch field {
			case "billing_model":
				return into(field, value, &model)
			case "marketplace":
				return into(field, value, &market)
			case "billing_cloud_account_id":
				return into(field, value, &payer)
			case "cluster_id":
				return into(field, value, &cluster)
			}
		}
		if !isParameter(off.Spec.Parameters, field) {
			return unknownField(field)
		}
		var v any
		if err := json.Unmarshal(value, &v); err != nil {
			return malformed("it is no JSON")
		}
		if v == nil {
			return nil // absent, as everywhere
		}
		if req.Parameters == nil {
			req.Parameters = map[string]any{}
		}
		req.Parameters[field] = v
		return nil
	})
	req.Name, req.Provider, req.Region, req.Plan = deref(name), deref(provider), deref(region), deref(plan)
	req.Billing = instance.Billing{Model: deref(model), Marketplace: deref(market), Account: deref(payer)}
	req.Cluster = deref(cluster)
	return req, err
}

// orderFields are the fields of an order that an offering has or has not, by
// how it is paid for.
func orderFields(spec offering.Spec) map[string]bool {
	out := map[string]bool{}
	for _, b := range spec.Billing {
		out["billing_model"] = true
		if len(b.Marketplaces) > 0 {
			out["marketplace"], out["billing_cloud_account_id"] = true, true
		}
		if b.OwnCluster {
			out["cluster_id"] = true
		}
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// isParameter reports whether the offering's schema speaks of a field. A schema
// that merely does not forbid it does not make a misspelt field a parameter.
func isParameter(schema map[string]any, field string) bool {
	if properties, ok := schema["properties"].(map[string]any); ok {
		if _, ok := properties[field]; ok {
			return true
		}
	}
	_, patterns := schema["patternProperties"]
	more, ok := schema["additionalProperties"]
	return patterns || ok && more != false
}
