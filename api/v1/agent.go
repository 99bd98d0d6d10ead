package v1

import "encoding/json"

// Desired is the full desired state of one cluster, as the server streams it to
// the agent: GET /api/v1/clusters/<id>/desired with the query parameters agent
// (Report.Agent) and installation (Report.Installation), server-sent
// events named "desired" whose data is one message, one per change and always
// complete; comments keep the connection alive. With the agent's id the server
// knows that a process is gone when its stream ends, and a restarted one need
// not wait to be heard.
//
// A cluster belongs to the first installation that connects. Any other is
// answered 409, by every replica, until an operator hands the cluster over:
// PATCH /api/v1/clusters/<id> (UpdateCluster). A stream ends when its
// installation has lost the cluster.
//
// An item whose body the agent has been sent on this connection comes
// without the body; the digest says which one is meant. An item that is not
// listed is left alone: only Delete asks for a removal.
type Desired struct {
	Ledger string `json:"ledger" doc:"Identity of the ledger"`
	Epoch  int64  `json:"epoch" doc:"Moves when the ledger is restored or promoted; an agent freezes on a lower one"`
	Seq    int64  `json:"seq" doc:"The log's sequence that this state reflects"`
	Digest string `json:"digest" doc:"sha256 over the items' ids, generations, digests and deletions, in order"`
	Items  []Item `json:"items" doc:"Sorted by id"`
}

// Item is one instance as the data plane must have it.
type Item struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind,omitempty" doc:"Empty: an instance; step: a part of what makes the cluster fit"`
	Generation int64           `json:"generation"`
	Token      int64           `json:"token" doc:"Fence: a runtime refuses an item with a lower one than it has seen"`
	Digest     string          `json:"digest" doc:"sha256 of the body"`
	Filled     bool            `json:"filled,omitempty" doc:"Secrets were put into the body after its digest was made: the digest tells bodies apart but does not fit this one"`
	Delete     bool            `json:"delete,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"`
	Proof      string          `json:"proof,omitempty" doc:"Signature of the control plane over SignedBytes, as a JWS with detached content"`
}

// Report is what an agent observes: PUT /api/v1/clusters/<id>/observed. It is
// sent when something changed and as a heartbeat; items that did not change
// since the last acknowledged report may be left out, and what is left out
// changes nothing.
type Report struct {
	Epoch        int64          `json:"epoch"`
	Seq          int64          `json:"seq" doc:"Of the Desired that the agent works on"`
	Agent        string         `json:"agent" doc:"Random per agent process; a second one at the same time is refused"`
	Installation string         `json:"installation,omitempty" doc:"Made once per installation of the agent and kept over its restarts; another one than the cluster's is refused"`
	Number       int64          `json:"number" doc:"Counts up; late reports are ignored"`
	Ready        bool           `json:"ready"`
	Capacity     int64          `json:"capacity" doc:"Units that the cluster can hold in all"`
	Items        []ObservedItem `json:"items,omitempty"`
}

// ObservedItem is one instance as the data plane has it.
type ObservedItem struct {
	ID         string            `json:"id"`
	Kind       string            `json:"kind,omitempty" doc:"Of the item that was applied"`
	Generation int64             `json:"generation" doc:"Of the item that was applied"`
	State      string            `json:"state" enum:"installing,ready,suspended,deleted,error,rejected"`
	Message    string            `json:"message,omitempty" doc:"For the user, when it is not ready"`
	Versions   map[string]string `json:"versions,omitempty"`
	Routes     map[string]string `json:"routes,omitempty" doc:"Host to address inside the data plane"`
	Conditions []Condition       `json:"conditions,omitempty"`
}

// Acknowledged answers a report.
type Acknowledged struct {
	Epoch int64 `json:"epoch"`
	Seq   int64 `json:"seq"`
}

// AgentCredentials are what the agent of a cluster logs in with at the identity
// provider: POST /api/v1/clusters/<id>/credentials, for operators.
type AgentCredentials struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	TokenURL     string `json:"token_url,omitempty"`
}
