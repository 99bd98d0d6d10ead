package agent

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"sync"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

const (
	sitesName = "sites.json"
	maxSites  = 8
)

// Sites is a Client that goes to another site when the one that it speaks to is gone,
// refuses it because another one leads, or is in an older epoch. It knows the one that
// it was started with, and those that it was told of by whom it has followed.
type Sites struct {
	store Store
	dial  func(server string) (Client, error)
	log   *slog.Logger

	mu    sync.Mutex
	given string   // that it was started with
	told  []string // by the control plane, kept
	at    string   // that it speaks to
	open  map[string]Client
}

// NewSites reads what an earlier life was told. dial makes the client of a server; log
// may be nil.
func NewSites(store Store, server string, dial func(server string) (Client, error), log *slog.Logger) (*Sites, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Sites{store: store, dial: dial, log: log, given: server, at: server, open: map[string]Client{}}
	b, err := store.Load(sitesName)
	if err == nil {
		err = json.Unmarshal(b, &s.told)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("cannot read which sites there are; those that answer tell anew", "error", err)
	}
	_, err = s.client(server) // what is wrong with it is told at once
	return s, err
}

func (s *Sites) client(server string) (Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.open[server]; c != nil {
		return c, nil
	}
	c, err := s.dial(server)
	if err == nil {
		s.open[server] = c
	}
	return c, err
}

// Sync implements Client. Each site is asked at most once; where none leads, it is the
// first one's answer that counts.
func (s *Sites) Sync(ctx context.Context, cluster string, m v1.Sync) (v1.Synced, error) {
	s.mu.Lock()
	at := s.at
	s.mu.Unlock()
	tried := []string{at}
	var first v1.Synced
	var failed error
	for {
		out, err := s.sync(ctx, at, cluster, m)
		if err == nil && out.Epoch >= m.Epoch {
			s.follow(at, out.Sites)
			return out, nil
		}
		if len(tried) == 1 {
			first, failed = out, err
		}
		next := s.next(tried)
		if next != "" && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			// It is there, perhaps, and says nothing: no time is left for another one, so
			// that is asked first the next time.
			s.mu.Lock()
			s.at = next
			s.mu.Unlock()
		}
		if next == "" || ctx.Err() != nil || err != nil && !leave(err) {
			return first, failed
		}
		s.log.Info("asks the other site", "cluster", cluster, "from", at, "to", next, "why", reasonOf(out, err))
		at, tried = next, append(tried, next)
		m.Wait = false // what is so there may be news
	}
}

func (s *Sites) sync(ctx context.Context, at, cluster string, m v1.Sync) (v1.Synced, error) {
	c, err := s.client(at)
	if err != nil {
		return v1.Synced{}, err
	}
	return c.Sync(ctx, cluster, m)
}

func reasonOf(out v1.Synced, err error) any {
	if err != nil {
		return err
	}
	return "it is in an older epoch than the one that was followed"
}

// leave tells whether another site may give a better answer: this one is gone, does not
// lead, or is an old copy.
func leave(err error) bool {
	var gone *client.Unreachable
	switch client.Status(err) {
	case http.StatusMisdirectedRequest, http.StatusConflict, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return errors.As(err, &gone)
}

// next is a site that was not tried yet; empty: there is none.
func (s *Sites) next(tried []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range append(slices.Clone(s.told), s.given) {
		if !slices.Contains(tried, at) {
			return at
		}
	}
	return ""
}

// follow stays with a site that leads, and keeps what it tells.
func (s *Sites) follow(at string, told []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at != at {
		s.log.Info("follows another site", "server", at)
		s.at = at
	}
	told = told[:min(len(told), maxSites)]
	if len(told) == 0 || slices.Equal(told, s.told) {
		return
	}
	b, err := json.Marshal(told)
	if err == nil {
		err = s.store.Save(sitesName, b)
	}
	if err != nil {
		s.log.Warn("cannot keep which sites there are; they are known until the agent ends", "error", err)
	}
	s.told = slices.Clone(told)
}
