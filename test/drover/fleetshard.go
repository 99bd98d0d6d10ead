package drover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/droverhq/drover/api/v1"
)

// Fleetshard is an agent that is not Drover's own: it polls the list of an
// offering's API and puts statuses, as the sync agents of fleet managers do,
// and logs in as the account that its cluster has at the identity provider.
type Fleetshard struct {
	Cluster string
	API     string   // path: /api/kafkas_mgmt/v1
	Plural  string   // kafkas
	Servers []string // URLs, asked in turn; those that are away are passed over
	Router  string   // where its routes lead to

	credentials v1.AgentCredentials
	stop        chan struct{}
	done        chan struct{}

	mu     sync.Mutex
	seen   map[string]Managed
	bodies map[string][]string // different documents by id, in their order
	told   map[string]string   // last status that was acknowledged, by id
	mute   map[string]bool
	token  string
	until  time.Time
	polls  int
	last   error
}

// Managed is an instance as such an agent reads it.
type Managed struct {
	ID       string `json:"id"`
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Annotations map[string]string `json:"annotations"`
		Labels      map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		ServiceAccounts []struct {
			Name, Principal, Password string
		} `json:"serviceAccounts"`
		Endpoint struct {
			Host string `json:"bootstrapServerHost"`
		} `json:"endpoint"`
		Owners   []string          `json:"owners"`
		Versions map[string]string `json:"versions"`
		Deleted  bool              `json:"deleted"`
	} `json:"spec"`
}

// JoinOutside registers a cluster and runs an outside agent for it until the
// test ends. The first server is where the cluster is registered.
func JoinOutside(t testing.TB, f *Fleetshard, s *Server, provider, region string) *Fleetshard {
	t.Helper()
	if _, stderr, code := s.Run("create", "cluster", f.Cluster, "--provider", provider, "--region", region); code != 0 {
		t.Fatalf("cannot register a cluster: %s", stderr)
	}
	admin, err := s.AdminToken()
	if err != nil {
		t.Fatal(err)
	}
	Until(t, "the account of the agent of "+f.Cluster, func() bool {
		a, err := Ask(Request{Method: http.MethodPost, URL: s.URL() + "/api/v1/clusters/" + f.Cluster + "/credentials", Token: admin})
		return err == nil && a.Status == http.StatusOK && json.Unmarshal(a.Body, &f.credentials) == nil && f.credentials.ClientID != ""
	})
	f.seen, f.bodies, f.told, f.mute = map[string]Managed{}, map[string][]string{}, map[string]string{}, map[string]bool{}
	f.stop, f.done = make(chan struct{}), make(chan struct{})
	go f.run()
	t.Cleanup(func() {
		f.End()
		if t.Failed() {
			f.mu.Lock()
			defer f.mu.Unlock()
			t.Logf("agent of %s: %d polls, %d known, last error: %v", f.Cluster, f.polls, len(f.seen), f.last)
		}
	})
	Until(t, "the first poll of the agent of "+f.Cluster, func() bool { return f.Polls() > 0 })
	return f
}

// End stops the agent.
func (f *Fleetshard) End() {
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	<-f.done
}

// Polls is how often it has got its list.
func (f *Fleetshard) Polls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.polls
}

// Secret of its account.
func (f *Fleetshard) Secret() string { return f.credentials.ClientSecret }

// Find returns an instance as the agent was last told of it.
func (f *Fleetshard) Find(id string) (Managed, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.seen[id]
	return m, ok
}

// Documents are the different ones that the agent has been told for an id.
func (f *Fleetshard) Documents(id string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.bodies[id])
}

// Mute keeps the agent from reporting on instances of a name, or lets it again.
func (f *Fleetshard) Mute(name string, quiet bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mute[name] = quiet
	f.told = map[string]string{}
}

// run polls without pause for breath: a test waits for nobody's interval. It
// tells what changed, and everything now and then. It ends with End.
func (f *Fleetshard) run() {
	defer close(f.done)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	whole := time.Now()
	ready := false
	for n := 0; ; n++ {
		select {
		case <-f.stop:
			return
		case <-tick.C:
		}
		if time.Since(whole) > 3*time.Second {
			whole, ready = time.Now(), false
			f.mu.Lock()
			f.told = map[string]string{}
			f.mu.Unlock()
		}
		server := f.Servers[n%len(f.Servers)]
		err := f.round(server, &ready)
		f.mu.Lock()
		f.last = err
		f.mu.Unlock()
	}
}

const shardReady = `{"conditions": [{"type": "Ready", "status": "True"}],
	"strimzi": [{"ready": true, "version": "strimzi-cluster-operator.v0.23.0", "kafkaVersions": ["3.2.0", "3.3.1"], "kafkaIbpVersions": ["3.2", "3.3"]}]}`

func (f *Fleetshard) round(server string, ready *bool) error {
	token, err := f.login()
	if err != nil {
		return err
	}
	at := server + f.API + "/agent-clusters/" + f.Cluster
	if !*ready {
		if err := f.put(at+"/status", token, []byte(shardReady)); err != nil {
			return err
		}
		*ready = true
	}
	a, err := Ask(Request{Method: http.MethodGet, URL: at + "/" + f.Plural, Token: token, Timeout: 5 * time.Second})
	if err != nil {
		return err
	}
	if a.Status != http.StatusOK {
		return f.refused(a)
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(a.Body, &list); err != nil {
		return err
	}
	report, told := f.note(list.Items)
	if len(report) > 0 {
		body, _ := json.Marshal(report)
		if err := f.put(at+"/"+f.Plural+"/status", token, body); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.Copy(f.told, told)
	f.polls++
	return nil
}

// note remembers what the list says and returns what is to be reported.
func (f *Fleetshard) note(items []json.RawMessage) (report map[string]any, told map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	report, told = map[string]any{}, map[string]string{}
	seen := map[string]Managed{}
	for _, raw := range items {
		var m Managed
		if json.Unmarshal(raw, &m) != nil || m.ID == "" {
			continue
		}
		seen[m.ID] = m
		var b bytes.Buffer
		_ = json.Compact(&b, raw)
		if had := f.bodies[m.ID]; len(had) == 0 || had[len(had)-1] != b.String() {
			f.bodies[m.ID] = append(had, b.String())
			delete(f.told, m.ID)
		}
		if f.mute[m.Metadata.Name] || strings.HasPrefix(m.ID, "reserved-") {
			continue
		}
		state := "ready"
		condition := map[string]any{"type": "Ready", "status": "True"}
		switch {
		case m.Spec.Deleted:
			state, condition = "deleted", map[string]any{"type": "Ready", "status": "False", "reason": "Deleted"}
		case m.Metadata.Labels["bf2.org/suspended"] == "true":
			state, condition = "suspended", map[string]any{"type": "Ready", "status": "False", "reason": "Suspended"}
		}
		if f.told[m.ID] == state {
			continue
		}
		told[m.ID] = state
		report[m.ID] = map[string]any{
			"conditions": []any{condition}, "versions": m.Spec.Versions,
			"routes": []any{
				map[string]any{"name": "bootstrap", "prefix": "", "router": f.Router},
				map[string]any{"name": "admin-server", "prefix": "admin-server", "router": f.Router},
			},
			"adminServerURI": "https://admin-server-" + m.Spec.Endpoint.Host,
		}
	}
	f.seen = seen
	return report, told
}

func (f *Fleetshard) put(url, token string, body []byte) error {
	a, err := Ask(Request{Method: http.MethodPut, URL: url, Token: token, Body: body, Timeout: 5 * time.Second})
	if err == nil && a.Status != http.StatusOK {
		err = f.refused(a)
	}
	return err
}

func (f *Fleetshard) refused(a Answer) error {
	if a.Status == http.StatusUnauthorized {
		f.mu.Lock()
		f.until = time.Time{}
		f.mu.Unlock()
	}
	return fmt.Errorf("status %d: %s", a.Status, a.Body)
}

// login gets a token where there is none that is good for a while.
func (f *Fleetshard) login() (string, error) {
	f.mu.Lock()
	token, until := f.token, f.until
	f.mu.Unlock()
	if time.Now().Before(until) {
		return token, nil
	}
	fresh, life, err := ClientCredentials(f.credentials.TokenURL, f.credentials.ClientID, f.credentials.ClientSecret)
	if err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.token, f.until = fresh, time.Now().Add(life/2)
	return fresh, nil
}

// ClientCredentials logs a program in.
func ClientCredentials(tokenURL, id, secret string) (token string, life time.Duration, err error) {
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}}
	a, err := Ask(Request{
		Method: http.MethodPost, URL: tokenURL, Body: []byte(form.Encode()), Timeout: time.Minute,
		Header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}},
	})
	if err != nil {
		return "", 0, err
	}
	var got struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int    `json:"expires_in"`
	}
	if a.Status != http.StatusOK || json.Unmarshal(a.Body, &got) != nil || got.AccessToken == "" {
		return "", 0, fmt.Errorf("the login of %s gets status %d: %s", id, a.Status, a.Body)
	}
	return got.AccessToken, time.Duration(got.ExpiresIn) * time.Second, nil
}
