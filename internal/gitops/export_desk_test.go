package gitops

import "time"

// What decides about credentials and targets, for tests.
type (
	Verdict     = verdict
	TargetFound = targetFound
)

// NewVerdict is one of a reason; away: none could be found.
func NewVerdict(reason string, away bool) Verdict {
	return verdict{reason: reason, message: "because", away: away}
}

// NewTargetFound is one of a reason, or with access a good one.
func NewTargetFound(reason string, away bool, access *Access) TargetFound {
	f := targetFound{away: away, access: access}
	if access == nil {
		f.flaw = &flaw{reason, "because"}
	}
	return f
}

func SettleRepository(r Repository, v Verdict, now time.Time) RepositoryStatus {
	return settleRepository(r, v, now)
}

func SettleTarget(t Target, f TargetFound, now time.Time) TargetStatus {
	return settleTarget(t, f, now)
}

func Retire(list []Retired, before, after []string, now time.Time) []Retired {
	return retire(list, before, after, now)
}

// PlanRepository tells whether the server is asked now, and otherwise when.
func PlanRepository(r Repository, now time.Time) (probe bool, left time.Duration) {
	step, left := planRepository(r, false, now)
	return step == repositoryProbe, left
}

// ReadKubeconfig returns what was understood, written anew, or the reason why not.
func ReadKubeconfig(data []byte, apiURL string, token bool) (rebuilt []byte, reason, message string) {
	a, bad := readKubeconfig(data, apiURL, token)
	if bad != nil {
		return nil, bad.reason, bad.message
	}
	out, err := a.kubeconfig()
	if err != nil {
		return nil, "json", err.Error()
	}
	return out, "", ""
}
