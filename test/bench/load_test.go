//go:build bench

package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// caller sends requests over kept-alive connections.
type caller struct {
	base, token string
	client      *http.Client
}

func newCaller(base, token string) *caller {
	return &caller{base: base, token: token, client: &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
	}}
}

// do returns the status and throws the body away.
func (c *caller) do(method, path, body string) (int, error) {
	status, _, err := c.read(method, path, body)
	return status, err
}

func (c *caller) read(method, path, body string) (int, []byte, error) {
	req, err := http.NewRequest(method, c.base+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var buf bytes.Buffer
	_, err = io.Copy(&buf, resp.Body)
	return resp.StatusCode, buf.Bytes(), err
}

// rate is the outcome of a run of requests.
type rate struct {
	n        int64
	took     time.Duration
	latency  []time.Duration // sorted
	serverMS float64         // CPU of the server process per request, in ms
}

func (r rate) perSecond() float64 { return float64(r.n) / r.took.Seconds() }

func (r rate) quantile(q float64) time.Duration { return quantile(r.latency, q) }

func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// load sends requests from workers at once until the time is over or, where
// most > 0, that many were sent.
func load(t *testing.T, pid, workers int, d time.Duration, most int64, send func(i int64) (int, error)) rate {
	t.Helper()
	var next, done atomic.Int64
	var mu sync.Mutex
	var all []time.Duration
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	before := cpu(pid)
	begin := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			var mine []time.Duration
			for ctx.Err() == nil {
				i := next.Add(1)
				if most > 0 && i > most {
					break
				}
				sent := time.Now()
				status, err := send(i)
				if err != nil || status/100 != 2 {
					t.Errorf("request %d: status %d, %v", i, status, err)
					break
				}
				mine = append(mine, time.Since(sent))
				done.Add(1)
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	r := rate{n: done.Load(), took: time.Since(begin), latency: all}
	if used := cpu(pid) - before; r.n > 0 {
		r.serverMS = float64(used) / float64(time.Millisecond) / float64(r.n)
	}
	slices.Sort(r.latency)
	return r
}

// cpu is the processor time that a process has used (Linux; 0 elsewhere).
func cpu(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * (time.Second / 100)
}
