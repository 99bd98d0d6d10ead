// Package offering owns the services that are sold on the fleet: one YAML file
// each, checked as a whole, compiled, and replaced while the server runs.
//
// It must not know any offering by name, nor HTTP, nor how instances live.
package offering

import "time"

// Document is an offering's file: apiVersion drover.dev/v1, kind Offering.
type Document struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   Metadata `json:"metadata"`
	Spec       Spec     `json:"spec"`
}

// Metadata names the offering.
type Metadata struct {
	Name   string            `json:"name"` // "dinosaur"; never changes
	Labels map[string]string `json:"labels,omitempty"`
}

// Spec is what is sold and how. Strings that hold ${...} are CEL.
type Spec struct {
	Description string `json:"description,omitempty"`
	Names       Names  `json:"names"`
	API         API    `json:"api"`

	// Parameters is the JSON Schema (2020-12) of what a tenant may say beyond
	// name, cloud_provider, region, multi_az and plan.
	Parameters map[string]any `json:"parameters,omitempty"`

	Types     []Type     `json:"types"`
	Providers []Provider `json:"providers"`
	// Versions that can be ordered; the last one is the default.
	Versions []string `json:"versions"`
	// Routes of an instance; the first host is the instance's host. Hosts are
	// unique over the whole fleet.
	Routes []Route `json:"routes"`
	// Desired is the document that the data plane receives, with ${...}.
	Desired map[string]any `json:"desired"`
	// Present adds fields to what the public API shows of an instance, with
	// ${...}; null and "" are left out. id, kind, href, name, owner, status,
	// cloud_provider, region, multi_az, created_at and updated_at are always there.
	Present map[string]any `json:"present,omitempty"`
	Hooks   []Hook         `json:"hooks,omitempty"`
}

// Names of the instances: kind "Dinosaur", singular "dinosaur", plural "dinosaurs".
type Names struct {
	Kind     string `json:"kind"`
	Singular string `json:"singular"`
	Plural   string `json:"plural"`
}

// API is where the public REST API of the offering lives:
// /api/<group>/<version>/<plural>, errors "<errorPrefix>-<n>".
type API struct {
	Group       string `json:"group"`
	Version     string `json:"version"`
	ErrorPrefix string `json:"errorPrefix"`
	// Kinds of the wire: default <Kind>Request, <Kind>RequestList.
	RequestKind string `json:"requestKind,omitempty"`
	// Searchable and sortable columns of the public list, wire name to column.
	Search map[string]string `json:"search,omitempty"`
	Order  map[string]string `json:"order,omitempty"`
}

// Type is an instance type with its sizes. The first type and its first size
// are the default plan.
type Type struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	MultiAZ     *bool  `json:"multiAZ,omitempty"` // nil: the tenant says
	Sizes       []Size `json:"sizes"`
}

// Size of an instance type.
type Size struct {
	Name     string         `json:"name"`
	Capacity int64          `json:"capacity"` // units it takes of a cluster
	Quota    int64          `json:"quota"`    // units it takes of a quota
	Lifespan Duration       `json:"lifespan,omitzero"`
	Limits   map[string]any `json:"limits,omitempty"` // free-form, for expressions
}

// Provider is a cloud with its regions.
type Provider struct {
	Name        string   `json:"name"`
	DisplayName string   `json:"displayName,omitempty"`
	Regions     []Region `json:"regions"`
}

// Region of a provider. The first provider's first region that is not disabled
// is the default.
type Region struct {
	Name        string   `json:"name"`
	DisplayName string   `json:"displayName,omitempty"`
	Disabled    bool     `json:"disabled,omitempty"`
	Types       []string `json:"types,omitempty"` // default: all
}

// Route of an instance.
type Route struct {
	Name string `json:"name"`
	Host string `json:"host"` // "${instance.name}.dinosaurs.localhost"
}

// Hook calls the seller's own service when an instance enters a phase. The
// phase is not left before the hook has answered 2xx; 4xx fails the instance.
type Hook struct {
	Phase   string   `json:"phase"` // preparing, ready, deprovision, deleting, ...
	URL     string   `json:"url"`
	Timeout Duration `json:"timeout,omitzero"` // default 5s
}

// Facts are what expressions see of an instance, as `instance`. Beside it stand
// `offering`, and `type` and `size`, the entries of its plan.
type Facts struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Owner      string            `json:"owner"`
	Org        string            `json:"org"`
	Phase      string            `json:"phase"`
	Reason     string            `json:"reason"` // why it failed
	Provider   string            `json:"provider"`
	Region     string            `json:"region"`
	MultiAZ    bool              `json:"multi_az"`
	Type       string            `json:"type"`
	Size       string            `json:"size"`
	Version    string            `json:"version"` // wanted
	Actual     map[string]string `json:"actual"`  // versions that the agent reports
	Cluster    string            `json:"cluster"` // id
	Namespace  string            `json:"namespace"`
	Placement  string            `json:"placement"`
	Host       string            `json:"host"`
	Parameters map[string]any    `json:"parameters"`
	Deleted    bool              `json:"deleted"`   // it is to go
	Suspended  bool              `json:"suspended"` // it is to rest
	Created    time.Time         `json:"created"`
	Expires    time.Time         `json:"expires"`
}
