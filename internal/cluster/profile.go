package cluster

import (
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// KindProfile declares profiles to the ledger.
var KindProfile = ledger.Kind{Name: "clusterprofile"}

// Profile is a way to make clusters: apiVersion drover.dev/v1, kind
// ClusterProfile. Removing one removes no cluster.
type Profile struct {
	// Maker is what makes the clusters: "standalone" (they are there), "template".
	Maker string `json:"maker"`
	// Options of the maker: template: directory, and what is passed on as variables.
	Options map[string]string `json:"options,omitempty"`
	// Serves is where clusters of this profile may stand, and for what.
	Serves []Serves          `json:"serves,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Taints []string          `json:"taints,omitempty"`
	Nodes  int64             `json:"nodes,omitempty"`
	// Units that a new cluster is expected to hold, until its agent tells.
	Units int64 `json:"units,omitempty"`
	// Agent is who speaks for the cluster: "drover" (default), or "outside" for
	// an agent that is installed by the steps.
	Agent string `json:"agent,omitempty"`
	// Steps make a cluster fit, before those of the offerings that it hosts.
	Steps []offering.Step `json:"steps,omitempty"`
	// Scaling lets the fleet make and remove clusters of this profile by itself.
	Scaling Scaling `json:"scaling,omitzero"`
}

// Serves is a place for clusters of a profile.
type Serves struct {
	Provider string   `json:"provider"`
	Regions  []string `json:"regions"`
	Offering string   `json:"offering,omitempty"` // default: all
	Types    []string `json:"types,omitempty"`    // default: all
	MultiAZ  *bool    `json:"multiAZ,omitempty"`
}

// Scaling of a profile.
type Scaling struct {
	// Mode: "off" (default), "dry-run" (says what it would do), "on".
	Mode string `json:"mode,omitempty"`
	// Min and Max clusters per region that the fleet keeps; Max 0: no bound.
	Min int64 `json:"min,omitempty"`
	Max int64 `json:"max,omitempty"`
	// Cooldown is the least time between two decisions for a place, and how
	// long a cluster must have been empty and spare before it goes; default 10m, 30m.
	Cooldown offering.Duration `json:"cooldown,omitzero"`
	Idle     offering.Duration `json:"idle,omitzero"`
}
