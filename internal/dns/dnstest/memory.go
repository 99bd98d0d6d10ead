package dnstest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/libdns/libdns"

	"github.com/droverhq/drover/internal/dns"
)

// Memory is a provider of libdns that keeps one zone in memory. Like many it
// refuses a second CNAME, and a CNAME beside other records.
type Memory struct {
	mu      sync.Mutex
	records []libdns.RR
	calls   int
}

// NewMemory makes an empty one.
func NewMemory() *Memory { return &Memory{} }

// GetRecords implements libdns.RecordGetter.
func (m *Memory) GetRecords(context.Context, string) ([]libdns.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []libdns.Record
	for _, r := range m.records {
		out = append(out, r)
	}
	return out, nil
}

// AppendRecords implements libdns.RecordAppender.
func (m *Memory) AppendRecords(_ context.Context, _ string, records []libdns.Record) ([]libdns.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	for _, r := range records {
		rr := r.RR()
		if slices.ContainsFunc(m.records, func(o libdns.RR) bool {
			return o.Name == rr.Name && (o.Type == "CNAME" || rr.Type == "CNAME")
		}) {
			return nil, errors.New("a CNAME stands alone")
		}
		m.records = append(m.records, rr)
	}
	return records, nil
}

// DeleteRecords implements libdns.RecordDeleter.
func (m *Memory) DeleteRecords(_ context.Context, _ string, records []libdns.Record) ([]libdns.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	for _, r := range records {
		rr := r.RR()
		m.records = slices.DeleteFunc(m.records, func(o libdns.RR) bool {
			return o.Name == rr.Name && o.Type == rr.Type && (rr.Data == "" || o.Data == rr.Data)
		})
	}
	return records, nil
}

// Calls counts the changes that it was asked for.
func (m *Memory) Calls() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls
}

// World makes a world of it.
func (m *Memory) World(zone string) World {
	return World{
		Zone: zone, Provider: dns.Libdns(m),
		Records: func(testing.TB) []string {
			m.mu.Lock()
			defer m.mu.Unlock()
			var out []string
			for _, r := range m.records {
				data := r.Data
				if r.Type == "CNAME" {
					data = dns.Canonical(data)
				}
				out = append(out, dns.Canonical(libdns.AbsoluteName(r.Name, zone+"."))+" "+r.Type+" "+data)
			}
			return out
		},
		Add: func(_ testing.TB, name, kind, data string) {
			if kind == "CNAME" {
				data += "."
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			m.records = append(m.records, libdns.RR{Name: libdns.RelativeName(name+".", zone+"."), Type: kind, Data: data})
		},
		Delete: func(t testing.TB, name, kind string) {
			m.DeleteRecords(t.Context(), zone, []libdns.Record{libdns.RR{Name: libdns.RelativeName(name+".", zone+"."), Type: kind}})
		},
	}
}
