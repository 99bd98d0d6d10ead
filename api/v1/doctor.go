package v1

import "time"

// Diagnosis says how a server is: GET /api/v1/doctor.
type Diagnosis struct {
	Healthy  bool      `json:"healthy" doc:"No finding is more than a note"`
	At       time.Time `json:"at" doc:"By the clock of the replica that answered"`
	Version  string    `json:"version,omitempty" doc:"Of its program"`
	Database string    `json:"database,omitempty"`
	Findings []Finding `json:"findings" doc:"The worst first"`
}

// Finding is one thing that is not as it should be.
type Finding struct {
	ID       string   `json:"id" doc:"The same for the same trouble"`
	Severity string   `json:"severity" enum:"critical,warning,note" doc:"critical: something does not work now; warning: it will not for long, or not for somebody; note: nothing is wrong"`
	What     string   `json:"what"`
	Why      string   `json:"why,omitempty"`
	Do       []string `json:"do,omitempty" doc:"What helps: commands first"`
	Examples []string `json:"examples,omitempty" doc:"Of many, the first few"`
	Count    int64    `json:"count,omitempty" doc:"How many there are"`
}
