package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// AuditOptions selects records. Zero fields select everything.
type AuditOptions struct {
	Since, Until                        time.Time
	Org, Actor, Kind, ID, Verb, Outcome string
	Everything                          bool // also what Drover did of its own accord
	Oldest                              bool // the oldest first
	After, Before                       int64
	Limit                               int
}

// Audit returns a piece of who did what.
func (c *Client) Audit(ctx context.Context, o AuditOptions) (v1.AuditRecords, error) {
	q := url.Values{}
	for name, t := range map[string]time.Time{"since": o.Since, "until": o.Until} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, text := range map[string]string{"org": o.Org, "actor": o.Actor, "kind": o.Kind, "id": o.ID, "verb": o.Verb, "outcome": o.Outcome} {
		set(q, name, text)
	}
	for name, is := range map[string]bool{"everything": o.Everything, "oldest": o.Oldest} {
		if is {
			q.Set(name, "true")
		}
	}
	setInt(q, "after", o.After)
	setInt(q, "before", o.Before)
	setInt(q, "limit", int64(o.Limit))
	var out v1.AuditRecords
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"audit"}, query: q}, &out)
	return out, err
}

// Heads returns the newest heads of the sealed log, with all keys.
func (c *Client) Heads(ctx context.Context, limit int) (v1.Heads, error) {
	var out v1.Heads
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"ledger", "heads"}, query: url.Values{"limit": {strconv.Itoa(limit)}}}, &out)
	return out, err
}

// EraseChange takes the content of a change out of the log.
func (c *Client) EraseChange(ctx context.Context, seq int64, reason string) (v1.Erasure, error) {
	var out v1.Erasure
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"ledger", "changes", strconv.FormatInt(seq, 10), "erase"}, body: v1.EraseChange{Reason: reason}}, &out)
	return out, err
}

// Verify has the server look at its whole ledger, and tells how far that is.
func (c *Client) Verify(ctx context.Context, r v1.VerifyRequest, progress func(v1.VerifyProgress)) (v1.Verification, error) {
	var out *v1.Verification
	err := c.stream(ctx, call{method: http.MethodPost, path: []string{"ledger", "verify"}, body: r}, nil, func(e event) (bool, error) {
		switch e.name {
		case "progress":
			var p v1.VerifyProgress
			if err := json.Unmarshal(e.data, &p); err == nil && progress != nil {
				progress(p)
			}
			return true, nil
		case "error":
			var f v1.Error
			if err := json.Unmarshal(e.data, &f); err != nil {
				return false, fmt.Errorf("cannot read what went wrong: %w", err)
			}
			return false, errors.New(f.Reason)
		case "done":
			return false, json.Unmarshal(e.data, &out)
		}
		return true, nil
	})
	if out != nil {
		return *out, nil
	}
	return v1.Verification{}, err
}
