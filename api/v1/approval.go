package v1

// Approve lets removals go that wait for an operator:
// POST /api/v1/approvals/<id>/approve, admins only. What waits, and why, is in
// the approval's spec and status. POST /api/v1/approvals/<id>/refuse takes no body.
type Approve struct {
	Count int64  `json:"count,omitempty" minimum:"0" doc:"How many may go; default: all that the rule, as it is now, takes"`
	For   string `json:"for,omitempty" maxLength:"32" doc:"How long it holds, a minute to seven days; default 1h"`
}
