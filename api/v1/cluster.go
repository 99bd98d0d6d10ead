package v1

// AbandonCluster gives a data plane up that is lost for good: POST
// /api/v1/clusters/<id>/abandon, admins only.
type AbandonCluster struct {
	Reason  string `json:"reason" minLength:"1" maxLength:"512" doc:"Why it is given up, in one line: owners of what ran there read it"`
	Destroy bool   `json:"destroy,omitempty" doc:"What made it takes away what is left of it"`
}
