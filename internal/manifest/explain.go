package manifest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	ssaerrors "github.com/fluxcd/pkg/ssa/errors"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"github.com/droverhq/drover/internal/fault"
)

// Explain turns what a cluster answered about an object into a fault in a
// user's words. It quotes no values: they may be secret.
func Explain(err error, id ID) error { return explain(err, id) }

func explain(err error, id ID) error {
	var known *fault.Error
	var dry *ssaerrors.DryRunErr
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &known):
		var asked *url.Error
		switch {
		case !errors.As(err, &asked):
			return err
		case errors.As(asked.Err, &known): // with the time to come back at, where it has one
			return asked.Err
		}
		return known // without the address
	case errors.As(err, &dry):
		return explain(dry.Unwrap(), id)
	case meta.IsNoMatchError(err):
		return fault.New(fault.Invalid, "the cluster does not know the kind %s: install its CustomResourceDefinition first", kindWords(id)).Because("no-such-kind")
	case isDiscovery(err):
		return fault.New(fault.Unavailable, "the cluster cannot tell which kinds it serves; one of its API services is away").Because("discovery")
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return distant(err, id)
	}
	return answered(status.Status(), err, id)
}

func kindWords(id ID) string {
	if id.Group == "" {
		return id.Kind
	}
	return id.Kind + " of " + id.Group
}

func isDiscovery(err error) bool {
	var group *discovery.ErrGroupDiscoveryFailed
	return errors.As(err, &group)
}

// distant explains errors that came from no API server.
func distant(err error, id ID) error {
	var timeout net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fault.New(fault.Unavailable, "the cluster's API server did not answer in time").Because("unreachable")
	case errors.As(err, new(*net.OpError)), errors.As(err, new(*net.DNSError)), strings.Contains(err.Error(), "EOF"), strings.Contains(err.Error(), "connection"):
		return fault.New(fault.Unavailable, "the cluster's API server cannot be reached").Because("unreachable")
	}
	if strings.Contains(err.Error(), "x509:") || strings.Contains(err.Error(), "tls:") {
		return fault.New(fault.Unavailable, "the certificate of the cluster's API server cannot be trusted").Because("unreachable")
	}
	return fault.New(fault.Unavailable, "the answer of the cluster's API server about a %s cannot be understood", id.Kind).Because("server-error")
}

// answered explains a refusal of the API server.
func answered(s metav1.Status, err error, id ID) error {
	text := strings.ToLower(s.Message)
	switch {
	case strings.Contains(text, "database space exceeded") || strings.Contains(text, "no space"):
		return fault.New(fault.Unavailable, "the cluster's storage (etcd) is full: its operator must make room").Because("storage-full")
	case strings.Contains(text, "failed calling webhook"):
		return fault.New(fault.Unavailable, "the admission webhook %s of the cluster does not answer, so %s cannot be applied", quoted(s.Message), id.Words()).Because("webhook-away")
	case hasCause(s, corev1.NamespaceTerminatingCause) || strings.Contains(text, "because it is being terminated"):
		return fault.New(fault.Unavailable, "the namespace %s is being removed: nothing can be made in it until it is gone", id.Namespace).Because("namespace-terminating")
	case strings.Contains(text, "exceeded quota") || strings.Contains(text, "failed quota"):
		return fault.New(fault.Exhausted, "%s does not fit into the quota of the namespace %s%s", id.Words(), id.Namespace, after(s.Message, "quota:")).Because("cluster-quota")
	case strings.Contains(text, "status unknown for quota"): // it was made just now
		return fault.New(fault.Unavailable, "the cluster has not counted yet what the quota of the namespace %s leaves; %s is tried again", id.Namespace, id.Words()).Because("quota-uncounted")
	case denied(text):
		return fault.New(fault.Invalid, "a rule of the cluster refuses %s: %s", id.Words(), denial(s.Message)).Because("admission-denied")
	case strings.Contains(text, "field not declared in schema") || strings.Contains(text, "failed to create typed patch object"):
		return fault.New(fault.Invalid, "%s is not what a %s looks like: %s", id.Words(), id.Kind, undeclared(s.Message)).Because("invalid-manifest")
	case strings.Contains(text, "namespaces \"") && s.Reason == metav1.StatusReasonNotFound:
		return fault.New(fault.Unavailable, "the namespace %s is not there", id.Namespace).Because("namespace-missing")
	}
	return byReason(s, err, id)
}

func byReason(s metav1.Status, err error, id ID) error {
	switch {
	case s.Reason == metav1.StatusReasonConflict || s.Code == http.StatusConflict:
		if others := managers(err); len(others) > 0 {
			return fault.New(fault.Conflict, "%s is also managed by %s, which sets %s otherwise: leave that to one of the two", id.Words(),
				strings.Join(others, ", "), strings.Join(fields(s), ", ")).Because("field-conflict")
		}
		return fault.New(fault.Conflict, "%s is being changed by somebody else again and again", id.Words()).Because("changed-meanwhile")
	case s.Code == http.StatusTooManyRequests:
		return fault.New(fault.Unavailable, "the cluster's API server has too much to do").Because("too-many-requests")
	case s.Code >= http.StatusInternalServerError:
		return fault.New(fault.Unavailable, "the cluster's API server fails (%d)", s.Code).Because("server-error")
	case s.Code == http.StatusUnauthorized:
		return fault.New(fault.Denied, "the cluster does not accept the credentials: they have ended or were withdrawn").Because("unauthorized")
	case s.Code == http.StatusForbidden:
		return fault.New(fault.Denied, "the agent may not write %s: give its account the right to%s", id.Words(), right(s.Message)).Because("forbidden")
	case s.Code == http.StatusNotFound:
		return fault.New(fault.Invalid, "the cluster does not serve %s: install its CustomResourceDefinition first", kindWords(id)).Because("no-such-kind")
	case s.Code == http.StatusRequestEntityTooLarge:
		return fault.New(fault.Invalid, "%s is too large for the cluster", id.Words()).Because("too-large")
	case s.Code >= http.StatusBadRequest:
		return fault.New(fault.Invalid, "%s is not valid%s", id.Words(), mistakes(s)).Because("invalid-manifest")
	}
	return fault.New(fault.Unavailable, "the cluster's API server answers in a way that cannot be understood (%d)", s.Code).Because("server-error")
}

// cannot is what Kubernetes says of a right that is missing: it names no values.
var cannot = regexp.MustCompile(`cannot ([a-z]+) resource "([a-z0-9./-]+)" in API group "([a-z0-9.-]*)"`)

// right is the one that is missing, as roles have it; empty: that is not told.
func right(message string) string {
	m := cannot.FindStringSubmatch(message)
	if m == nil {
		return ""
	}
	if m[3] != "" {
		m[2] += "." + m[3]
	}
	return " (" + m[1] + " " + m[2] + ")"
}

func hasCause(s metav1.Status, name metav1.CauseType) bool {
	return s.Details != nil && slices.ContainsFunc(s.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == name })
}

var managerText = regexp.MustCompile(`conflict with "([^"]*)"`)

// managers that the fields belong to which a write would change.
func managers(err error) []string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	var all []string
	for _, c := range status.Status().Details.Causes {
		if c.Type != metav1.CauseTypeFieldManagerConflict {
			continue
		}
		if m := managerText.FindStringSubmatch(c.Message); m != nil {
			all = append(all, m[1])
		} else {
			all = append(all, "somebody else")
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func fields(s metav1.Status) []string {
	var all []string
	for _, c := range s.Details.Causes {
		all = append(all, strings.TrimPrefix(c.Field, "."))
	}
	slices.Sort(all)
	return some(slices.Compact(all))
}

// some of many: a message is read by people.
func some(all []string) []string {
	if len(all) > 5 {
		return append(all[:5:5], "...")
	}
	return all
}

func denied(text string) bool {
	return strings.Contains(text, "denied the request") || strings.Contains(text, "denied request") || strings.Contains(text, "violates podsecurity")
}

// denial is what whoever wrote the rule wants users to read.
func denial(message string) string {
	for _, mark := range []string{"denied the request: ", "denied request: ", "is forbidden: "} {
		if _, words, ok := strings.Cut(message, mark); ok {
			return short(words)
		}
	}
	return short(message)
}

var (
	quotedText = regexp.MustCompile(`"([^"]*)"`)
	fieldText  = regexp.MustCompile(`\.[\w.\[\]"=:-]+: field not declared in schema`)
)

func quoted(message string) string {
	if m := quotedText.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	return "(unnamed)"
}

func undeclared(message string) string {
	if m := fieldText.FindAllString(message, 5); m != nil {
		for i := range m {
			m[i] = strings.TrimSuffix(strings.TrimPrefix(m[i], "."), ": field not declared in schema")
		}
		return "it has no field " + strings.Join(m, ", ")
	}
	return "a field has the wrong type"
}

func after(message, mark string) string {
	if _, words, ok := strings.Cut(message, mark); ok {
		return ": " + short(words)
	}
	return ""
}

// mistakes lists what is wrong by field, without the values.
func mistakes(s metav1.Status) string {
	if s.Details == nil || len(s.Details.Causes) == 0 {
		return ": a field has the wrong type or a wrong name"
	}
	var all []string
	for _, c := range s.Details.Causes {
		all = append(all, strings.TrimSuffix(c.Field+": "+valueless(c.Message), ": "))
	}
	slices.Sort(all)
	return ": " + strings.Join(some(slices.Compact(all)), "; ")
}

var valueText = regexp.MustCompile(`^(Invalid value|Unsupported value|Duplicate value|Not found): `)

// valueless cuts the value out of "Invalid value: <value>: <detail>".
func valueless(message string) string {
	m := valueText.FindStringSubmatch(message)
	if m == nil {
		return short(message)
	}
	rest := message[len(m[0]):]
	end := 0
	switch {
	case strings.HasPrefix(rest, `"`):
		for end = 1; end < len(rest) && rest[end] != '"'; end++ {
			if rest[end] == '\\' {
				end++
			}
		}
		end++
	case strings.HasPrefix(rest, "{"):
		end = strings.LastIndex(rest, "}: ") + 1
	case strings.HasPrefix(rest, "["):
		end = strings.LastIndex(rest, "]: ") + 1
	default:
		end = strings.Index(rest, ": ")
	}
	if end <= 0 || end >= len(rest) {
		return m[1]
	}
	return m[1] + ": " + short(strings.TrimPrefix(rest[end:], ": "))
}

func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 300 {
		return string(r[:297]) + "..."
	}
	return s
}

// holders says what keeps an object that is being removed.
func holders(o *unstructured.Unstructured) string {
	if f := o.GetFinalizers(); len(f) > 0 {
		return " (held by " + strings.Join(some(f), ", ") + ")"
	}
	return ""
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}
