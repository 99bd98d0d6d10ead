package v1

import "time"

// CreateSubscription has somebody's URL told of changes: POST /api/v1/subscriptions.
type CreateSubscription struct {
	Name        string   `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
	URL         string   `json:"url" minLength:"1" maxLength:"2048" example:"https://hooks.example.org/drover"`
	Description string   `json:"description,omitempty" maxLength:"256"`
	Kinds       []string `json:"kinds,omitempty" maxItems:"64" doc:"Kinds of objects; default: all that the organisation may see"`
}

// UpdateSubscription changes one: PATCH /api/v1/subscriptions/<name>. Absent fields stay.
type UpdateSubscription struct {
	URL         *string   `json:"url,omitempty" minLength:"1" maxLength:"2048"`
	Description *string   `json:"description,omitempty" maxLength:"256"`
	Kinds       *[]string `json:"kinds,omitempty" maxItems:"64"`
	Enabled     *bool     `json:"enabled,omitempty" doc:"False: nothing is sent. True: what was missed is sent, and what comes"`
	Rotate      bool      `json:"rotate,omitempty" doc:"A new secret, which the answer has"`
}

// Subscription is the answer: the subscription, and its secret where that is new.
type Subscription struct {
	Object
	Secret string `json:"secret,omitempty" doc:"Deliveries are signed with it; shown this once"`
}

// RejectedMessages lists what the broker's consumers have put aside: GET
// /api/v1/rejected, operators only.
type RejectedMessages struct {
	Items []RejectedMessage `json:"items"`
	Count int               `json:"count" doc:"How many there are in all"`
	// NoBroker: nothing can have been put aside.
	NoBroker bool `json:"no_broker,omitempty" doc:"The server has no broker, from which messages could come"`
}

// RejectedMessage is one of them. Headers, in which tokens travel, are not told.
type RejectedMessage struct {
	Key    string    `json:"key" doc:"By which it is retried or dropped"`
	ID     string    `json:"id,omitempty" doc:"The sender's"`
	Queue  string    `json:"queue"`
	Reason string    `json:"reason"`
	Type   string    `json:"type,omitempty"`
	At     time.Time `json:"at"`
	Size   int       `json:"size" doc:"Of the body, in bytes"`
	Body   string    `json:"body,omitempty" doc:"In a list its beginning; of a single one that was asked for all of it, up to 20 MiB"`
}
