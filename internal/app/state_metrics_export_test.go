package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/bus/inprocess"
)

// StateMetrics registers what is told of states, at a time.
func StateMetrics(registry prometheus.Registerer, store stateStore, now func() time.Time) {
	newStateMetrics(registry, store, inprocess.New(inprocess.Config{}).Aside()).now = now
}

// MessageAsideMetrics registers what is told of messages that were put aside.
func MessageAsideMetrics(registry prometheus.Registerer, store stateStore, aside bus.Aside, now func() time.Time) {
	newStateMetrics(registry, store, aside).now = now
}

// ObserveForObjectives puts a value into each histogram that objectives are made of.
func ObserveForObjectives(registry prometheus.Registerer) {
	ready, age := newFleetMetrics(prometheus.NewRegistry(), nil).ready, newMessageMetrics(prometheus.NewRegistry()).age
	ready.WithLabelValues("kafka").Observe(1)
	age.WithLabelValues("bus").Observe(1)
	registry.MustRegister(ready, age)
}

// ConsumerMetrics registers what is told of who takes commands.
var ConsumerMetrics = newConsumerMetrics

// NewMessageKeys makes what guards messages that were put aside.
var NewMessageKeys = newMessageKeys
