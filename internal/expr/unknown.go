package expr

import "encoding/json"

// Unknown stands for a value that is not known yet. Whatever is computed from it
// is Unknown too, unless it does not matter ("false && unknown").
type Unknown struct{}

// String implements fmt.Stringer.
func (Unknown) String() string { return "(known after apply)" }

// MarshalJSON implements json.Marshaler.
func (u Unknown) MarshalJSON() ([]byte, error) { return json.Marshal(u.String()) }
