package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
)

// code is an entry of the error catalogue that every API of the server shares.
type code struct {
	id     int
	status int
	text   string // what it means, and what a user reads when there is nothing better to say
}

// catalogue is numbered like that of the fleet managers whose clients talk to
// this server; numbers that nothing returns yet keep their meaning.
var catalogue = []code{
	{4, 403, "This action is forbidden for this user"},
	{5, 403, "The maximum number of instances allowed is reached"},
	{6, 409, "The request conflicts with what is there already"},
	{7, 404, "Resource not found"},
	{8, 400, "General validation failure"},
	{9, 500, "Unspecified error"},
	{10, 405, "HTTP method not implemented for this endpoint"},
	{11, 403, "Account is unauthorized to perform this action"},
	{12, 403, "Required terms have not been accepted"},
	{15, 401, "Account authentication could not be verified"},
	{17, 400, "Unable to read the request: its body or its list arguments are malformed"},
	{18, 403, "The service is under maintenance"},
	{21, 400, "Bad request"},
	{23, 400, "Failed to parse the search query"},
	{24, 403, "The maximum number of instances that can be hosted is reached"},
	{25, 410, "Resource gone"},
	{30, 400, "Provider not supported"},
	{31, 400, "Region not supported"},
	{32, 400, "Invalid instance name"},
	{33, 400, "Minimum field length not reached"},
	{34, 400, "Maximum field length exceeded"},
	{35, 400, "Only multiple availability zones are supported"},
	{36, 409, "Instance name is already used"},
	{37, 400, "Field validation failed"},
	{38, 400, "Invalid service account name"},
	{39, 400, "Invalid service account description"},
	{40, 400, "Invalid service account id"},
	{41, 400, "Instance type not supported"},
	{42, 400, "Instance plan not supported"},
	{43, 400, "Billing account id missing or invalid"},
	{44, 409, "Cluster id is already used"},
	{45, 400, "Invalid cluster id"},
	{46, 400, "Invalid external cluster id"},
	{47, 400, "Invalid DNS name"},
	{103, 400, "Synchronous action is not supported, use async=true"},
	{106, 500, "Failed to create the client of the identity provider"},
	{107, 500, "Failed to get the client secret of the identity provider"},
	{108, 500, "Failed to get the client of the identity provider"},
	{109, 500, "Failed to delete the client of the identity provider"},
	{110, 500, "Failed to create a service account"},
	{111, 500, "Failed to get a service account"},
	{112, 500, "Failed to delete a service account"},
	{113, 404, "Service account not found"},
	{115, 403, "The maximum number of service accounts is reached"},
	{120, 403, "Insufficient quota"},
	{121, 500, "Failed to check quota"},
	{429, 429, "Too many requests"},
	{1000, 500, "Unable to send an error response"},
}

// reasons narrows kinds down to codes.
var reasons = map[string]int{
	"name-taken": 36, "name-invalid": 32, "name-short": 33, "name-long": 34,
	"provider": 30, "region": 31, "type": 41, "plan": 42, "multi-az": 35,
	"parameters": 37, "field": 37, "capacity": 24, "limit": 5, "quota": 120,
	"body": 17, "list": 17, "search": 23, "async": 103,
	"denied": 4, "token": 15, "method": 10, "rate": 429, "gone": 25, "truncated": 25,
	"terms": 12, "maintenance": 18, "billing": 21, "metrics": 21, "billing-account": 43, "promotion": 6,
	"account-name": 38, "account-description": 39, "account-id": 40, "account": 113, "account-limit": 115,
	"account-create": 110, "account-get": 111, "account-delete": 112, "quota-check": 121,
	"sso-create": 106, "sso-secret": 107, "sso-get": 108, "sso-delete": 109,
	"secondary":     421,
	"cluster-taken": 44, "cluster-id": 45, "external-id": 46, "dns-name": 47,
}

// kinds are the codes of errors whose reason says nothing here.
var kinds = map[fault.Kind]int{
	fault.Internal: 9, fault.Invalid: 8, fault.NotFound: 7, fault.Conflict: 6,
	fault.Denied: 11, fault.Exhausted: 24, fault.Unavailable: 9,
}

// causes are what users may know of what this server stands on: a sentence for a
// reason, and never an error's own text.
var causes = map[string]string{
	"disk-full":       "the disk is full",
	"disk-fails":      "the disk fails",
	"database-away":   "the database does not answer",
	"database-busy":   "the database does not keep up",
	"outcome-unknown": "whether it was done is not known",
	"broker-away":     "the broker cannot be reached",
	"broker-blocked":  "the broker takes no messages",
	noRecord:          "the call cannot be put on record",
}

const noRecord = "no-record"

// causeOf is the first word that is known of an error; of one that cannot be put on
// record, also why not.
func causeOf(err error) string {
	said := ""
	var e *fault.Error
	for ; errors.As(err, &e) && e.Kind == fault.Unavailable; err = e.Unwrap() {
		switch word := causes[e.Reason]; {
		case word == "":
		case said == "" && e.Reason == noRecord:
			said = word
		case said == "":
			return word
		case e.Reason != "outcome-unknown": // nothing but the record was tried
			return said + ": " + word
		}
	}
	return cmp.Or(said, "the service is not available at the moment")
}

// answer is what an error becomes on the wire.
type answer struct {
	status int
	code   int
	reason string
	retry  int // seconds for Retry-After; 0 = the header is not sent
}

// answerTo is the one place where errors become statuses and codes. own are the
// numbers that an offering gives to reasons.
func answerTo(err error, own map[string]int64) answer {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return answer{status: 400, code: 17, reason: "the body is larger than " + strconv.FormatInt(tooLarge.Limit, 10) + " bytes"}
	case fault.Of(err) == fault.Internal && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		return answer{status: 503, code: 9, reason: "the request took too long; try again", retry: 1}
	}
	kind := fault.Of(err)
	reason := fault.Reason(err)
	if reason == "secondary" { // a number of its own would be one that clients of other fleet managers do not know
		return answer{status: http.StatusMisdirectedRequest, code: kinds[fault.Conflict], reason: err.Error()}
	}
	id, ok := reasons[reason]
	if n, renumbered := own[reason]; renumbered {
		id, ok = int(n), true
	}
	if !ok {
		id = kinds[kind]
	}
	a := answer{code: id, reason: err.Error()}
	switch kind {
	case fault.Internal:
		// Nothing about a defect is for users; the log has it.
		return answer{status: 500, code: 9, reason: "internal error"}
	case fault.Unavailable:
		// Of what this server stands on, a word that gives nothing away. What it could not do at whom it
		// depends on has a number of its own.
		if c, _ := lookup(id); ok && c.status >= 500 {
			return answer{status: c.status, code: id, reason: c.text + "; try again", retry: 1}
		}
		return answer{status: 503, code: 9, reason: causeOf(err) + "; try again", retry: 1}
	}
	c, known := lookup(a.code)
	if !known {
		c, _ = lookup(kinds[kind])
	}
	if kind == fault.Invalid && c.status == http.StatusConflict {
		c, _ = lookup(21) // the same reason, but no state will make it right
	}
	a.code = c.id
	if a.status = c.status; a.status == http.StatusTooManyRequests {
		a.retry = 1
	}
	return a
}

func lookup(id int) (code, bool) {
	for _, c := range catalogue {
		if c.id == id {
			return c, true
		}
	}
	return code{}, false
}

// face is how an API of the server names its errors.
type face struct {
	prefix string           // "DINOSAURS-MGMT"
	base   string           // "/api/dinosaurs_mgmt/v1"
	codes  map[string]int64 // numbers of its own for reasons
}

var ownFace = face{prefix: "DROVER", base: "/api/v1"}

func (f face) object(id int, reason, operation string) v1.Error {
	n := strconv.Itoa(id)
	return v1.Error{
		ID: n, Kind: "Error", Href: f.base + "/errors/" + n, Code: f.prefix + "-" + n,
		Reason: reason, OperationID: operation,
	}
}

// problem returns the status and the error object of an error, and leaves word
// for the request's log: the one place that logs it.
func (s *server) problem(w http.ResponseWriter, r *http.Request, err error) (int, v1.Error) {
	t := traceOf(r.Context())
	a := answerTo(err, t.face.codes)
	t.err = err
	if a.retry > 0 && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", strconv.Itoa(a.retry))
	}
	if a.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	return a.status, t.face.object(a.code, a.reason, t.id)
}

// fail answers with the error object.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	status, e := s.problem(w, r, err)
	if issuers(r.URL.Path) {
		writeJSON(w, status, issuerError(status, e, fault.Reason(err)))
		return
	}
	writeJSON(w, status, e)
}
