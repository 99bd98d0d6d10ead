package instance

import "github.com/droverhq/drover/internal/metric"

// What the API speaks of when it asks for an instance's metrics; it does not
// know the port.
type (
	Range  = metric.Range
	Series = metric.Series
	Point  = metric.Point
)
