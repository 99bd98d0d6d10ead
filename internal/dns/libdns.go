package dns

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/libdns/libdns"

	"github.com/droverhq/drover/internal/fault"
)

// Plain is what is needed of a provider of libdns.
type Plain interface {
	libdns.RecordGetter
	libdns.RecordAppender
	libdns.RecordDeleter
}

// Libdns makes a Provider of any provider of libdns. These cannot make a change
// depend on what is there, so between reading and writing somebody else may come
// first; what was written is read back, and of two marks the lesser one counts.
// The secrets are struck out of the provider's errors.
func Libdns(p Plain, secrets ...string) Provider { return &adapter{p, secrets} }

type adapter struct {
	plain   Plain
	secrets []string
}

// Lookup reads the whole zone: libdns has no narrower question.
func (a *adapter) Lookup(ctx context.Context, zone string, names []string) ([]RR, error) {
	records, err := a.plain.GetRecords(ctx, zone+".")
	if err != nil {
		// Unlike a change, a question has no part that could be at fault.
		return nil, fault.New(fault.Unavailable, "cannot read zone %s: %w", zone, a.clean(err))
	}
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	var out []RR
	for _, r := range records {
		rr := r.RR()
		name := Canonical(libdns.AbsoluteName(rr.Name, zone+"."))
		if !wanted[name] {
			continue
		}
		data := rr.Data
		if rr.Type == "CNAME" {
			data = Canonical(libdns.AbsoluteName(data, zone+"."))
		}
		out = append(out, RR{Name: name, Type: rr.Type, Data: data, TTL: uint32(rr.TTL / time.Second)})
	}
	return out, nil
}

// Edit writes marks before records and removes them after, each kind in one
// call: whatever breaks in between, a record that was made here has its mark.
func (a *adapter) Edit(ctx context.Context, zone string, edits []Edit) error {
	var gone, added []RR
	for _, e := range edits {
		gone, added = append(gone, e.Gone()...), append(added, e.Added()...)
	}
	for _, step := range []struct {
		do   func(context.Context, string, []libdns.Record) ([]libdns.Record, error)
		kind string
		rrs  []RR
	}{
		{a.plain.AppendRecords, "TXT", added},
		{a.plain.DeleteRecords, "CNAME", gone},
		{a.plain.AppendRecords, "CNAME", added},
		{a.plain.DeleteRecords, "TXT", gone},
	} {
		var records []libdns.Record
		for _, r := range step.rrs {
			if r.Type == step.kind {
				records = append(records, record(r, zone))
			}
		}
		if len(records) == 0 {
			continue
		}
		if _, err := step.do(ctx, zone+".", records); err != nil {
			return a.clean(err)
		}
	}
	return nil
}

func record(r RR, zone string) libdns.Record {
	name, ttl := libdns.RelativeName(r.Name+".", zone+"."), time.Duration(r.TTL)*time.Second
	if r.Type == "CNAME" {
		return libdns.CNAME{Name: name, TTL: ttl, Target: r.Data + "."}
	}
	return libdns.TXT{Name: name, TTL: ttl, Text: r.Data}
}

// clean gives what means "away" its kind, and strikes secrets out.
func (a *adapter) clean(err error) error {
	text := err.Error()
	for _, s := range a.secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "***")
		}
	}
	var network net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) {
		return fault.New(fault.Unavailable, "%s", text)
	}
	if text != err.Error() || fault.Of(err) == fault.Internal {
		return errors.New(text)
	}
	return err
}
