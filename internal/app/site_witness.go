package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/resilience"
	"github.com/droverhq/drover/internal/site"
)

// consulCell is a key of a Consul that is in neither site. Sessions are not used: the
// shortest lasts ten seconds and may take twice that to end, and the lease needs
// nothing but a comparison.
type consulCell struct {
	at     string // URL of the key
	token  func() (string, error)
	client *http.Client
}

// newWitness reads consul:http://host:8500/key. The token is in a file, which is read each
// time, or in CONSUL_HTTP_TOKEN, as for Consul's own programs.
func newWitness(text string, set options, observer resilience.Observer) (site.Register, error) {
	rest, ok := strings.CutPrefix(text, "consul:")
	u, err := url.Parse(rest)
	if !ok || err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || len(u.Path) < 2 {
		return nil, fault.New(fault.Invalid, "--witness: want consul:http://HOST:8500/KEY")
	}
	if err := set.check("witness-options", "token-file", "ca", "certificate", "key", "server-name"); err != nil {
		return nil, err
	}
	u.Path, u.RawQuery = "/v1/kv"+u.Path, ""
	token := func() (string, error) { return os.Getenv("CONSUL_HTTP_TOKEN"), nil }
	if file := set["token-file"]; file != "" {
		token = func() (string, error) {
			data, err := os.ReadFile(file)
			return strings.TrimSpace(string(data)), err
		}
		if _, err := token(); err != nil {
			return nil, fault.New(fault.Invalid, "--witness-options: cannot read token-file: %w", err)
		}
	}
	way := maps.Clone(set)
	delete(way, "token-file")
	client, err := peerClient(nil, "witness-options", way, resilience.New(siteConfig(toWitness, observer)))
	if err != nil {
		return nil, err
	}
	return &consulCell{at: u.String(), token: token, client: client}, nil
}

func (c *consulCell) do(ctx context.Context, method, query string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.at+"?"+query, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	token, err := c.token()
	if err != nil {
		return 0, nil, fault.New(fault.Unavailable, "cannot read the token of the witness: %w", err)
	}
	if token != "" {
		req.Header.Set("X-Consul-Token", token)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		c.client.CloseIdleConnections() // one that hangs would have the next question hang
		return 0, nil, fault.New(fault.Unavailable, "the witness does not answer: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return 0, nil, fault.New(fault.Unavailable, "the witness broke off: %w", err)
	}
	return resp.StatusCode, data, nil
}

// Read implements site.Register.
func (c *consulCell) Read(ctx context.Context) (site.Cell, error) {
	status, data, err := c.do(ctx, http.MethodGet, "consistent", nil)
	switch {
	case err != nil:
		return site.Cell{}, err
	case status == http.StatusNotFound:
		return site.Cell{}, nil
	case status != http.StatusOK:
		return site.Cell{}, fault.New(fault.Unavailable, "the witness answered %d: may its token read and write the key?", status)
	}
	var found []struct {
		ModifyIndex uint64
		Value       string
	}
	if err := json.Unmarshal(data, &found); err != nil || len(found) != 1 {
		return site.Cell{}, fault.New(fault.Unavailable, "the witness did not answer as Consul does")
	}
	value, err := base64.StdEncoding.DecodeString(found[0].Value)
	if err != nil {
		return site.Cell{}, fault.New(fault.Unavailable, "the witness did not answer as Consul does: %w", err)
	}
	return site.Cell{Value: value, Index: found[0].ModifyIndex}, nil
}

// Write implements site.Register.
func (c *consulCell) Write(ctx context.Context, value []byte, index uint64) (bool, error) {
	status, data, err := c.do(ctx, http.MethodPut, "cas="+strconv.FormatUint(index, 10), value)
	if err == nil && status != http.StatusOK {
		err = fault.New(fault.Unavailable, "the witness answered %d: may its token read and write the key?", status)
	}
	return err == nil && strings.TrimSpace(string(data)) == "true", err
}
