package v1

import "time"

// Join is how a cluster's agent is brought onto it: POST
// /api/v1/clusters/<id>/join, for operators. Both lines hold a token that is good
// for fetching the agent's manifests alone, until it expires.
type Join struct {
	Command string    `json:"command" doc:"A kubectl line that installs the agent, for whoever administrates the cluster"`
	Helm    string    `json:"helm" doc:"The same with Helm and the chart of the repository's deploy/helm"`
	Expires time.Time `json:"expires" doc:"When the lines stop working; the agent that they installed goes on"`
}
