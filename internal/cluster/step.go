package cluster

import (
	"context"
	"encoding/json"

	"github.com/droverhq/drover/internal/ledger"
)

// StepItem is a step of making a cluster fit as its agent is told it.
type StepItem struct {
	ID         string // the cluster's id and the step's name
	Generation int64
	Token      int64
	Digest     string
	Delete     bool
	Body       json.RawMessage
}

// StepSeen is what an agent says of a step.
type StepSeen struct {
	ID             string
	Generation     int64
	State, Message string
	Objects        int
}

// StepItems are the steps that the agent of a cluster is to carry out: those
// whose needs are ready, and those that are to go.
func (s *Service) StepItems(context.Context, ledger.Object) ([]StepItem, error) { return nil, nil }

// ReportSteps takes what an agent says of its cluster's steps.
func (s *Service) ReportSteps(context.Context, string, []StepSeen) error { return nil }
