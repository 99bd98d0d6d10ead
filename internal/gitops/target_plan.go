package gitops

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/droverhq/drover/internal/fault"
)

// connectionInitialized is the type of a target's one condition.
const connectionInitialized = "ConnectionInitializationSucceeded"

// Reasons of that condition. SecretNotSpecified and SecretNotFound are reasons too.
const (
	connectionSucceeded     = "Succeeded"
	unsupportedAPIURL       = "UnsupportedAPIURL"
	invalidSecretType       = "InvalidSecretType"
	missingKubeConfigField  = "MissingKubeConfigField"
	unableToParseKubeconfig = "UnableToParseKubeconfigData"
	unableToLocateContext   = "UnableToLocateContext"
	unableToRetrieveConfig  = "UnableToRetrieveRestConfig"
	unableToCreateClient    = "UnableToCreateClient"
	unableToValidate        = "UnableToValidateClusterCredentials"
	unableToInstall         = "UnableToInstallServiceAccount"
	unableToCreateAccess    = "UnableToCreateClusterCredentials"
	invalidNamespaceList    = "InvalidNamespaceList"
	kubernetesError         = "KubernetesError"
	databaseError           = "DatabaseError"
	unknownTargetError      = "UnknownError"
)

// Messages about credentials of a target that do not work, as users know them.
const (
	TargetUnverified = "Unable to validate the credentials provided in the ManagedEnvironment Secret. Verify the API URL, and service account token are correct."
	TargetForbidden  = "Provided service account does not have permission to access resources in the cluster. Verify that the service account has the correct Role and RoleBinding."
	TargetUnknownCA  = "Certificate signed by unknown authority. Note that the '.spec.allowInsecureSkipTLSVerify' field can be used to ignore this error."
)

const (
	targetEvery   = 10 * time.Minute
	targetSoon    = time.Minute
	removeTries   = 5 // to take an account away from a cluster
	maxNamespaces = 500
	maxLeft       = 10
)

// targetStep is what a target needs next.
type targetStep int

const (
	targetRest   targetStep = iota
	targetJudge             // its spec says enough
	targetCheck             // its cluster is asked
	targetDetach            // its deployments lose it
	targetClear             // what was made on it is removed
	targetEnd               // it is gone
	targetBury              // what is left of its secrets goes too
	targetBar               // nothing is done for its organisation
)

// planTarget decides by what is known of a target, and whether anything is done for
// its organisation.
func planTarget(t Target, barred bool, now time.Time) (targetStep, time.Duration) {
	switch {
	case t.Phase == Gone:
		return targetBury, retireAfter
	case t.Spec.Deleted && t.Status.Access != nil:
		return targetDetach, 0
	case t.Spec.Deleted && len(t.Status.Accounts)+len(t.Status.Left) > 0 && t.Status.Tries < removeTries:
		return targetClear, 0
	case t.Spec.Deleted:
		return targetEnd, 0
	case barred && (!t.Status.Barred || t.Status.Seen != t.Generation):
		return targetBar, 0
	case barred:
		return targetRest, targetEvery
	case obviousFlaw(t.Spec) != nil:
		if t.Status.Seen == t.Generation && !t.Status.Barred {
			return targetRest, targetEvery
		}
		return targetJudge, 0
	case t.Status.Seen != t.Generation, t.Status.Barred:
		return targetCheck, 0
	}
	every := targetEvery
	if t.Status.Unreached > 0 {
		every = targetSoon
	}
	if left := t.Status.Checked.Add(every).Sub(now); left > 0 {
		return targetRest, left
	}
	return targetCheck, 0
}

// obviousFlaw is what is wrong with a target whatever its kubeconfig says.
func obviousFlaw(s TargetSpec) *flaw {
	switch s.Problem {
	case "":
	case secretNotSpecified:
		return flawed(secretNotSpecified, "The credentialsSecret field is missing a value")
	case secretNotFound:
		return flawed(secretNotFound, "The Secret %s was not found in the namespace", s.Secret)
	case invalidSecretType:
		return flawed(invalidSecretType, "invalid secret type: %s", s.SecretType)
	case kubernetesError:
		return flawed(kubernetesError, "The Secret %s cannot be read: Kubernetes does not let the server's account read it, or fails. It is tried again", s.Secret)
	case missingKubeConfigField:
		return flawed(missingKubeConfigField, "missing kubeconfig field in Secret")
	default:
		return flawed(unableToParseKubeconfig, "the kubeconfig of Secret %s is larger than %d KiB", s.Secret, maxKubeconfig>>10)
	}
	if why := badAPIURL(s.URL); why != "" {
		return flawed(unsupportedAPIURL, "%s", why)
	}
	if len(s.Namespaces) > maxNamespaces {
		return flawed(invalidNamespaceList, "there are more than %d namespaces", maxNamespaces)
	}
	for _, n := range s.Namespaces {
		if !label.MatchString(n) {
			return flawed(invalidNamespaceList, "ManagedEnvironment contains an invalid namespace in namespaces list: %s", cut(n, 128))
		}
	}
	return nil
}

// badAPIURL says what is wrong with the address of a cluster.
func badAPIURL(text string) string {
	if strings.ContainsAny(text, "?&") {
		return "the API URL must not have ? or & values"
	}
	u, err := url.Parse(text)
	switch {
	case len(text) > maxURL || hidden(text):
		return "the API URL is too long, or holds characters that cannot be seen"
	case err != nil || !strings.EqualFold(u.Scheme, "https") || u.Hostname() == "":
		return "cluster api url must start with https://"
	case u.User != nil || u.Fragment != "":
		return "the API URL must not have a user or a fragment"
	}
	return ""
}

// targetFound is what was found out about a cluster.
type targetFound struct {
	flaw   *flaw
	status string // of the condition; with flaw
	away   bool   // the cluster did not answer: the last verdict stands
	access *Access
	made   string // account that is there now
}

// judgeRemote makes a verdict of what a cluster answered.
func judgeRemote(err error) targetFound {
	reason := fault.Reason(err)
	known := []string{unableToCreateClient, unableToValidate, unableToInstall, unableToCreateAccess, unableToRetrieveConfig}
	if !slices.Contains(known, reason) {
		reason = unableToValidate
	}
	switch fault.Of(err) {
	case fault.Unavailable, fault.Exhausted:
		return targetFound{away: true, status: "Unknown", flaw: &flaw{reason, err.Error()}}
	case fault.Internal:
		return targetFound{status: "Unknown", flaw: &flaw{unknownTargetError, "The cluster could not be looked at: an internal error"}}
	}
	status := "False"
	if reason == unableToValidate {
		status = "Unknown"
	}
	return targetFound{status: status, flaw: &flaw{reason, err.Error()}}
}

// unkept is the verdict on a ledger that has not what it should have, or does not take
// it. One that is away says so by itself when it is back, and could not be told here.
func unkept(err error, what string) (targetFound, error) {
	if fault.Is(err, fault.Unavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return targetFound{}, err
	}
	return targetFound{status: "Unknown", flaw: flawed(databaseError, "The ledger %s: look at the server's master key, then write the Secret anew", what)}, nil
}

// settleTarget is the status after a verdict. What deployments use changes only by
// a good one.
func settleTarget(t Target, f targetFound, now time.Time) TargetStatus {
	st := t.Status
	st.Checked = now.UTC()
	if f.made != "" && !slices.Contains(st.Accounts, f.made) {
		st.Accounts = append(slices.Clone(st.Accounts), f.made)
	}
	set := func(status, reason, message string) {
		var list []Condition
		if st.Condition != nil {
			list = []Condition{*st.Condition}
		}
		list = setCondition(list, Condition{Type: connectionInitialized, Status: status, Reason: reason, Message: message}, now)
		st.Condition = &list[0]
	}
	if f.away {
		st.Unreached++
		// One lost connection is no news; from the second on it is told, and what
		// deployments use stays.
		if st.Condition == nil || st.Seen == 0 || st.Unreached >= 2 {
			set("Unknown", f.flaw.reason, f.flaw.message)
			st.Ready = false
		}
		return st
	}
	st.Unreached, st.Seen, st.Barred = 0, t.Generation, f.flaw != nil && f.flaw.reason == notPermitted
	if f.flaw != nil {
		st.Ready = false
		status := cmp.Or(f.status, "False")
		if slices.Contains([]string{unsupportedAPIURL, invalidNamespaceList, kubernetesError}, f.flaw.reason) {
			status = "Unknown" // as users know it: nobody has looked
		}
		set(status, f.flaw.reason, f.flaw.message)
		return st
	}
	st.Ready = true
	set("True", connectionSucceeded, "")
	before := t.own()
	st.Access = f.access
	t.Status = st
	st.Retired = retire(st.Retired, before, t.refs(), now)
	return st
}
