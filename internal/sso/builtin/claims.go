package builtin

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zitadel/oidc/v3/pkg/oidc"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/sso"
)

// program is the login of a client by its own credentials. Nothing is kept of
// it: programs come every few minutes.
type program struct {
	client string
	spec   clientSpec
	scopes []string
	aud    []string
}

func (r *program) GetSubject() string    { return "service-account-" + r.client }
func (r *program) GetAudience() []string { return r.aud }
func (r *program) GetScopes() []string   { return r.scopes }

// claims of a program's token. What its owner wrote never replaces what says
// whose token it is.
func (r *program) claims() map[string]any {
	m := map[string]any{"preferred_username": "service-account-" + r.client}
	for k, v := range r.spec.Claims {
		m[k] = v
	}
	delete(m, "auth_time")
	m["clientId"], m["azp"], m["typ"] = r.client, r.client, "Bearer"
	m["scope"] = strings.Join(r.scopes, " ")
	m["realm_access"] = roles(r.spec.Roles)
	return m
}

// claims of a person's token.
func (s *session) claims() map[string]any {
	m := personal(s.who)
	m["azp"], m["typ"], m["sid"] = s.spec.Request.Client, "Bearer", s.id
	m["scope"] = strings.Join(s.GetScopes(), " ")
	return m
}

// personal is what both an access token and the user's own information say.
func personal(who sso.Identity) map[string]any {
	m := map[string]any{
		"username": who.Name, "preferred_username": who.Name,
		"is_org_admin": who.OrgAdmin, "realm_access": roles(who.Roles),
	}
	if who.Org != "" {
		m["org_id"], m["rh-org-id"] = who.Org, who.Org
	}
	if who.Account != "" {
		m["account_id"], m["rh-user-id"] = who.Account, who.Account
	}
	return m
}

func roles(names []string) map[string]any {
	if names == nil {
		names = []string{}
	}
	return map[string]any{"roles": names}
}

// info is what an application is told of a person.
func info(u *oidc.UserInfo, who sso.Identity) {
	u.Subject, u.PreferredUsername, u.Name = who.ID, who.Name, who.Name
	for k, v := range personal(who) {
		if k != "preferred_username" {
			u.AppendClaims(k, v)
		}
	}
}

// A token's id says which login it belongs to ("p." for a program's own), and
// since when.
const ofProgram = "p"

func tokenID(login string, at time.Time) string {
	return fmt.Sprintf("%s.%s.%d", login, ledger.NewID(), at.Unix())
}

func parseTokenID(id string) (login string, at time.Time, ok bool) {
	parts := strings.Split(id, ".")
	if len(parts) != 3 || len(id) > maxID {
		return "", time.Time{}, false
	}
	unix, err := strconv.ParseInt(parts[2], 10, 64)
	return parts[0], time.Unix(unix, 0), err == nil
}
