package argocd

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
)

// RemedyOf is remedyOf.
func RemedyOf(app *unstructured.Unstructured, automated bool, now time.Time) (string, time.Duration) {
	do, rest := remedyOf(app, automated, now)
	return string(do), rest
}

// Homeless is homeless.
func Homeless(app *unstructured.Unstructured, d runtime.Deployment) bool {
	return homeless(view(app).Status.OperationState, d)
}

// Hasten is hasten.
func Hasten(app *unstructured.Unstructured) { hasten(app) }

// RemindAll reminds Argo CD of what it was asked for at a time whenever that is due,
// until another time, and returns when.
func RemindAll(app *unstructured.Unstructured, asked, until time.Time) (at []time.Duration) {
	mark(app, remindedMark, asked.Format(time.RFC3339))
	for now := asked; now.Before(until); now = now.Add(time.Second) {
		if late(app, now) {
			_, sofar := reminded(app)
			remindAgain(app, sofar, now)
			at = append(at, now.Sub(asked))
		}
	}
	return at
}

// Turns counts how many of some are let through within a second.
func Turns(n int, now time.Time) (through int) {
	var t turns
	for range n {
		if t.take(now) {
			through++
		}
	}
	return through
}
