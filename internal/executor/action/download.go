package action

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/transport"
)

var digestText = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkDownload refuses a program that could be anything by the time it is run.
func checkDownload(a App) error {
	u, err := url.Parse(a.URL)
	switch {
	case err != nil || u.Host == "" || u.User != nil:
		return fault.New(fault.Invalid, "the URL of %s cannot be used: write https://host/path, without a user", a.Name).Because("program")
	case !safe(u):
		return fault.New(fault.Invalid, "the URL of %s is neither https nor file:", a.Name).Because("program")
	case !digestText.MatchString(strings.ToLower(a.SHA256)):
		return fault.New(fault.Invalid, "%s needs a sha256 of 64 digits beside its URL: what is there today may be something else tomorrow", a.Name).Because("program")
	}
	return nil
}

// safe reports whether nobody on the way can change what is sent.
func safe(u *url.URL) bool {
	if u.Scheme == "https" {
		return true
	}
	return u.Scheme == "http" && transport.Loopback(u.Hostname())
}

// download returns the file of a program, fetched once and compared each time.
func (r *Runner) download(ctx context.Context, a App) (string, error) {
	want := strings.ToLower(a.SHA256)
	r.mu.Lock()
	one, ok := r.loading[want]
	if !ok {
		one = &sync.Mutex{}
		r.loading[want] = one
	}
	r.mu.Unlock()
	one.Lock()
	defer one.Unlock()
	if r.cfg.Cache == "" {
		return "", fault.New(fault.Denied, "this server downloads no programs: it has nowhere to keep them").Because("program")
	}
	file := filepath.Join(r.cfg.Cache, want)
	if sum, err := digest(file); err == nil && sum == want {
		return file, nil
	}
	if err := os.MkdirAll(r.cfg.Cache, 0o700); err != nil {
		return "", fault.New(fault.Unavailable, "there is nowhere to keep %s: %w", a.Name, err)
	}
	part, err := os.CreateTemp(r.cfg.Cache, ".part-")
	if err != nil {
		return "", fault.New(fault.Unavailable, "there is nowhere to keep %s: %w", a.Name, err)
	}
	defer os.Remove(part.Name())
	got, err := r.fetch(ctx, a, part)
	if err = errors.Join(err, part.Chmod(0o500), part.Close()); err != nil {
		return "", err
	}
	if got != want {
		return "", fault.New(fault.Invalid, "what is at the URL of %s has another sha256 than the template says (%s): it was changed, or the template is wrong", a.Name, got).Because("program")
	}
	if err := os.Rename(part.Name(), file); err != nil {
		return "", fault.New(fault.Unavailable, "there is nowhere to keep %s: %w", a.Name, err)
	}
	return file, nil
}

func (r *Runner) fetch(ctx context.Context, a App, to io.Writer) (string, error) {
	client := http.Client{}
	if r.cfg.Client != nil {
		client = *r.cfg.Client
	}
	client.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if len(via) > 5 || !safe(req.URL) {
			return errors.New("sent on to where it is not followed")
		}
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL, nil)
	if err != nil {
		return "", fault.New(fault.Invalid, "the URL of %s cannot be used", a.Name).Because("program")
	}
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return "", fault.New(fault.Unavailable, "%s cannot be downloaded: %s does not answer", a.Name, req.URL.Host)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		kind := fault.Unavailable
		if res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusGone {
			kind = fault.Invalid
		}
		return "", fault.New(kind, "%s cannot be downloaded: %s answers %d", a.Name, req.URL.Host, res.StatusCode).Because("program")
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, h), io.LimitReader(res.Body, r.cfg.MaxDownload+1))
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", fault.New(fault.Unavailable, "%s cannot be downloaded: the connection broke off", a.Name)
	case n > r.cfg.MaxDownload:
		return "", fault.New(fault.Invalid, "%s is larger than %d MiB", a.Name, r.cfg.MaxDownload>>20).Because("program")
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func digest(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
