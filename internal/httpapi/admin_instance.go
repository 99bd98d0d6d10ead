package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// adminView writes instances as an offering's operators see them. What the
// offering adds for them is evaluated when it is asked for: operators look
// rarely, instances are written all the time.
type adminView struct {
	kind string
	href string // up to the id
}

func newAdminView(off *offering.Offering) adminView {
	v := adminView{kind: off.Spec.Admin.Kind, href: offeringBase(off.Spec) + "/" + off.Spec.Names.Plural + "/"}
	if v.kind == "" {
		v.kind = off.Spec.Names.Kind
	}
	return v
}

func (s *server) appendAdmin(ctx context.Context, buf []byte, v adminView, o *ledger.Object) ([]byte, error) {
	shown, err := s.Instances.Admin(ctx, *o)
	if err != nil {
		return buf, err
	}
	buf = append(buf, `{"id":`...)
	buf = appendJSON(buf, o.ID)
	buf = append(buf, `,"kind":`...)
	buf = appendJSON(buf, v.kind)
	buf = append(buf, `,"href":`...)
	buf = appendJSON(buf, v.href+o.ID)
	buf = appendField(buf, "status", o.Phase)
	buf = appendField(buf, "owner", o.Owner)
	buf = appendField(buf, "name", o.Name)
	buf = appendTime(buf, "created_at", o.Created)
	buf = appendTime(buf, "updated_at", o.Updated)
	provider, _ := o.Fields["provider"].(string)
	region, _ := o.Fields["region"].(string)
	multi, _ := o.Fields["multi_az"].(bool)
	buf = appendField(buf, "cloud_provider", provider)
	buf = appendField(buf, "region", region)
	buf = append(buf, `,"multi_az":`...)
	buf = strconv.AppendBool(buf, multi)
	if inner := members(shown); len(inner) > 0 {
		buf = append(buf, ',')
		buf = append(buf, inner...)
	}
	return append(buf, '}'), nil
}

// showAdmin answers with the instance or with what went wrong.
func (s *server) showAdmin(w http.ResponseWriter, r *http.Request, p *compatPath, status int, o ledger.Object, err error) {
	var buf []byte
	if err == nil {
		buf, err = s.appendAdmin(r.Context(), make([]byte, 0, 2048), newAdminView(p.off), &o)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeRaw(w, status, append(buf, '\n'))
}

// adminFind returns an instance of any organisation, by its id alone: names
// belong to tenants.
func (s *server) adminFind(r *http.Request, p *compatPath) (ledger.Object, error) {
	missing := fault.New(fault.NotFound, "%s with id=%.64q not found", p.off.Spec.Names.Kind, p.rest[2])
	if !plainName(p.rest[2]) {
		return ledger.Object{}, missing
	}
	o, err := s.Instances.Get(r.Context(), p.off.Metadata.Name, p.rest[2])
	if err == nil && o.ID != p.rest[2] || fault.Is(err, fault.Conflict) {
		return ledger.Object{}, missing
	}
	return o, err
}

func (s *server) adminGet(w http.ResponseWriter, r *http.Request, p *compatPath) {
	o, err := s.adminFind(r, p)
	s.showAdmin(w, r, p, http.StatusOK, o, err)
}

func (s *server) adminUpdate(w http.ResponseWriter, r *http.Request, p *compatPath) {
	o, err := s.adminFind(r, p)
	fields := map[string]json.RawMessage{}
	if err == nil {
		err = readObject(r, func(name string, value json.RawMessage) error {
			if _, known := p.off.Spec.Admin.Changes[name]; !known {
				return unknownField(name)
			}
			if string(value) != "null" {
				fields[name] = value
			}
			return nil
		})
	}
	if err == nil && len(fields) > 0 {
		o, err = s.Instances.UpdateAdmin(r.Context(), p.off.Metadata.Name, o.ID, fields)
	}
	s.showAdmin(w, r, p, http.StatusOK, o, err)
}

// adminDelete answers 202 as the fleet managers do, with the instance that
// their specification promises.
func (s *server) adminDelete(w http.ResponseWriter, r *http.Request, p *compatPath) {
	err := wantsAsync(r)
	var o ledger.Object
	if err == nil {
		o, err = s.adminFind(r, p)
	}
	if err == nil {
		o, err = s.Instances.Delete(r.Context(), p.off.Metadata.Name, o.ID)
	}
	s.showAdmin(w, r, p, http.StatusAccepted, o, err)
}

// adminRevoke ends the certificate of an instance's host, for a reason of RFC 5280.
func (s *server) adminRevoke(w http.ResponseWriter, r *http.Request, p *compatPath) {
	o, err := s.adminFind(r, p)
	var reason *int
	if err == nil {
		err = readOptional(r, func(name string, value json.RawMessage) error {
			if name != "revocation_reason" {
				return unknownField(name)
			}
			return into(name, value, &reason)
		})
	}
	if reason == nil {
		reason = new(int) // unspecified
	}
	if err == nil {
		err = s.Instances.Revoke(r.Context(), p.off.Metadata.Name, o.ID, *reason)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// readOptional is readObject where no body at all is fine, too.
func readOptional(r *http.Request, set func(name string, value json.RawMessage) error) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return unreadable(err)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	return eachMember(data, set)
}

func (s *server) adminList(w http.ResponseWriter, r *http.Request, p *compatPath) {
	buf, err := s.adminPage(r, p)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	writeRaw(w, http.StatusOK, buf)
}

func (s *server) adminPage(r *http.Request, p *compatPath) ([]byte, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the query string is malformed").Because("list")
	}
	args, err := pageArgs(query)
	if err != nil {
		return nil, err
	}
	q := instance.Query{Offering: p.off.Metadata.Name, Page: max(args.page, 1), Size: args.size, Whole: true}
	if q.Order, err = orderArgs(p.off.Spec.API.Order, query.Get("orderBy")); err != nil {
		return nil, err
	}
	if q.Where, err = parseSearch(query.Get("search"), p.off.Spec.API.Search, instance.Kind); err != nil {
		return nil, err
	}
	objects, total, err := s.Instances.List(r.Context(), q)
	if err != nil {
		return nil, err
	}
	v := newAdminView(p.off)
	buf := make([]byte, 0, 128+len(objects)*1024)
	buf = append(buf, `{"kind":`...)
	buf = appendJSON(buf, v.kind+"List")
	buf = append(buf, `,"page":`...)
	buf = strconv.AppendInt(buf, int64(args.page), 10)
	buf = append(buf, `,"size":`...)
	buf = strconv.AppendInt(buf, min(int64(args.size), total), 10)
	buf = append(buf, `,"total":`...)
	buf = strconv.AppendInt(buf, total, 10)
	buf = append(buf, `,"items":[`...)
	for i := range objects {
		if i > 0 {
			buf = append(buf, ',')
		}
		if buf, err = s.appendAdmin(r.Context(), buf, v, &objects[i]); err != nil {
			return nil, err
		}
	}
	return append(buf, "]}\n"...), nil
}
