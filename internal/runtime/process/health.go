package process

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/droverhq/drover/internal/program"
)

// newProbe makes the one client of all probes. It keeps no connections: an
// instance that is being stopped must not be held by ours.
func newProbe() *http.Client {
	return &http.Client{
		Timeout:       2 * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// health asks the instance once; "" means healthy, else why not, for users.
func (in *instance) health(ctx context.Context, path string) string {
	p := in.proc
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+loopback(p.Port)+path, nil)
	if err != nil {
		return "its health path is not one"
	}
	res, err := in.r.probe.Do(req)
	if err != nil {
		return "no answer to its health check"
	}
	_ = res.Body.Close()
	// An instance may tell its id, and then it must be the right one.
	if id := res.Header.Get("Drover-Instance"); id != "" && id != in.id {
		return "another program answers on its port"
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return fmt.Sprintf("its health check answers %d", res.StatusCode)
	}
	if !p.Ready && !program.Listens(p.proof, p.Port) {
		return "another program answers on its port"
	}
	return ""
}
