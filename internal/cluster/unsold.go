package cluster

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/droverhq/drover/internal/ledger"
)

// Unsold warns of a cluster or profile whose place no offering knows: nothing
// would ever be placed there. It may be early rather than wrong, so it is no
// error. Empty: there is nothing to warn of.
func (s *Service) Unsold(o ledger.Object) string {
	var places []place
	switch o.Kind {
	case Kind.Name:
		if spec, _, err := Decode(o); err == nil && spec.Org == "" {
			places = []place{{spec.Provider, spec.Region}}
		}
	case KindProfile.Name:
		var p Profile
		if json.Unmarshal(o.Spec, &p) == nil {
			for _, serves := range p.Serves {
				for _, region := range serves.Regions {
					places = append(places, place{serves.Provider, region})
				}
			}
		}
	}
	var unknown []string
	for _, at := range places {
		if !s.sold(at) {
			unknown = append(unknown, "region "+at.region+" of "+at.provider)
		}
	}
	if len(unknown) == 0 {
		return ""
	}
	return fmt.Sprintf("no offering is sold in %s: nothing is placed there until one is, or until a spelling is mended", strings.Join(unknown, ", "))
}

// sold reports whether any offering is sold in a place, or nobody can tell.
func (s *Service) sold(at place) bool {
	if s.Offerings == nil {
		return true
	}
	for _, off := range s.Offerings.List() {
		if _, _, err := off.Place(at.provider, at.region); err == nil {
			return true
		}
	}
	return false
}
