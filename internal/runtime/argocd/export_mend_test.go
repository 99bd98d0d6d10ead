package argocd

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/droverhq/drover/internal/runtime"
)

// RemedyOf is remedyOf.
func RemedyOf(app *unstructured.Unstructured, known time.Time, automated bool, now time.Time) (string, time.Duration) {
	do, rest := remedyOf(app, known, automated, now)
	return string(do), rest
}

// Homeless is homeless.
func Homeless(app *unstructured.Unstructured, d runtime.Deployment) bool {
	return homeless(view(app).Status.OperationState, d)
}

// Hasten is hasten.
func Hasten(app *unstructured.Unstructured, now time.Time) { hasten(app, now) }

// FailingSince is since when an Application cannot be compared, where a time is known.
func FailingSince(app *unstructured.Unstructured, known time.Time) time.Time {
	_, _, since := failure(app, known)
	return since
}

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

// Turns are turns.
type Turns struct{ t turns }

// Take is take.
func (t *Turns) Take(id string, now time.Time) time.Duration { return t.t.take(id, now) }
