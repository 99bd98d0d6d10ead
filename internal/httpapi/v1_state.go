package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/environment"
	"github.com/droverhq/drover/internal/fault"
)

const (
	statePrefix = "/api/v1/state/"
	statePath   = statePrefix + "{resource}"
	maxState    = 64<<20 + 1 // bytes of a body

	// ErrandState is the purpose of the token that a run of OpenTofu comes with: the
	// password of its basic authentication. The subject is the resource's id.
	ErrandState = "state"
)

type unlockInput struct {
	ID      string `path:"id" doc:"Name or id of the environment" maxLength:"256"`
	Address string `query:"address" doc:"Address of the resource within the environment" required:"true" maxLength:"256"`
}

// routesState serves what OpenTofu remembers to its backend "http", and the way out
// where a machine was lost with a lock.
func (o *own) routesState() {
	if o.Environments == nil {
		return
	}
	tags := []string{"environments"}
	serve := o.runsOnly(ServeState(o.Environments.States(), o.fail))
	state := map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{Type: "object"}}}
	security := []map[string][]string{{"basic": {}}}
	o.api.OpenAPI().Components.SecuritySchemes["basic"] = &huma.SecurityScheme{Type: "http", Scheme: "basic"}
	param := []*huma.Param{pathParam("resource", "Id of the resource")}
	for _, op := range []huma.Operation{
		{OperationID: "get-state", Method: http.MethodGet, Summary: "What OpenTofu remembers of a resource; only for the run that works on it",
			Responses: map[string]*huma.Response{"200": {Description: "The state", Content: state}, "204": {Description: "There is none"}}},
		{OperationID: "write-state", Method: http.MethodPost, Summary: "Keep what OpenTofu remembers, under its lock; older ones are refused",
			RequestBody: &huma.RequestBody{Required: true, Content: state},
			Responses:   map[string]*huma.Response{"200": {Description: "It is kept"}}},
		{OperationID: "delete-state", Method: http.MethodDelete, Summary: "Forget a state of which nothing is left",
			Responses: map[string]*huma.Response{"200": {Description: "It is forgotten"}}},
	} {
		op.Path, op.Tags, op.Security, op.Parameters = statePath, tags, security, param
		op.Description = "The protocol of OpenTofu's backend \"http\", with its methods LOCK and UNLOCK at the same place."
		if op.Method == http.MethodPost {
			op.Parameters = []*huma.Param{param[0], queryParam("ID", "Id of the lock that the writer holds", "string")}
		}
		o.raw(op, serve.ServeHTTP)
	}
	o.mux.Handle("LOCK "+statePath, serve)
	o.mux.Handle("UNLOCK "+statePath, serve)
	huma.Register(o.api, huma.Operation{
		OperationID: "unlock-environment", Method: http.MethodPost, Path: "/api/v1/environments/{id}/unlock", Tags: tags,
		Summary:       "Take the lock on a resource's state away from a run whose machine is gone",
		Description:   "Be sure that it is: whatever that run still does is not written down any more.",
		DefaultStatus: http.StatusAccepted,
	}, func(ctx context.Context, in *unlockInput) (*accepted, error) {
		e, err := o.Environments.Unlock(ctx, in.ID, in.Address)
		return o.acceptEnvironment(ctx)(e, "", err)
	})
}

// runsOnly keeps everybody else from states, operators too: they are full of secrets.
func (o *own) runsOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, run, err := o.remembering(r)
		if err == nil && !run {
			err = fault.New(fault.Denied, "states are for the runs that work on them").Because("token")
		}
		if err != nil {
			o.fail(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// remembering lets a run of OpenTofu to its state; false if the request is no such.
// It makes the run nobody else.
func (s *server) remembering(r *http.Request) (access.Principal, bool, error) {
	id, ok := strings.CutPrefix(r.URL.Path, statePrefix)
	_, token, basic := r.BasicAuth()
	if !ok || !basic || id == "" || strings.Contains(id, "/") || s.Issuer == nil {
		return access.Principal{}, false, nil
	}
	return access.Principal{}, true, s.Issuer.Errand(r.Context(), token, ErrandState, id)
}

// RunName is the name of a run for its basic authentication: where it works, and
// its fence.
func RunName(host, run string, fence int64) string {
	return url.Values{"host": {host}, "run": {run}, "fence": {strconv.FormatInt(fence, 10)}}.Encode()
}

// ServeState serves states to whoever was let in; fail answers errors.
func ServeState(states *environment.States, fail func(http.ResponseWriter, *http.Request, error)) http.Handler {
	s := stateServer{states}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		var err error
		switch id := r.PathValue("resource"); r.Method {
		case http.MethodGet:
			err = s.get(w, r, id)
		case http.MethodPost:
			err = s.post(r, id)
		case http.MethodDelete:
			err = s.states.Forget(r.Context(), id)
		case "LOCK":
			var held *environment.StateLock
			if held, err = s.lock(r, id); err != nil && held != nil {
				write(w, http.StatusLocked, "application/json", held.Info)
				return
			}
		case "UNLOCK":
			err = s.unlock(r, id)
		}
		switch {
		case err != nil:
			fail(w, r, err)
		case r.Method != http.MethodGet:
			w.WriteHeader(http.StatusOK)
		}
	})
}

type stateServer struct{ states *environment.States }

func (s stateServer) get(w http.ResponseWriter, r *http.Request, id string) error {
	_, data, err := s.states.Read(r.Context(), id)
	switch {
	case err != nil:
		return err
	case data == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		write(w, http.StatusOK, "application/json", data)
	}
	return nil
}

func (s stateServer) post(r *http.Request, id string) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	lock := r.URL.Query().Get("ID")
	if lock == "" {
		return fault.New(fault.Conflict, "a state is written by whoever has locked it").Because("lock-lost")
	}
	return s.states.Write(r.Context(), id, environment.StateWrite{Lock: lock, Data: data})
}

// info is what OpenTofu says of a lock.
func info(r *http.Request) (id, who string, raw json.RawMessage, err error) {
	if raw, err = io.ReadAll(r.Body); err != nil {
		return "", "", nil, err
	}
	var said struct{ ID, Who string }
	if json.Unmarshal(raw, &said) != nil || said.ID == "" {
		return "", "", nil, malformed("a lock has an ID")
	}
	return said.ID, said.Who, raw, nil
}

func (s stateServer) lock(r *http.Request, resource string) (*environment.StateLock, error) {
	id, who, raw, err := info(r)
	if err != nil {
		return nil, err
	}
	name, _, _ := r.BasicAuth()
	run, _ := url.ParseQuery(name) // whoever has another name has no place either
	fence, _ := strconv.ParseInt(run.Get("fence"), 10, 64)
	return s.states.Lock(r.Context(), resource, environment.StateLock{
		ID: id, Who: plainText(who, maxText), Host: plainText(run.Get("host"), maxText), Run: plainText(run.Get("run"), maxText), Fence: fence, Info: raw,
	})
}

func (s stateServer) unlock(r *http.Request, resource string) error {
	id, _, _, err := info(r)
	if err != nil {
		return err
	}
	return s.states.Unlock(r.Context(), resource, id)
}
