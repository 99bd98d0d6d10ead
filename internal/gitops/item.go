package gitops

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/runtime"
)

// Item is a deployment as the data plane must have it.
type Item struct {
	ID         string
	Cluster    string
	Generation int64
	Token      int64
	Delete     bool
	Digest     string
	Seen       uint64 // leaf of what the agent last said of it; 0: nothing
}

// told is the part of a status that says what data planes must have. Whole fleets
// are read through it, so it leaves out all that costs time to decode.
type told struct {
	Engine   string   `json:"engine"`
	Runtime  string   `json:"runtime"`
	Desired  string   `json:"desired"`
	Digest   string   `json:"digest"`
	Issued   int64    `json:"issued"`
	Token    int64    `json:"token"`
	Remove   bool     `json:"remove"`
	Leaving  *Leaving `json:"leaving"`
	Observed *struct {
		Engine string `json:"engine"`
		Leaf   uint64 `json:"leaf,string"`
	} `json:"observed"`
}

// DesiredItems tells what data planes must have of an object; of one that moves
// two engines may have it (the old one with Delete).
func DesiredItems(o ledger.Object) (out []Item) {
	if o.Kind != KindDeployment.Name || !o.Deleted.IsZero() || len(o.Status) == 0 {
		return nil
	}
	var t told
	if json.Unmarshal(o.Status, &t) != nil {
		return nil
	}
	if t.Engine != "" && t.Issued > 0 && t.Desired != "" {
		item := Item{ID: o.ID, Cluster: t.Engine, Generation: t.Issued, Token: t.Token, Delete: t.Remove, Digest: t.Digest}
		if t.Observed != nil && t.Observed.Engine == t.Engine {
			item.Seen = t.Observed.Leaf
		}
		out = append(out, item)
	}
	if l := t.Leaving; l != nil {
		out = append(out, Item{ID: o.ID, Cluster: l.Engine, Generation: l.Generation, Token: l.Token, Delete: true, Digest: l.Digest, Seen: l.Leaf})
	}
	return out
}

// Body of an item with its secrets filled in; filled says whether there were any.
func (s *Service) Body(ctx context.Context, o ledger.Object, clusterID string) (body []byte, filled bool, err error) {
	var t told
	if len(o.Status) > 0 {
		if err := json.Unmarshal(o.Status, &t); err != nil {
			return nil, false, fault.New(fault.Internal, "%s cannot be read: %w", o.Ref, err)
		}
	}
	digest, kind := t.Desired, t.Runtime
	if t.Engine != clusterID {
		if t.Leaving == nil || t.Leaving.Engine != clusterID {
			return nil, false, fault.New(fault.NotFound, "%s is nothing for cluster %s", o.Ref, clusterID)
		}
		digest, kind = t.Leaving.Desired, t.Leaving.Runtime
	}
	if body, err = s.Keeper.Blob(ctx, digest); err != nil || kind == kubernetes {
		return body, false, err
	}
	return s.fill(ctx, body)
}

// Farewell is what the agent of a cluster is told with a removal: which operation
// it is, for those who look. Nothing of what is removed is in it.
func Farewell(o ledger.Object, clusterID string) []byte {
	var s struct{ Shown *runtime.DeploymentOperation }
	if json.Unmarshal(o.Status, &s) != nil || s.Shown == nil {
		return nil
	}
	s.Shown.Instance = clusterID
	body, err := encodeBody(runtime.Farewell{Operation: s.Shown})
	if err != nil {
		return nil
	}
	return body
}

// fill puts secrets in place of their references. Only the fields that are
// secrets are looked at, so that nothing that a tenant wrote is taken for one.
func (s *Service) fill(ctx context.Context, body []byte) ([]byte, bool, error) {
	var d runtime.Deployment
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, false, fault.New(fault.Internal, "a body for agents cannot be read: %w", err)
	}
	var refs []*string
	if c := d.Credential; c != nil {
		refs = append(refs, &c.Password, &c.SSHKey)
	}
	if t := d.Target; t != nil {
		refs = append(refs, &t.Token)
	}
	filled := false
	for _, ref := range refs {
		if *ref == "" {
			continue
		}
		plain, err := s.Keeper.Unseal(ctx, *ref)
		if err != nil {
			return nil, false, fmt.Errorf("cannot open a secret of the deployment %s: %w", d.UID, err)
		}
		*ref, filled = string(plain), true
	}
	if !filled {
		return body, false, nil
	}
	out, err := encodeBody(d)
	return out, true, err
}

// encodeBody is the one form of a body: what is the same has the same digest.
func encodeBody(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// digestOfBody is the digest of a body as it travels.
func digestOfBody(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
