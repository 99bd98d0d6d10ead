package v1

// Protocol that agents and the control plane speak. Each side ignores fields
// that it does not know. A control plane serves agents of its own protocol, of
// the one before, and of newer ones as if they were its own; an older one is
// answered 409 with the reason "protocol", and its data plane keeps running.
const Protocol = 1

// Sync is what an agent says: POST /api/v1/clusters/<id>/sync, once per
// interval and at once when it has news. Its size does not depend on what the
// cluster holds: the trees say what the agent has been told and what it
// observes, and only what differs travels.
//
// Refusals are 409 and say why in the header Drover-Reason: "protocol" (too old),
// "agent" (another installation or process has the cluster), "late" (a newer
// message came first), "epoch" (this is not the ledger that the agent follows, or
// an old copy of it). 503 with Retry-After: come again then.
//
// A message that is lost costs time and nothing else: the next one compares
// everything again. What is left out changes nothing.
type Sync struct {
	Protocol     int    `json:"protocol"`
	Version      string `json:"version,omitempty" doc:"Of the agent's program, for people"`
	Agent        string `json:"agent" doc:"Random per agent process; a second one at the same time is refused"`
	Installation string `json:"installation,omitempty" doc:"Made once per installation of the agent and kept over its restarts; another one than the cluster's is refused"`
	Number       int64  `json:"number" doc:"Counts up per process; late messages are ignored"`

	Ledger string `json:"ledger,omitempty" doc:"The ledger that the agent follows; empty: none yet"`
	Epoch  int64  `json:"epoch" doc:"Of that ledger"`
	Seq    int64  `json:"seq" doc:"Of the answer that the agent works on; 0: none"`

	Desired  Tree `json:"desired" doc:"Of all items that the agent was told"`
	Observed Tree `json:"observed" doc:"Of all items that it observes, as they are now"`

	Ready    bool             `json:"ready"`
	Message  string           `json:"message,omitempty" doc:"Why it is not ready"`
	Capacity int64            `json:"capacity" doc:"Units that the cluster can hold in all"`
	Units    map[string]Units `json:"units,omitempty" doc:"By offering/type, where the agent tells types apart"`
	Platform *Platform        `json:"platform,omitempty" doc:"What the data plane is"`

	Keys   string         `json:"keys,omitempty" doc:"BodyDigest of the key set that the agent knows"`
	Bodies []string       `json:"bodies,omitempty" doc:"Items whose bodies the agent lacks"`
	Items  []ObservedItem `json:"items,omitempty" doc:"Those that changed, and those of buckets that the last answer asked for"`
	Wait   bool           `json:"wait,omitempty" doc:"Hold the answer until there is news for the agent, at most an interval"`
}

// Synced answers a Sync.
type Synced struct {
	Protocol int    `json:"protocol"`
	Ledger   string `json:"ledger"`
	Epoch    int64  `json:"epoch" doc:"Moves when the ledger is restored or promoted; an agent freezes on a lower one"`
	Seq      int64  `json:"seq" doc:"The log's sequence that this answer reflects"`
	Interval int64  `json:"interval" doc:"Seconds until the next message, where there is no news before"`

	// Desired has every bucket that differs, whole, and nothing else. An item
	// that is in no bucket is left alone: only Delete asks for a removal.
	Desired []Bucket `json:"desired,omitempty"`
	// Bodies that were asked for.
	Bodies []Item `json:"bodies,omitempty"`
	// Observed lists the buckets of the agent's observed tree that the control
	// plane does not have like that: their items are to come with the next message.
	Observed []int `json:"observed,omitempty"`

	// Sites are where both sites are reached, where there are two: an agent whose own
	// is gone, or refuses it with 421, goes to the other one.
	Sites []string `json:"sites,omitempty"`

	// Token to use from now on in place of one that ends soon.
	Token string `json:"token,omitempty"`
	// Keys that sign items, as a JSON Web Key Set, where the agent knows others.
	Keys string `json:"keys,omitempty"`
}

// Bucket is a part of the desired state. Items that changed after the agent's
// Seq come with their bodies; the others without, to be asked for if the agent
// has another body than the digest names.
type Bucket struct {
	Index int    `json:"index"`
	Items []Item `json:"items,omitempty"`
}

// Units of one instance type, as an agent counts them.
type Units struct {
	Max       int64 `json:"max"`
	Remaining int64 `json:"remaining"`
}

// Platform is what a data plane is made of.
type Platform struct {
	Kind    string `json:"kind" doc:"process, kubernetes, simulated"`
	Version string `json:"version,omitempty" doc:"Of Kubernetes"`
	Nodes   int64  `json:"nodes,omitempty"`
	Routes  string `json:"routes,omitempty" doc:"What carries hosts: route, gateway, ingress, proxy"`
	// Of an Argo CD, counted every three minutes.
	Applications int64  `json:"applications,omitempty" doc:"Applications of deployments"`
	Reconciled   int64  `json:"reconciled,omitempty" doc:"Of these, those that Argo CD had compared within three minutes"`
	Operations   int64  `json:"operations,omitempty" doc:"Operations that are shown as custom resources"`
	Jsonnet      bool   `json:"jsonnet,omitempty" doc:"Argo CD evaluates Jsonnet"`
	NoHealth     bool   `json:"no_health,omitempty" doc:"Argo CD does not tell the health of single resources"`
	Left         string `json:"left,omitempty" doc:"Applications with Drover's label that no deployment is about; the first few of many"`
	Resting      string `json:"resting,omitempty" doc:"Services that the agent calls and gives a rest, because they failed"`
}

// Condition of an item, as Kubernetes words it.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status" doc:"True, False, Unknown"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}
