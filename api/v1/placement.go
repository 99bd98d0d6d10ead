package v1

import "time"

// Placement is why an instance is where it is, and where it would go now.
type Placement struct {
	// Cluster that it is on; empty: none yet.
	Cluster string `json:"cluster,omitempty"`
	// Placed is why it was placed there, as it was written down then.
	Placed string `json:"placed,omitempty"`
	// Waiting is what it waits for.
	Waiting string `json:"waiting,omitempty"`
	Explanation
}

// AskPlacement asks where orders would go. Nothing is written.
type AskPlacement struct {
	Offering string `json:"offering" maxLength:"128" doc:"Name of the offering"`
	Type     string `json:"type,omitempty" maxLength:"128" doc:"Instance type; default: the offering's first"`
	Size     string `json:"size,omitempty" maxLength:"128" doc:"Size; default: the first of the type"`
	Provider string `json:"provider,omitempty" maxLength:"128" doc:"Default: the offering's first"`
	Region   string `json:"region,omitempty" maxLength:"128" doc:"Default: the provider's first"`
	MultiAZ  bool   `json:"multi_az,omitempty"`
	Org      string `json:"org,omitempty" maxLength:"256" doc:"Of whoever orders; operators only, others ask for their own"`
	Cluster  string `json:"cluster,omitempty" maxLength:"256" doc:"One of the organisation's own clusters"`
	Count    int    `json:"count,omitempty" minimum:"0" maximum:"100" doc:"Orders, one after the other; default 1"`
	// Without and With are for operators.
	Without []string       `json:"without,omitempty" maxItems:"1000" doc:"Clusters that are thought away; operators only"`
	With    []ExtraCluster `json:"with,omitempty" maxItems:"100" doc:"Clusters that are thought to be there; operators only"`
}

// ExtraCluster is a cluster that is not there.
type ExtraCluster struct {
	Units    int64             `json:"units" minimum:"0" maximum:"1099511627776" doc:"That it holds"`
	Provider string            `json:"provider,omitempty" maxLength:"128" doc:"Default: that of the order"`
	Region   string            `json:"region,omitempty" maxLength:"128" doc:"Default: that of the order"`
	Labels   map[string]string `json:"labels,omitempty"`
	Taints   []string          `json:"taints,omitempty" maxItems:"100"`
	Types    []string          `json:"types,omitempty" maxItems:"100" doc:"Default: all"`
	Offering string            `json:"offering,omitempty" maxLength:"128" doc:"Default: all"`
	MultiAZ  *bool             `json:"multi_az,omitempty"`
}

// Explanation is where orders would go.
type Explanation struct {
	Provider string       `json:"provider"`
	Region   string       `json:"region"`
	Plan     string       `json:"plan"`
	Units    int64        `json:"units"` // of one order
	Limit    *RegionLimit `json:"limit,omitempty"`
	Orders   []Verdict    `json:"orders"`
}

// RegionLimit is how much of a type a region takes, whatever its clusters hold.
type RegionLimit struct {
	Units int64 `json:"units"`
	Taken int64 `json:"taken"` // units, by orders that wait too
}

// Verdict is where one order would go.
type Verdict struct {
	Fits    bool   `json:"fits"`
	Cluster string `json:"cluster,omitempty"` // operators only
	Reason  string `json:"reason"`            // why there, or why nowhere
	// Others are the clusters that it would not go to; tenants read the reasons
	// of their region without names, each once.
	Others []WhyNot `json:"others"`
}

// WhyNot is why an order would not go to a cluster.
type WhyNot struct {
	Cluster string `json:"cluster,omitempty"`
	Code    string `json:"code"`
	Reason  string `json:"reason"`
}

// Capacities are what the regions have.
type Capacities struct {
	Items    []Capacity   `json:"items"`
	Clusters []ClusterUse `json:"clusters"`
	Scaling  []ScaleNote  `json:"scaling"`
}

// ClusterUse is how much of a cluster is in use, in units.
type ClusterUse struct {
	Cluster string           `json:"cluster"`
	Used    int64            `json:"used"`
	Max     int64            `json:"max"`             // what its agent reports, or the operator's limit if that is less
	Types   map[string]int64 `json:"types,omitempty"` // in use, by "<offering>/<instance type>"
}

// Capacity is what a region has of an instance type, in units. Types that share
// clusters share what is free.
type Capacity struct {
	Provider string `json:"provider"`
	Region   string `json:"region"`
	Offering string `json:"offering"`
	Type     string `json:"type"`
	Max      int64  `json:"max"`     // of the type, if its clusters were filled with it: used and free
	Used     int64  `json:"used"`    // by the type, on the clusters that are counted
	Aside    int64  `json:"aside"`   // by the type, on clusters of the region that take no such orders now
	Free     int64  `json:"free"`    // for the type
	Largest  int64  `json:"largest"` // that is free on one cluster
	Slack    int64  `json:"slack"`   // that is to be free
	Clusters int    `json:"clusters"`
}

// ScaleNote is what a profile's scaling says of a place.
type ScaleNote struct {
	Profile string     `json:"profile"`
	Place   string     `json:"place"`
	Do      string     `json:"do"` // stay, up, down
	Code    string     `json:"code"`
	Reason  string     `json:"reason"`
	Cluster string     `json:"cluster,omitempty"`
	DryRun  bool       `json:"dry_run,omitempty"`
	At      *time.Time `json:"at,omitempty"` // when a cluster was last made or taken away
}
