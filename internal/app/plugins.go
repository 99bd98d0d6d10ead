package app

import (
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/cluster"
	"github.com/droverhq/drover/internal/instance"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
	"github.com/droverhq/drover/internal/operation"
)

// Kinds are all kinds of objects that the ledger is prepared for.
func Kinds() []ledger.Kind {
	return []ledger.Kind{access.SigningKey, operation.Kind, offering.Kind, cluster.Kind, instance.Kind}
}
