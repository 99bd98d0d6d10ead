package httpapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/fault"
)

// own is the frame of Drover's own API: huma turns operations into handlers
// and into the OpenAPI document, so that the two cannot differ.
type own struct {
	*server
	api    huma.API
	mux    *http.ServeMux
	agents *hub   // what data planes must have
	turns  *turns // of agents that are new here
	keyset keyset // that signs what they are told
}

// routesV1 registers Drover's own API, the agents' protocol and the documents.
func (s *server) routesV1(mux *http.ServeMux) {
	o := s.ownAPI(mux)
	o.routes()
	mux.HandleFunc("/api/v1/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, fault.New(fault.NotFound, "there is nothing at %s %.256q", r.Method, r.URL.Path))
	})
	s.routesDocs(mux, o.api.OpenAPI())
}

func (o *own) routes() {
	o.routesResource()
	o.routesInstance()
	o.routesOffering()
	o.routesChange()
	o.routesOperator()
	o.routesAudit()
	o.routesDoctor()
	o.routesSite()
	o.routesCluster()
	o.routesPlacement()
	o.routesTemplate()
	o.routesEnvironment()
	o.routesEnvironmentRead()
	o.routesAction()
	o.routesState()
	o.routesSearch()
	o.routesDeployment()
	o.routesSubscription()
	o.routesBus()
	o.routesEvent()
	o.routesInstall()
	o.routesAgent()
}

const ownDescription = `Drover's own API: every resource of the control plane under the same verbs, with history, time travel and a watch.

Names of resources are kinds of the ledger (instances, offerings, clusters, operations) or what an offering calls its instances (GET /api/v1/kinds lists them). Work is asynchronous: a change answers 202 with the id of an operation in the header Drover-Operation.`

func (s *server) ownAPI(mux *http.ServeMux) *own {
	ownErrors()
	config := huma.DefaultConfig("Drover API", "v1")
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[wireError](), reflect.TypeFor[v1.Error]())
	config.Info.Description = ownDescription
	// No links to schemas in answers, and the documents are served elsewhere.
	config.CreateHooks, config.OpenAPIPath, config.DocsPath, config.SchemasPath = nil, "", "", ""
	config.Formats = map[string]huma.Format{"application/json": ownJSON, "json": ownJSON}
	config.Security = []map[string][]string{{"bearer": {}}}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"bearer": {Type: "http", Scheme: "bearer", BearerFormat: "JWT"},
	}
	return &own{server: s, api: humago.New(mux, config), mux: mux}
}

// raw registers a handler that reads or writes something else than one JSON
// value, with the operation that documents it.
func (o *own) raw(op huma.Operation, handler http.HandlerFunc) {
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	failed := &huma.Response{Description: "Error", Content: o.content("application/json", v1.Error{})}
	op.Responses["default"] = failed
	o.api.OpenAPI().AddOperation(&op)
	o.mux.HandleFunc(op.Method+" "+op.Path, handler)
}

// content describes a body by the Go value that it is made of.
func (o *own) content(media string, of any) map[string]*huma.MediaType {
	schema := o.api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(of), true, "")
	return map[string]*huma.MediaType{media: {Schema: schema}}
}

func queryParam(name, description, kind string) *huma.Param {
	return &huma.Param{Name: name, In: "query", Description: description, Schema: &huma.Schema{Type: kind}}
}

func pathParam(name, description string) *huma.Param {
	return &huma.Param{Name: name, In: "path", Required: true, Description: description, Schema: &huma.Schema{Type: "string"}}
}

// ownJSON reads bodies as strictly as the offerings' APIs do: one object, each
// member once, in UTF-8. Besides, null is no value of any field here.
var ownJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(v)
	},
	Unmarshal: func(data []byte, v any) error {
		err := eachMember(data, func(name string, value json.RawMessage) error {
			if string(value) == "null" {
				return fault.New(fault.Invalid, "field %.64q must not be null; leave it out", name).Because("body")
			}
			return nil
		})
		if err != nil {
			return err
		}
		if json.Unmarshal(data, v) != nil {
			return malformed("a field has the wrong type")
		}
		return nil
	},
}

// wireError is the error object as huma wants it.
type wireError struct {
	object v1.Error
	status int
}

func (e *wireError) Error() string                { return e.object.Reason }
func (e *wireError) GetStatus() int               { return e.status }
func (e *wireError) MarshalJSON() ([]byte, error) { return json.Marshal(e.object) }

// ownErrors makes huma answer with the error object that all APIs of the server
// share. Huma keeps this in variables of its package, hence once per process.
var ownErrors = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return toWire(nil, humaFault(status, msg, errs))
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return toWire(ctx, humaFault(status, msg, errs))
	}
})

func toWire(ctx huma.Context, err error) huma.StatusError {
	a := answerTo(err, nil)
	id := ""
	if ctx != nil {
		t := traceOf(ctx.Context())
		t.err, id = err, t.id
		if a.retry > 0 {
			ctx.SetHeader("Retry-After", "1")
		}
	}
	return &wireError{object: ownFace.object(a.code, a.reason, id), status: a.status}
}

// humaFault gives an error of huma's own, or of a handler, its kind. Rejected
// values are never repeated: they may be secrets.
func humaFault(status int, msg string, errs []error) error {
	var tooLarge *http.MaxBytesError
	var known *fault.Error
	for _, err := range errs {
		if errors.As(err, &tooLarge) || errors.As(err, &known) {
			return err
		}
	}
	switch {
	case status >= 500 && len(errs) == 1:
		return errs[0]
	case status >= 500:
		return errors.New(msg)
	case status == http.StatusRequestEntityTooLarge:
		return fault.New(fault.Invalid, "the body is too large").Because("body")
	}
	var sb strings.Builder
	for i, err := range errs {
		if i > 0 {
			sb.WriteString("; ")
		}
		if d, ok := err.(huma.ErrorDetailer); ok {
			sb.WriteString(strings.TrimPrefix(d.ErrorDetail().Location, "body."))
			sb.WriteString(": ")
			sb.WriteString(d.ErrorDetail().Message)
		} else {
			sb.WriteString("the value cannot be read")
		}
		if sb.Len() > 1024 {
			break
		}
	}
	if sb.Len() > 0 {
		msg = sb.String()
	}
	reason := ""
	if status == http.StatusBadRequest || status == http.StatusUnsupportedMediaType {
		reason = "body"
	}
	return fault.New(fault.Invalid, "%s", msg).Because(reason)
}
