// Package rest asks servers of tests by their HTTP APIs, in plain JSON, so that
// a test looks at a server with other eyes than the code that it tries.
//
// It owns one request. It must not know any server.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Client asks one server.
type Client struct {
	URL    string
	Header http.Header // of every request, such as a token
}

// Status is the error of an answer that is none of success.
type Status struct {
	Code          int
	Request, Said string
}

func (s *Status) Error() string {
	return fmt.Sprintf("%s answers %d: %s", s.Request, s.Code, s.Said)
}

// Is says whether an error is an answer with that code.
func Is(err error, code int) bool {
	s := (*Status)(nil)
	return errors.As(err, &s) && s.Code == code
}

// No connection is kept: one to a server that is paused or restarted would stay.
var client = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

// Ask sends a value (bytes as they are, anything else as JSON, nil for nothing)
// and reads the answer likewise into a pointer to bytes or to anything else.
func (c Client) Ask(ctx context.Context, method, path string, in, out any) error {
	body, raw := in.([]byte)
	if in != nil && !raw {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range c.Header {
		req.Header[name] = values
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode >= 300 {
		return &Status{Code: res.StatusCode, Request: method + " " + path, Said: string(bytes.TrimSpace(said))}
	}
	switch to := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*to = said
		return nil
	default:
		return json.Unmarshal(said, out)
	}
}
