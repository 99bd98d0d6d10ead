package vault

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/vault"
)

// note is what is remembered of a secret: of the version that is made for sure,
// and of the one that was about to be made. Digests are keyed, and tell nothing
// to one who has the note alone.
type note struct {
	Salt string  `json:"salt,omitempty"`
	Done version `json:"done,omitzero"`
	Next version `json:"next,omitzero"`
}

type version struct {
	Place   string            `json:"place,omitempty"`
	Version int               `json:"version,omitempty"`
	Digest  string            `json:"digest,omitempty"` // of all values
	Keys    map[string]string `json:"keys,omitempty"`   // digest of each
	Rules   map[string]string `json:"rules,omitempty"`  // that generated values were made by
}

func (n note) one(key, value string) string {
	m := hmac.New(sha256.New, []byte(n.Salt))
	fmt.Fprintf(m, "%d %s %s", len(key), key, value)
	return hex.EncodeToString(m.Sum(nil))
}

func (n note) all(data map[string]any) string {
	text, err := json.Marshal(data) // keys are sorted
	if err != nil {
		return ""
	}
	return n.one("", string(text))
}

// settled is the version that is made for sure: the next one, if it was recorded,
// or if what is there is just that. Nobody else can have written its number: then
// ours would have been refused.
func (n note) settled(r executor.Resource, data map[string]any, current int) version {
	if n.Next.Version > 0 && (number(r.Outputs["version"]) == n.Next.Version && r.Outputs["path"] == named(n.Next.Place).String() ||
		current == n.Next.Version && len(data) > 0 && n.all(data) == n.Next.Digest) {
		return n.Next
	}
	return n.Done
}

// Make implements executor.Thing.
func (s *secret) Make(ctx context.Context) error {
	is := s.have[s.at]
	current := 0
	var data map[string]any
	if is != nil {
		current, data = is.Current, is.data
	}
	done := s.note.settled(s.r, data, current)
	if s.note.Salt == "" {
		s.note.Salt = rand.Text()
	}
	values := map[string]any{}
	next := version{Place: s.at.name(), Version: current + 1, Keys: map[string]string{}, Rules: map[string]string{}}
	for key, v := range s.values {
		values[key] = v
		next.Keys[key] = s.note.one(key, v)
	}
	for key, r := range s.rules {
		next.Rules[key] = r.String()
	}
	next.Digest = s.note.all(values)
	s.note.Done, s.note.Next = done, next
	if err := s.r.Remember(ctx, s.places(), s.note); err != nil {
		return err
	}
	_, err := s.c.Write(ctx, s.at.data(), map[string]any{"data": values, "options": map[string]any{"cas": current}})
	s.version = current + 1
	if !errors.Is(err, vault.ErrStale) {
		return err
	}
	// The answer to a first attempt may have been lost.
	foreign, err := s.read(ctx)
	if err != nil {
		return err
	}
	if foreign != "" {
		return executor.NotOurs("the secret " + foreign)
	}
	if is = s.have[s.at]; is == nil || is.Current != next.Version {
		return stale(s.r, "the secret "+s.at.String())
	}
	if err := s.fetch(ctx, s.at, is); err != nil {
		return err
	}
	if s.note.all(is.data) != next.Digest {
		return stale(s.r, "the secret "+s.at.String())
	}
	return nil
}

// Finish implements executor.Thing: it marks what is not marked yet, and removes
// what has moved away.
func (s *secret) Finish(ctx context.Context) error {
	custom := map[string]string{}
	if is := s.have[s.at]; is != nil {
		maps.Copy(custom, is.Custom)
	}
	if custom[owner] != s.r.ID {
		custom[owner] = s.r.ID
		if _, err := s.c.Write(ctx, s.at.mount+"/metadata/"+s.at.path, map[string]any{"custom_metadata": custom}); err != nil {
			return err
		}
	}
	for at := range s.have {
		if at != s.at {
			if err := s.c.Remove(ctx, at.mount+"/metadata/"+at.path); err != nil {
				return err
			}
		}
	}
	if len(s.places()) == 1 {
		return nil
	}
	return s.r.Remember(ctx, []string{s.at.name()}, s.note)
}

// Remove implements executor.Thing. All versions go: a secret that stays in a
// history is not gone.
func (s *secret) Remove(ctx context.Context) error {
	if _, err := s.read(ctx); err != nil {
		return err
	}
	for at := range s.have {
		if err := s.c.Remove(ctx, at.mount+"/metadata/"+at.path); err != nil {
			return err
		}
	}
	return nil
}

// Bounds of a list: how many strays are told, and how many secrets are looked at.
const (
	told   = 1000
	looked = 200
)

// List implements executor.Lister: secrets in the folders of the resources'
// secrets that no resource has marked. Their values are not read.
func (e *Executor) List(ctx context.Context, all []executor.Resource) (out []executor.Stray, err error) {
	type folder struct {
		c  *vault.Client
		at place
	}
	folders := map[folder]string{} // → address
	expected := map[folder]bool{}
	for _, r := range all {
		if r.Input("policy").Given {
			continue
		}
		c, err := e.pool.Get(r.Connection)
		if err != nil {
			return nil, err
		}
		s, err := newSecret(c, r)
		if err != nil {
			return nil, err
		}
		if s.known() {
			expected[folder{c, s.at}] = true
			// The top is everybody's.
			if dir := parent(s.at.path); dir != "" {
				folders[folder{c, place{s.at.mount, dir}}] = r.Address
			}
		}
	}
	asked := 0
	for f, address := range folders {
		keys, err := f.c.List(ctx, f.at.mount+"/metadata/"+f.at.path)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			at := place{f.at.mount, f.at.path + "/" + key}
			if key == "" || key[len(key)-1] == '/' || expected[folder{f.c, at}] {
				continue
			}
			if asked++; asked > looked || len(out) >= told {
				break
			}
			is := kept{}
			found, err := f.c.Read(ctx, at.mount+"/metadata/"+at.path, &is)
			if err != nil && !fault.Is(err, fault.Denied) {
				return nil, err
			}
			if found && is.Custom[owner] == "" {
				out = append(out, executor.Stray{Name: at.String(), Where: address})
			}
		}
	}
	slices.SortFunc(out, func(a, b executor.Stray) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// parent is the folder of a path, empty at the top.
func parent(p string) string {
	if i := strings.LastIndexByte(p, '/'); i > 0 {
		return p[:i]
	}
	return ""
}
