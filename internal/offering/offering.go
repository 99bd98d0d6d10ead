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
	// name, cloud_provider, region, multi_az and plan. What is readOnly in it
	// is for operators to set: see Changes of Admin.
	Parameters map[string]any `json:"parameters,omitempty"`

	Types     []Type     `json:"types"`
	Providers []Provider `json:"providers"`
	// Billing models that an order can name; none: there is one, without a
	// name. The first is the default.
	Billing []BillingModel `json:"billing,omitempty"`
	// Components are the parts of an instance that have versions of their own;
	// the first is the one that "version" means.
	Components []Component `json:"components"`
	// Routes of an instance; the first host is the instance's host. Hosts are
	// unique over the whole fleet.
	Routes []Route `json:"routes"`
	// Identity is the account that each instance gets at the identity provider.
	Identity *Identity `json:"identity,omitempty"`
	// Desired is the document that the data plane receives, with ${...}; null
	// is left out.
	Desired map[string]any `json:"desired"`
	// Reserved is the document of an item that no tenant ordered and that keeps
	// room warm, with ${...}; see Type.Reserved.
	Reserved map[string]any `json:"reserved,omitempty"`
	// Present adds fields to what the public API shows of an instance, with
	// ${...}; null and "" are left out. id, kind, href, name, owner, status,
	// cloud_provider, region, multi_az, created_at and updated_at are always there.
	Present map[string]any `json:"present,omitempty"`
	// Changes are the fields that a PATCH may change besides the owner.
	Changes map[string]Field `json:"changes,omitempty"`
	Admin   Admin            `json:"admin,omitzero"`
	Agent   Agent            `json:"agent,omitzero"`
	Metrics Metrics          `json:"metrics,omitzero"`
	Timing  Timing           `json:"timing,omitzero"`
	// Placement says on which of the clusters with room an instance is put.
	Placement Placement `json:"placement,omitzero"`
	// Steps make a cluster fit for this offering.
	Steps []Step `json:"steps,omitempty"`
	// Terms are what users must have accepted before they order; empty: nothing.
	Terms string `json:"terms,omitempty"`
	Hooks []Hook `json:"hooks,omitempty"`
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
	// The schema of an instance, and with List behind it the kind of a list:
	// default <Kind>Request, <Kind>RequestList. An instance itself is a <Kind>.
	RequestKind string `json:"requestKind,omitempty"`
	// Serves lists the collections beside the instances that this API has:
	// status, instance_types, service_accounts, sso_providers, clusters, promote.
	Serves []string `json:"serves,omitempty"`
	// Codes are error codes that mean the same thing under another number here:
	// reason to number.
	Codes map[string]int64 `json:"codes,omitempty"`
	// Searchable and sortable columns of the public list, wire name to column.
	Search map[string]string `json:"search,omitempty"`
	Order  map[string]string `json:"order,omitempty"`
	// Rank is text by which lists can be sorted besides, as the column rank,
	// with ${...}: for a parameter that is to be sortable.
	Rank string `json:"rank,omitempty"`
}

// Type is an instance type with its sizes. Where tenants have quota for several,
// the first in the file is taken; the first size is the default of its type.
type Type struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName,omitempty"`
	MultiAZ     *bool  `json:"multiAZ,omitempty"` // nil: the tenant says
	// Quota says how one comes to an instance of the type: "none" (default,
	// everybody may), "granted" (a quota must say so) or "trial" (everybody
	// without a grant for another type, PerOwner at a time).
	Quota    string   `json:"quota,omitempty"`
	PerOwner int64    `json:"perOwner,omitempty"` // trial: default 1
	Product  string   `json:"product,omitempty"`  // its name at a remote source, where it is not that of the model
	Billing  []string `json:"billing,omitempty"`  // models it can be had under; default: all
	Reserved int64    `json:"reserved,omitempty"` // items kept warm on every cluster
	Sizes    []Size   `json:"sizes"`
}

// How one comes to an instance of a type.
const (
	QuotaNone    = "none"
	QuotaGranted = "granted"
	QuotaTrial   = "trial"
)

// Size of an instance type.
type Size struct {
	Name        string         `json:"name"`
	DisplayName string         `json:"displayName,omitempty"`
	Capacity    int64          `json:"capacity"` // units it takes of a cluster
	Quota       int64          `json:"quota"`    // units it takes of a quota
	Lifespan    Duration       `json:"lifespan,omitzero"`
	Maturity    string         `json:"maturity,omitempty"` // default stable
	Limits      map[string]any `json:"limits,omitempty"`   // free-form, for expressions
	// Parameters that an order of this size gets, where neither the order nor
	// a default of the schema says otherwise.
	Parameters map[string]any `json:"parameters,omitempty"`
	Present    map[string]any `json:"present,omitempty"` // what instance_types shows of it besides
}

// BillingModel is a way to pay.
type BillingModel struct {
	Name string `json:"name"`
	// Grace is how long before its end an instance is suspended, and how long
	// after its entitlement ended that end comes.
	Grace Duration `json:"grace,omitzero"`
	// Marketplace: an order names one of these and its account there.
	Marketplaces []string `json:"marketplaces,omitempty"`
	// Promotable instances can move to another model while they run.
	Promotable []string `json:"promotable,omitempty"` // to these models
	// Own clusters of the tenant only: an order names the cluster.
	OwnCluster bool `json:"ownCluster,omitempty"`
	// Resource, Product and Models name it at a remote source of entitlements.
	Resource string   `json:"resource,omitempty"`
	Product  string   `json:"product,omitempty"`
	Models   []string `json:"models,omitempty"`
}

// Component is a part with versions.
type Component struct {
	Name string `json:"name"` // key in the data plane's document and report: "kafka"
	// Versions that can be had, oldest first; the last one is the default.
	// Empty: those that the cluster's agent reports as ready.
	Versions []string `json:"versions,omitempty"`
	// Downgrade: "minor" (default: no older minor version), "never", "any".
	Downgrade string `json:"downgrade,omitempty"`
}

// Identity is an account at the identity provider.
type Identity struct {
	// Name is "canary" or the like; the account's id is instance.client, its
	// secret is ${secret("canary")} in desired.
	Name string `json:"name"`
}

// Field is what a field of a request changes.
type Field struct {
	Parameter string `json:"parameter,omitempty"` // this parameter
	Component string `json:"component,omitempty"` // the wanted version of this component
	Suspended bool   `json:"suspended,omitempty"` // true rests it, false wakes it
	// Allowed is CEL over old and new, ${...}; "" = always. Message is what
	// the caller reads if it is not.
	Allowed string `json:"allowed,omitempty"`
	Message string `json:"message,omitempty"`
}

// Admin is the offering's API for its operators.
type Admin struct {
	Kind string `json:"kind,omitempty"` // default: Names.Kind
	// Present is what operators see of an instance in place of the public
	// present, beside what is always there; none: the same as the public.
	Present map[string]any   `json:"present,omitempty"`
	Changes map[string]Field `json:"changes,omitempty"`
	// Roles that may call it by HTTP method; default: <prefix>-admin-full for
	// all, -write for GET and PATCH, -read for GET, with the prefix "drover".
	// Where roles are given, nobody may call a method that is not named.
	Roles map[string][]string `json:"roles,omitempty"`
}

// Agent is how outside agents are spoken to.
type Agent struct {
	Kind string `json:"kind,omitempty"` // of an item; default Managed<Kind>
	// Operator is the field of an agent's report that lists what runs the
	// instances: entries {ready, version, <list>...}; Reports names, by
	// component, the list of its versions there; "version" is the operator's own.
	Operator string            `json:"operator,omitempty"`
	Reports  map[string]string `json:"reports,omitempty"`
	// Config is the document that an agent gets of itself, with ${...} over
	// offering, cluster, sso and server; null is left out.
	Config map[string]any `json:"config,omitempty"`
	// Waiting is how the API calls the phase of a cluster whose agent is not
	// ready; default waiting_for_fleetshard_operator.
	Waiting string `json:"waiting,omitempty"`
	// Parameters are what the tenant's own cluster is to be set up with, with
	// ${...} as in Config: the fleetshard_parameters of a registration. The
	// secret of its agent's account is ${secret("agent")}.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// Metrics of an instance come from a Prometheus-compatible server.
type Metrics struct {
	// Selector picks the series of one instance: label matchers of PromQL with
	// ${...} inside the quotes of an =: 'namespace="${instance.namespace}"'.
	// What an expression yields is escaped, and must not be empty.
	Selector string   `json:"selector,omitempty"`
	Names    []string `json:"names,omitempty"` // that tenants may ask for
}

// Placement chooses among the clusters that can host an instance.
type Placement struct {
	// Strategy: "first-fit" (default: the oldest), "best-fit" (the fullest that
	// has room), "spread" (the one with the fewest of By).
	Strategy string `json:"strategy,omitempty"`
	// By what instances are spread: "zone" (default; the clusters' label), "tenant".
	By string `json:"by,omitempty"`
	// Labels that a cluster must have, and taints that it may have.
	Labels    map[string]string `json:"labels,omitempty"`
	Tolerates []string          `json:"tolerates,omitempty"`
	// Movable: an instance has no data of its own on its cluster, so that it can
	// be made anew on another one and removed from the first.
	Movable bool `json:"movable,omitempty"`
	// Slack is how many units of a type a region keeps free, by type: below it
	// the fleet makes another cluster, where a profile says how.
	Slack map[string]int64 `json:"slack,omitempty"`
}

// Strategies of placement, and what instances are spread by.
const (
	FirstFit = "first-fit"
	BestFit  = "best-fit"
	Spread   = "spread"
	ByZone   = "zone"
	ByTenant = "tenant"
)

// Step is a part of making a cluster fit: manifests that are applied together,
// once the steps that it needs are ready.
type Step struct {
	Name  string   `json:"name"`
	Needs []string `json:"needs,omitempty"` // names of other steps of the same file
	// Manifests are Kubernetes objects, with ${...} over cluster, sso and server;
	// null is left out.
	Manifests []map[string]any `json:"manifests"`
	// Ready is CEL, without ${}, over objects, the list of its objects as they
	// are; empty: all of them are healthy as Kubernetes understands it.
	Ready string `json:"ready,omitempty"`
}

// Timing is how long steps may take; zero: the default.
type Timing struct {
	Place   Duration `json:"place,omitzero"`   // to find a cluster; default 1h
	Prepare Duration `json:"prepare,omitzero"` // to prepare what is outside; default 5m
	Observe Duration `json:"observe,omitzero"` // between looks at what is outside; default 10m
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
	// Limits is how many units of a type the region takes, by type; a type that
	// is not named has none. Tenants' own clusters are not counted.
	Limits map[string]int64 `json:"limits,omitempty"`
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
// `offering`, `type` and `size` (the entries of its plan), `billing` (its
// model), `cluster`, `sso` and `server`. In desired, secret("name") stands for
// a secret that is filled in when an agent asks.
type Facts struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Owner      string            `json:"owner"`
	Org        string            `json:"org"`
	Account    string            `json:"account"` // of the owner, at whoever issued the token
	Phase      string            `json:"phase"`
	Reason     string            `json:"reason"` // why it failed
	Provider   string            `json:"provider"`
	Region     string            `json:"region"`
	MultiAZ    bool              `json:"multi_az"`
	Type       string            `json:"type"`
	Size       string            `json:"size"`
	Version    string            `json:"version"`   // wanted, of the first component
	Versions   map[string]string `json:"versions"`  // wanted, by component
	Actual     map[string]string `json:"actual"`    // versions that the agent reports
	Upgrading  []string          `json:"upgrading"` // components that the agent is changing
	Cluster    string            `json:"cluster"`   // id
	Namespace  string            `json:"namespace"`
	Placement  string            `json:"placement"`
	Host       string            `json:"host"`
	Routes     []map[string]any  `json:"routes"` // {domain, router}, once the agent has told
	Admin      string            `json:"admin"`  // URL of its own API, if the agent has told
	Client     string            `json:"client"` // id of its account at the identity provider
	Parameters map[string]any    `json:"parameters"`
	Billing    string            `json:"billing"` // model
	Market     string            `json:"marketplace"`
	Payer      string            `json:"billing_account"` // at the marketplace
	Promotion  string            `json:"promotion"`       // "", promoting, failed
	Promoting  string            `json:"promotion_details"`
	Quota      string            `json:"quota"`        // source that granted it
	Ticket     string            `json:"subscription"` // its reservation there
	RoutesDone bool              `json:"routes_created"`
	// Certificate of its host: "" (none is used), "missing" (it should have one
	// and has not) or "ready", when secret("tls.crt") and secret("tls.key") are it.
	Certificate string    `json:"certificate"`
	Deleted     bool      `json:"deleted"`   // it is to go
	Suspended   bool      `json:"suspended"` // it is to rest
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires"`
}

// Surroundings are what expressions see besides the instance and its offering.
type Surroundings struct {
	Cluster ClusterFacts `json:"cluster"`
	SSO     SSOFacts     `json:"sso"`
	Server  ServerFacts  `json:"server"`
}

// ServerFacts are `server` in expressions: this control plane.
type ServerFacts struct {
	URL string `json:"url"` // where agents reach it
}

// ClusterFacts are `cluster` in expressions; all empty before it is placed.
type ClusterFacts struct {
	ID     string `json:"id"`
	Domain string `json:"domain"` // base domain of its routes
	Client string `json:"client"` // id of its agent's account
	Login  string `json:"login"`  // id of the client through which people log in to it
	// Provider and Region that it stands in.
	Provider string `json:"provider"`
	Region   string `json:"region"`
	// Private clusters are reached from the tenant's own network only.
	Private bool `json:"private"`
	// Nodes is how many nodes it may have, by instance type, as far as it is known.
	Nodes map[string]int64 `json:"nodes"`
	// Versions are the newest that its agent reports as ready, by component.
	Versions map[string]string `json:"versions"`
}

// SSOFacts are `sso` in expressions: where tokens come from.
type SSOFacts struct {
	Issuer string `json:"issuer"`
	Token  string `json:"token"` // endpoint
	JWKS   string `json:"jwks"`
	Base   string `json:"base"`
	Realm  string `json:"realm"`
}
