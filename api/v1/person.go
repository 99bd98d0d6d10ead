package v1

import "time"

// CreateUser adds a person to the server's own identity provider:
// POST /api/v1/users, admins only. Nothing shows the password again.
type CreateUser struct {
	Name     string   `json:"name" maxLength:"256" doc:"What they log in with; lower case"`
	Org      string   `json:"org,omitempty" maxLength:"256"`
	Account  string   `json:"account,omitempty" maxLength:"256" doc:"The account_id of their tokens"`
	OrgAdmin bool     `json:"org_admin,omitempty"`
	Roles    []string `json:"roles,omitempty" maxItems:"50" doc:"Of their tokens; drover-admin makes an operator"`
	Password string   `json:"password" maxLength:"512" doc:"8 to 512 bytes"`
}

// SetPassword gives a user another password and ends their logins:
// PUT /api/v1/users/<id or name>/password, admins only.
type SetPassword struct {
	Password string `json:"password" maxLength:"512" doc:"8 to 512 bytes"`
}

// CreateServiceAccount makes an account of a program: POST /api/v1/serviceaccounts.
type CreateServiceAccount struct {
	Name        string `json:"name" maxLength:"256"`
	Description string `json:"description,omitempty" maxLength:"1024"`
}

// ServiceAccount answers POST /api/v1/serviceaccounts and
// POST /api/v1/serviceaccounts/<id or name>/reset. The secret is shown here and
// nowhere else.
type ServiceAccount struct {
	ID           string    `json:"id"`
	Name         string    `json:"name"`
	Description  string    `json:"description,omitempty"`
	Org          string    `json:"org,omitempty"`
	Owner        string    `json:"owner"`
	ClientID     string    `json:"client_id"`
	ClientSecret string    `json:"client_secret"`
	TokenURL     string    `json:"token_url,omitempty" doc:"Where the two are changed for a token (grant_type=client_credentials)"`
	Created      time.Time `json:"created"`
}
