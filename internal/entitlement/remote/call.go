package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/droverhq/drover/internal/fault"
)

const (
	accounts       = "/api/accounts_mgmt/v1"
	authorizations = "/api/authorizations/v1"
	maxAnswer      = 8 << 20
)

// request to the service.
type request struct {
	method, path string
	root         string // default: accounts
	query        url.Values
	body         any
	once         bool // it must not be sent twice
}

// ask sends a request under the policy and reads its answer; into may be nil.
// Faults: Unavailable, NotFound, Denied.
func (s *Source) ask(ctx context.Context, r request, into any) error {
	do := s.policy.Do
	if r.once {
		do = s.policy.Once
	}
	return do(ctx, func(ctx context.Context) error { return s.try(ctx, r, into) })
}

func (s *Source) try(ctx context.Context, r request, into any) error {
	token, err := s.tokens.get(ctx)
	if err != nil {
		return err
	}
	var body io.Reader
	if r.body != nil {
		data, err := json.Marshal(r.body)
		if err != nil {
			return fmt.Errorf("cannot encode the request: %w", err)
		}
		body = bytes.NewReader(data)
	}
	root := r.root
	if root == "" {
		root = accounts
	}
	req, err := http.NewRequestWithContext(ctx, r.method, s.base+root+r.path+"?"+r.query.Encode(), body)
	if err != nil {
		return fmt.Errorf("cannot make the request: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	status, data, err := send(s.cfg.HTTPClient, req)
	if err != nil {
		return fault.New(fault.Unavailable, "%s does not answer; it is tried again by itself: %w", s.cfg.Title, err).Because("quota-check")
	}
	switch {
	case status == http.StatusNotFound:
		return fault.New(fault.NotFound, "%s has no such thing", s.cfg.Title)
	case status == http.StatusUnauthorized:
		s.tokens.forget()
		return fault.New(fault.Unavailable, "%s does not accept this server's token", s.cfg.Title).Because("quota-check")
	case status == http.StatusForbidden && r.method == http.MethodPost:
		return fault.New(fault.Denied, "%s refuses it", s.cfg.Title).Because("quota")
	case status >= 300:
		// Also what this server asked wrongly: nothing is concluded from it.
		return fault.New(fault.Unavailable, "%s answers with status %d; it is tried again by itself", s.cfg.Title, status).Because("quota-check")
	case into != nil && !decodeAnswer(data, into):
		return s.lies()
	}
	return nil
}

// send returns status and body. The error names no URL: that may hold what is
// nobody's business.
func send(client *http.Client, req *http.Request) (int, []byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return 0, nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(data) > maxAnswer {
		err = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
	}
	return resp.StatusCode, bytes.TrimSpace(data), err
}
