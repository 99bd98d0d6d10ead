package sso

// Identity is a person as the directory of users knows them, for a provider that
// lets people log in.
type Identity struct {
	ID       string // never used again for somebody else
	Name     string // what they log in with
	Org      string
	Account  string
	OrgAdmin bool
	Roles    []string
	// Epoch moves when the password changes: logins of an earlier one are over.
	Epoch int64
}
