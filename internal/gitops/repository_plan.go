package gitops

import (
	"fmt"
	"slices"
	"time"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/source"
)

// Types of the conditions of a credential besides ErrorOccurred. All three are
// always there.
const (
	validRepositoryURL        = "ValidRepositoryURL"
	validRepositoryCredential = "ValidRepositoryCredential"
)

// Reasons of the conditions of a credential, and of problems with its Secret.
const (
	secretNotSpecified   = "SecretNotSpecified"
	secretNotFound       = "SecretNotFound"
	secretInvalidType    = "SecretInvalidType"
	invalidRepositoryURL = "InvalidRepositoryUrl"
	invalidCredentials   = "InvalidCredentials"
	credentialUpToDate   = "RepositoryCredentialUpToDate"
	notPermitted         = "NotPermitted" // the tenant may not
	validURL             = "ValidRepositoryUrl"
)

const (
	repositoryEvery = 10 * time.Minute // a credential is checked again
	repositorySoon  = time.Minute      // ... where its server did not answer
)

// repositoryStep is what a credential needs next.
type repositoryStep int

const (
	repositoryRest  repositoryStep = iota // until the time that is told
	repositoryJudge                       // its Secret or its URL says enough
	repositoryProbe                       // its server is asked
	repositoryLose                        // it is taken away
	repositoryBury                        // it is gone: what is left of its secrets goes too
	repositoryBar                         // nothing is done for its organisation
)

// planRepository decides by what is known of a credential, and whether anything is
// done for its organisation.
func planRepository(r Repository, barred bool, now time.Time) (repositoryStep, time.Duration) {
	switch {
	case r.Phase == Gone:
		return repositoryBury, retireAfter
	case r.Spec.Deleted:
		return repositoryLose, 0
	case barred && (!r.Status.Barred || r.Status.Seen != r.Generation):
		return repositoryBar, 0
	case barred:
		return repositoryRest, repositoryEvery
	case obviousVerdict(r.Spec) != nil:
		if r.Status.Seen == r.Generation && !r.Status.Barred {
			return repositoryRest, repositoryEvery
		}
		return repositoryJudge, 0
	case r.Status.Seen != r.Generation, r.Status.Barred:
		return repositoryProbe, 0
	}
	every := repositoryEvery
	if r.Status.Unreached > 0 {
		every = repositorySoon
	}
	if left := r.Status.Checked.Add(every).Sub(now); left > 0 {
		return repositoryRest, left
	}
	return repositoryProbe, 0
}

// verdict is what was found of a credential. Reason "" is a good one.
type verdict struct {
	reason  string
	message string
	cause   string // of it; empty: the message says it all
	away    bool   // nothing could be found: the last verdict stands
	hostKey string
}

// obviousVerdict is what can be said without asking anybody; nil: nothing.
func obviousVerdict(s RepositorySpec) *verdict {
	switch s.Problem {
	case "":
	case secretNotSpecified:
		return &verdict{reason: secretNotSpecified, message: "Secret field is missing value"}
	case secretNotFound:
		return &verdict{reason: secretNotFound, message: "Secret specified not found"}
	case secretInvalidType:
		return &verdict{reason: secretInvalidType, message: "Secret has an invalid type, must be " + repositorySecretType}
	default:
		return &verdict{reason: invalidCredentials, message: fmt.Sprintf("Secret %s holds neither a password nor an sshPrivateKey, or one that is too large", s.Secret)}
	}
	at := source.Location{Repository: s.URL}
	if why := checkRepository(s.URL); why != "" {
		return &verdict{reason: invalidRepositoryURL, message: why}
	}
	if err := at.Check(); err != nil || at.Directory() {
		return &verdict{reason: invalidRepositoryURL, message: fmt.Sprintf("the repository URL cannot be used: %v", err)}
	}
	if a, _ := at.Address(); a.Scheme == "file" {
		return &verdict{reason: invalidRepositoryURL, message: "the repository URL must begin with ssh:// or https://"}
	}
	return nil
}

// judgeProbe makes a verdict of what a server answered. A repository without
// branches was opened all the same.
func judgeProbe(s RepositorySpec, err error) verdict {
	switch kind, reason := fault.Of(err), fault.Reason(err); {
	case err == nil, kind == fault.NotFound && (reason == "revision" || reason == "empty"):
		return verdict{}
	case kind == fault.NotFound, kind == fault.Invalid && reason != "credential" && reason != "known-hosts", kind == fault.Denied && reason == "source":
		return verdict{reason: invalidRepositoryURL, message: fmt.Sprintf("Repository does not exist: %v", err)}
	case kind == fault.Denied, kind == fault.Invalid:
		return verdict{reason: invalidCredentials, message: fmt.Sprintf("Repository Credentials provided %s for Repository %s are invalid", s.Secret, s.URL), cause: err.Error()}
	case kind == fault.Unavailable, kind == fault.Exhausted:
		return verdict{away: true, message: err.Error()}
	}
	return verdict{away: true, message: "the repository could not be looked at"}
}

// settleRepository is the status after a verdict. What deployments use changes
// only by a good one.
func settleRepository(r Repository, v verdict, now time.Time) RepositoryStatus {
	st := r.Status
	st.Conditions = slices.Clone(st.Conditions)
	if v.away {
		st.Unreached++
		st.Checked = now.UTC()
		st.Conditions = awayConditions(r, v, st.Unreached, now)
		return st
	}
	st.Unreached, st.Seen, st.Checked, st.Barred = 0, r.Generation, now.UTC(), v.reason == notPermitted
	if v.reason != notPermitted { // which says nothing of the credential
		st.Valid = v.reason == ""
	}
	if v.reason == "" {
		st.HostKey = v.hostKey
	}
	set := func(kind, status, reason, message string) {
		st.Conditions = setCondition(st.Conditions, Condition{Type: kind, Status: status, Reason: reason, Message: message}, now)
	}
	exists := fmt.Sprintf("Repository %s exists", r.Spec.URL)
	switch v.reason {
	case "":
		set(errorOccurred, "False", credentialUpToDate, "RepositoryCredentials are Valid")
		set(validRepositoryURL, "True", validURL, exists)
		set(validRepositoryCredential, "True", credentialUpToDate, fmt.Sprintf("Repository Credentials provided %s for Repository %s are valid", r.Spec.Secret, r.Spec.URL))
		good := r.Spec
		good.Origin, good.Problem, good.Deleted, good.Seal = nil, "", false, ""
		before := append(st.Good.own(), r.Spec.own()...)
		st.Good = &good
		st.Retired = retire(st.Retired, before, good.refs(), now)
	case invalidCredentials:
		// Users, and what they have written, know the words of the condition about the
		// credential. What is wrong with it is told beside them, or nobody could mend it.
		why := v.message
		if v.cause != "" {
			why += ": " + v.cause
		}
		set(errorOccurred, "True", v.reason, why)
		if r.Spec.Problem == "" {
			set(validRepositoryURL, "True", validURL, exists)
		} else {
			set(validRepositoryURL, "False", v.reason, v.message)
		}
		set(validRepositoryCredential, "False", v.reason, v.message)
	default:
		set(errorOccurred, "True", v.reason, v.message)
		set(validRepositoryURL, "False", v.reason, v.message)
		set(validRepositoryCredential, "False", v.reason, v.message)
	}
	return st
}

// awayConditions keeps the last verdict while a server does not answer, and says so
// from the second time on: one lost connection is no news. Where there was none
// yet, nothing is known.
func awayConditions(r Repository, v verdict, times int, now time.Time) []Condition {
	list := slices.Clone(r.Status.Conditions)
	if len(list) == 0 || r.Status.Seen == 0 {
		message := "The credential could not be checked yet: " + v.message
		list = setCondition(list, Condition{Type: errorOccurred, Status: "True", Reason: invalidCredentials, Message: message}, now)
		list = setCondition(list, Condition{Type: validRepositoryURL, Status: "Unknown", Reason: invalidCredentials, Message: message}, now)
		return setCondition(list, Condition{Type: validRepositoryCredential, Status: "Unknown", Reason: invalidCredentials, Message: message}, now)
	}
	if times == 2 {
		for i, c := range list {
			if c.Type == errorOccurred {
				list[i].Message = c.Message + " (when last checked; since then: " + v.message + ")"
			}
		}
	}
	return list
}

// setCondition puts a condition into its place; the time is that of its last change
// of status.
func setCondition(list []Condition, c Condition, now time.Time) []Condition {
	for i, old := range list {
		if old.Type != c.Type {
			continue
		}
		c.Changed = old.Changed
		if old.Status != c.Status {
			c.Changed = now.UTC().Truncate(time.Second)
		}
		list[i] = c
		return list
	}
	c.Changed = now.UTC().Truncate(time.Second)
	return append(list, c)
}
