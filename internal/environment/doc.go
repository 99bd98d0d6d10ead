// Package environment deploys templates: it plans over every executor at once,
// lays resources out in the ledger, walks their graph, and keeps comparing what
// is expected with what is there until the environment's end.
//
// It must not know any executor, how templates are written, or HTTP.
//
// How a wish becomes so. Every change is a plan: Plan writes one, its reconciler
// asks all executors (survey.go) and judges it. Apply writes it down as the next
// one of its environment, which makes it once more, takes it up (reconcile.go)
// and lays the resources out in batches (lay.go) before any is worked on. Each
// resource waits for those that stand in its way, has its executor work (run.go),
// writes what came of it and wakes those that wait (outcome.go). The environment
// follows the counts by phase to its own phase.
//
// What is decided is pure: Decide in plan.go asks the steps of an environment one
// after the other, DecideResource in resource.go the moves of a resource. What is
// scheduled besides (looks for drift, checks, end dates, actions) is a step or a
// move in a file of its own, with its arm in turn.step or Resources.Reconcile and
// what it looks at in Seen or Around; Settle, which ends a turn, is where an
// environment enters Deployed-Waiting instead of Deployed-OK.
package environment
