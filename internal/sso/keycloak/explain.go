package keycloak

import (
	"net/http"

	"github.com/droverhq/drover/internal/fault"
)

// moved is the reason of a Conflict with another writer of the same client:
// looking again mends it.
const moved = "moved"

// foreign is the reason of a Conflict with a client that is not ours.
const foreign = "foreign"

// explain gives an answer of the server its kind. The server's own words are
// left out: they may repeat what they were asked, and that has secrets in it.
func explain(what string, status int, err error) error {
	if err == nil {
		return nil
	}
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return fault.New(fault.Invalid, "cannot %s: the identity provider refuses it (%d)", what, status)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fault.New(fault.Unavailable, "cannot %s: the identity provider does not let Drover's account do it (%d)", what, status)
	case http.StatusNotFound, http.StatusConflict:
		return fault.New(fault.Conflict, "cannot %s: somebody changed it meanwhile (%d)", what, status).Because(moved)
	case 0:
		return fault.New(fault.Unavailable, "cannot %s: the identity provider cannot be reached", what)
	case http.StatusOK:
		return fault.New(fault.Unavailable, "cannot %s: what answers is no identity provider", what)
	default:
		return fault.New(fault.Unavailable, "cannot %s: the identity provider answers %d", what, status)
	}
}
