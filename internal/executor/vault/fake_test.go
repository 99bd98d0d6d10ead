package vault_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fake is as much of Vault as the executor needs, in memory.
type fake struct {
	mu       sync.Mutex
	tokens   map[string]bool // good ones
	roles    map[string]string
	secrets  map[string]*stored
	policies map[string]string
	refuse   func(r *http.Request) (status int, said string)
	logins   int
	renewals int
	reads    int // of values
	life     int // of tokens, in seconds
}

type stored struct {
	custom   map[string]any
	versions []map[string]any
}

func newFake() *fake {
	return &fake{tokens: map[string]bool{"root": true}, roles: map[string]string{}, secrets: map[string]*stored{}, policies: map[string]string{"default": "path \"x\" {}"}, life: 3600}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fail := func(status int, said ...string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": append([]string{}, said...)})
	}
	if f.refuse != nil {
		if status, said := f.refuse(r); status != 0 {
			fail(status, said)
			return
		}
	}
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	var in map[string]any
	_ = json.NewDecoder(r.Body).Decode(&in)
	if strings.HasPrefix(path, "auth/") && strings.HasSuffix(path, "/login") {
		id, _ := in["role_id"].(string)
		if in["secret_id"] != f.roles[id] || id == "" {
			fail(http.StatusBadRequest, "invalid role or secret ID")
			return
		}
		f.logins++
		token := "session-" + strconv.Itoa(f.logins)
		f.tokens[token] = true
		_ = json.NewEncoder(w).Encode(map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": f.life, "renewable": true}})
		return
	}
	token := r.Header.Get("X-Vault-Token")
	if !f.tokens[token] {
		fail(http.StatusForbidden, "permission denied")
		return
	}
	switch {
	case path == "auth/token/lookup-self":
		f.give(w, map[string]any{"ttl": f.life, "renewable": true})
	case path == "auth/token/renew-self":
		f.renewals++
		_ = json.NewEncoder(w).Encode(map[string]any{"auth": map[string]any{"client_token": token, "lease_duration": f.life, "renewable": true}})
	case strings.HasPrefix(path, "sys/internal/ui/mounts/"):
		version := map[string]string{"secret": "2", "old": "1"}[strings.TrimPrefix(path, "sys/internal/ui/mounts/")]
		if version == "" {
			fail(http.StatusForbidden, "preflight capability check returned 403")
			return
		}
		f.give(w, map[string]any{"type": "kv", "options": map[string]string{"version": version}})
	case strings.HasPrefix(path, "sys/policies/acl"):
		name := strings.Trim(strings.TrimPrefix(path, "sys/policies/acl"), "/")
		text, ok := f.policies[name]
		switch {
		case r.URL.Query().Has("list"):
			keys := []string{}
			for name := range f.policies {
				keys = append(keys, name)
			}
			f.give(w, map[string]any{"keys": keys})
		case r.Method == http.MethodDelete:
			delete(f.policies, name)
			w.WriteHeader(http.StatusNoContent)
		case r.Method != http.MethodGet:
			f.policies[name], _ = in["policy"].(string)
			w.WriteHeader(http.StatusNoContent)
		case !ok:
			fail(http.StatusNotFound)
		default:
			f.give(w, map[string]any{"policy": text})
		}
	case strings.HasPrefix(path, "secret/metadata/"):
		f.metadata(w, r, strings.TrimPrefix(path, "secret/metadata/"), in, fail)
	case strings.HasPrefix(path, "secret/data/"):
		f.data(w, r, strings.TrimPrefix(path, "secret/data/"), in, fail)
	default:
		fail(http.StatusNotFound, "no handler for route \""+path+"\"")
	}
}

func (f *fake) give(w http.ResponseWriter, data any) {
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data})
}

func (f *fake) metadata(w http.ResponseWriter, r *http.Request, path string, in map[string]any, fail func(int, ...string)) {
	s := f.secrets[path]
	switch {
	case r.URL.Query().Has("list"):
		keys := []string{}
		for name := range f.secrets {
			if rest, ok := strings.CutPrefix(name, strings.TrimSuffix(path, "/")+"/"); ok {
				key, _, deep := strings.Cut(rest, "/")
				if deep {
					key += "/"
				}
				if !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
		if len(keys) == 0 {
			fail(http.StatusNotFound)
			return
		}
		f.give(w, map[string]any{"keys": keys})
	case r.Method == http.MethodDelete:
		delete(f.secrets, path)
		w.WriteHeader(http.StatusNoContent)
	case r.Method != http.MethodGet:
		if s == nil {
			s = &stored{}
			f.secrets[path] = s
		}
		s.custom, _ = in["custom_metadata"].(map[string]any)
		w.WriteHeader(http.StatusNoContent)
	case s == nil:
		fail(http.StatusNotFound)
	default:
		versions := map[string]any{}
		for i, v := range s.versions {
			deleted := ""
			if v == nil {
				deleted = time.Unix(0, 0).Format(time.RFC3339)
			}
			versions[strconv.Itoa(i+1)] = map[string]any{"deletion_time": deleted, "destroyed": false}
		}
		f.give(w, map[string]any{"current_version": len(s.versions), "custom_metadata": s.custom, "versions": versions})
	}
}

func (f *fake) data(w http.ResponseWriter, r *http.Request, path string, in map[string]any, fail func(int, ...string)) {
	s := f.secrets[path]
	if r.Method == http.MethodGet {
		f.reads++
		if s == nil || len(s.versions) == 0 || s.versions[len(s.versions)-1] == nil {
			fail(http.StatusNotFound)
			return
		}
		f.give(w, map[string]any{"data": s.versions[len(s.versions)-1], "metadata": map[string]any{"version": len(s.versions), "custom_metadata": s.custom}})
		return
	}
	if s == nil {
		s = &stored{}
	}
	if options, _ := in["options"].(map[string]any); options["cas"] != nil && options["cas"] != float64(len(s.versions)) {
		fail(http.StatusBadRequest, "check-and-set parameter did not match the current version")
		return
	}
	if r.Method == http.MethodDelete {
		s.versions[len(s.versions)-1] = nil
	} else {
		data, _ := in["data"].(map[string]any)
		s.versions = append(s.versions, data)
	}
	f.secrets[path] = s
	f.give(w, map[string]any{"version": len(s.versions)})
}
