package kubernetes

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/droverhq/drover/internal/manifest"
	"github.com/droverhq/drover/internal/runtime"
)

// Named is named.
func Named(prefix, id string) string { return named(prefix, id) }

// Read is read, and tells how many objects there are.
func Read(body json.RawMessage) (int, error) {
	d, err := read(body)
	return len(d.Manifests), err
}

// Valid is valid.
func Valid(body json.RawMessage) bool { return valid(body) }

// Units is units.
func Units(have, reserve, unit corev1.ResourceList) int64 { return units(have, reserve, unit) }

// Record is record.
type Record = record

// Offer gives a record an item, as Apply does.
func Offer(r *Record, it runtime.Item) (same bool, err error) {
	if same, err = r.fence(it); err == nil && !same {
		r.take(it)
	}
	return same, err
}

// PackAndUnpack is the way to a Secret and back.
func PackAndUnpack(r Record) (Record, int, error) {
	parts, err := pack(r)
	if err != nil {
		return r, 0, err
	}
	out, err := unpack(parts)
	return out, len(parts), err
}

// Unpack is unpack.
func Unpack(parts [][]byte) error { _, err := unpack(parts); return err }

// Assess is assess.
func Assess(r Record, body json.RawMessage, h manifest.Health) (runtime.Observed, error) {
	d, err := read(body)
	return assess(r, d, h), err
}

// Failed is failed.
func Failed(r Record, err error) runtime.Observed { return failed(r, err) }

// Spec of a route on a cluster that carries hosts like that.
func Spec(kind string, cfg Config, host, service string, port int64, tls string) (map[string]any, error) {
	cfg.Routes = kind
	r := &Runtime{cfg: cfg.defaults()}
	rt := route{Host: host, Service: service, Port: port, TLS: tls}
	if err := rt.check(); err != nil {
		return nil, err
	}
	all, err := r.carriers("id", "ns", []route{rt})
	if err != nil {
		return nil, err
	}
	return all[0].object["spec"].(map[string]any), nil
}
