package v1

import "time"

// Site is one of two sites, as it sees itself: GET /api/v1/site.
type Site struct {
	Site  string `json:"site,omitempty" doc:"Its name"`
	Role  string `json:"role" doc:"What it was started as: standalone, primary or secondary"`
	State string `json:"state" doc:"What it does: leading (it takes writes), following (reads alone), waiting (it may come to lead), fenced (another one leads in a higher epoch)"`
	Why   string `json:"why,omitempty" doc:"Where it does not lead"`
	URL   string `json:"url,omitempty" doc:"Where others reach it"`

	Ledger  string `json:"ledger,omitempty"`
	Epoch   int64  `json:"epoch" doc:"Of its ledger"`
	Seq     int64  `json:"seq" doc:"The newest change that can be read there"`
	Age     int64  `json:"age_ms" doc:"Milliseconds since that was looked at"`
	Standby bool   `json:"standby,omitempty" doc:"Its database is a standby"`
	Lag     *Lag   `json:"lag,omitempty" doc:"Of a site that does not lead"`

	Primary string     `json:"primary,omitempty" doc:"Where to write"`
	Sites   []string   `json:"sites,omitempty" doc:"Where both are reached"`
	Lease   *SiteLease `json:"lease,omitempty" doc:"Where there is a witness"`
	Peer    *PeerSite  `json:"peer,omitempty" doc:"The other site, as this one has heard of it"`
	Version string     `json:"version,omitempty"`
}

// Lag is how old what is read may be, at most.
type Lag struct {
	Seconds float64 `json:"seconds"`
}

// SiteLease is what a site knows of the witness's lease.
type SiteLease struct {
	Holder string     `json:"holder,omitempty" doc:"The site that has it; empty: none"`
	Until  *time.Time `json:"until,omitempty" doc:"Until when this site acts on it"`
	Error  string     `json:"error,omitempty" doc:"Why the witness could not be asked"`
}

// PeerSite is the other site.
type PeerSite struct {
	URL   string     `json:"url"`
	Site  string     `json:"site,omitempty"`
	State string     `json:"state,omitempty"`
	Epoch int64      `json:"epoch,omitempty"`
	Seq   int64      `json:"seq,omitempty"`
	Heard *time.Time `json:"heard,omitempty" doc:"When it answered last; absent: it has not"`
	Error string     `json:"error,omitempty" doc:"Why it did not answer"`
	// Drained is heard over the bus.
	Drained *time.Time `json:"drained,omitempty" doc:"When it said that it is about to end; absent: it did not, works again, or somebody has led since"`
}

// PromoteSite is an operator's word: POST /api/v1/site/promote.
type PromoteSite struct {
	PrimaryIsGone bool `json:"primary_is_gone" doc:"The operator says that the other site does not act, and will not"`
}

// Drill is how a rehearsal of a promotion went.
type Drill struct {
	// RPO is what would have been lost had the primary gone when the drill began.
	RPO     float64 `json:"rpo_seconds"`
	Changes int64   `json:"rpo_changes"`
	// RTO is from the promotion of the copy until it took writes in a new epoch.
	RTO float64 `json:"rto_seconds"`

	Epoch        int64        `json:"epoch" doc:"That the copy has begun"`
	Seq          int64        `json:"seq" doc:"The newest change in the copy"`
	Copied       float64      `json:"copied_seconds"`
	Verified     float64      `json:"verified_seconds"`
	Verification Verification `json:"verification"`
}
