package v1

import "time"

// WhoAmI tells callers who the server takes them for: GET /api/v1/whoami.
type WhoAmI struct {
	User     string `json:"user,omitempty"`
	Org      string `json:"org,omitempty"`
	OrgAdmin bool   `json:"org_admin,omitempty"`
	Admin    bool   `json:"admin,omitempty"`
	Cluster  string `json:"cluster,omitempty" doc:"Set when the caller is this cluster's agent"`
}

// Ledger tells where the log stands and what work is due: GET /api/v1/ledger.
type Ledger struct {
	Ledger  string    `json:"ledger" doc:"Identity of the ledger"`
	Epoch   int64     `json:"epoch"`
	Seq     int64     `json:"seq" doc:"The newest sequence of the log"`
	At      time.Time `json:"at"`
	Backlog []Backlog `json:"backlog" doc:"Due work per kind"`
}

// Backlog counts the work of one kind.
type Backlog struct {
	Kind    string  `json:"kind"`
	Due     int64   `json:"due"`
	Running int64   `json:"running"`
	Waiting int64   `json:"waiting"`
	Oldest  float64 `json:"oldest" doc:"Seconds that the oldest due piece has waited"`
}
