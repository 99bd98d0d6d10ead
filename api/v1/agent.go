package v1

import "encoding/json"

// Item is one instance as the data plane must have it.
type Item struct {
	ID         string          `json:"id"`
	Kind       string          `json:"kind,omitempty" doc:"Empty: an instance; step: a part of what makes the cluster fit; deployment: a directory of a Git repository"`
	Generation int64           `json:"generation"`
	Token      int64           `json:"token" doc:"Fence: a runtime refuses an item with a lower one than it has seen"`
	Digest     string          `json:"digest" doc:"sha256 of the body"`
	Filled     bool            `json:"filled,omitempty" doc:"Secrets were put into the body after its digest was made: the digest tells bodies apart but does not fit this one"`
	Delete     bool            `json:"delete,omitempty"`
	Body       json.RawMessage `json:"body,omitempty"`
	Proof      string          `json:"proof,omitempty" doc:"Signature of the control plane over SignedBytes, as a JWS with detached content. It comes with the body and with a removal; for an item without a body the one that came with the body holds"`
	Trace      string          `json:"trace,omitempty" doc:"W3C traceparent of what wanted it last, if that is followed; says nothing of the item"`
	Cause      string          `json:"cause,omitempty" doc:"What wanted it last, request:ID where a request did; empty: not known any more. For the agent's log"`
	Org        string          `json:"org,omitempty" doc:"Whose it is; it comes with the body. For the agent's log"`
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
	Detail     json.RawMessage   `json:"detail,omitempty" doc:"Of a deployment: its sync status, health, resources, history"`
	Trace      string            `json:"trace,omitempty" doc:"W3C traceparent of what was done to it last, if that is followed; says nothing of the item"`
}

// AgentCredentials are what the agent of a cluster logs in with at the identity
// provider: POST /api/v1/clusters/<id>/credentials, for operators.
type AgentCredentials struct {
	ClientID     string `json:"client_id"`
	ClientSecret string `json:"client_secret"`
	TokenURL     string `json:"token_url,omitempty"`
}
