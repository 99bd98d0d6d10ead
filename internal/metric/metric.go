// Package metric is the port to the Prometheus-compatible server that has the
// metrics of instances.
//
// It owns the contract. It must not know who may ask for what.
package metric

import (
	"context"
	"time"
)

// Point is a value at a time.
type Point struct {
	At    time.Time
	Value float64
}

// Series is a metric with its labels ("__name__" among them) and its points.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Range of a query; the zero Range asks for the present.
type Range struct {
	From, To time.Time
	Step     time.Duration
}

// Source of metrics. Faults: Unavailable where the server cannot be asked;
// what it refuses is Internal, since tenants write no queries.
type Source interface {
	Query(ctx context.Context, promql string, r Range) ([]Series, error)
	// Federate returns matching series in the text format of Prometheus.
	Federate(ctx context.Context, selectors []string) ([]byte, error)
}
