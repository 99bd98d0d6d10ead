package v1

import "time"

// AuthorityOrder is one `drover ca`: no part of the HTTP API, because keys stay on the
// machine where they are made.
type AuthorityOrder struct {
	Verb     string // init, issue, renew, rotate, retire, show
	Dir      string
	Name     string   // of the authority, or of what is issued
	Use      string   // server, agent, client
	Hosts    []string // of a server
	Lifetime time.Duration
	Within   time.Duration // renew: what ends before
	Out      string        // directory that what was issued is copied to
}

// Authority is what is in the directory, without its keys.
type Authority struct {
	Bundle      string        `json:"bundle" doc:"File of the certificates that everybody is to believe"`
	Authorities []Certificate `json:"authorities" doc:"Those in the bundle; the first signs"`
	Issued      []Certificate `json:"issued" doc:"What was issued, or by this command"`
	Dropped     int           `json:"dropped,omitempty" doc:"Authorities that were retired"`
}

// Certificate is one of them.
type Certificate struct {
	Name        string    `json:"name"`
	Use         string    `json:"use" doc:"authority, server, agent, client"`
	Names       []string  `json:"names,omitempty" doc:"Hosts of a server, the cluster of an agent"`
	File        string    `json:"file,omitempty"`
	KeyFile     string    `json:"key_file,omitempty"`
	NotAfter    time.Time `json:"not_after"`
	Fingerprint string    `json:"fingerprint,omitempty" doc:"SHA-256"`
	Old         bool      `json:"old,omitempty" doc:"It is of an authority that was replaced: renew it"`
}
