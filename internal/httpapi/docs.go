package httpapi

import (
	"embed"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/offering"
)

//go:embed docsite
var docsite embed.FS

// docsPolicy lets the page load its own script and style and ask this server
// for documents; nothing else.
const docsPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// docsEntry is one document that the page can show.
type docsEntry struct {
	Title string `json:"title"`
	Group string `json:"group"` // public, admin or agent
	URL   string `json:"url"`
}

// routesDocs serves the documents that are not an offering's own, and the page
// that makes them readable.
func (s *server) routesDocs(mux *http.ServeMux, api *huma.OpenAPI) {
	offerings := func() []*offering.Offering { return s.Offerings.List() }
	routesDocs(mux, api, offerings, s.fail)
}

type failure func(http.ResponseWriter, *http.Request, error)

func routesDocs(mux *http.ServeMux, api *huma.OpenAPI, offerings func() []*offering.Offering, fail failure) {
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		answerDocument(w, r, fail, func() ([]byte, error) { return json.Marshal(api) })
	})
	mux.HandleFunc("GET /docs/agent.json", func(w http.ResponseWriter, r *http.Request) {
		answerDocument(w, r, fail, func() ([]byte, error) { return agentDocument(api, offerings()) })
	})
	mux.HandleFunc("GET /docs/admin.json", func(w http.ResponseWriter, r *http.Request) {
		answerDocument(w, r, fail, func() ([]byte, error) { return adminDocument(offerings()) })
	})
	mux.HandleFunc("GET /docs/documents.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"items": documents(offerings())})
	})
	mux.HandleFunc("GET /docs", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/docs/", http.StatusMovedPermanently)
	})
	for path, kind := range map[string]string{
		"/docs/{$}": "text/html; charset=utf-8", "/docs/app.js": "text/javascript; charset=utf-8", "/docs/style.css": "text/css; charset=utf-8",
	} {
		name := strings.TrimPrefix(path, "/docs/")
		if name == "{$}" {
			name = "index.html"
		}
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			data, err := docsite.ReadFile("docsite/" + name)
			if err != nil {
				fail(w, r, err)
				return
			}
			w.Header().Set("Content-Security-Policy", docsPolicy)
			w.Header().Set("Referrer-Policy", "no-referrer")
			write(w, http.StatusOK, kind, data)
		})
	}
}

func answerDocument(w http.ResponseWriter, r *http.Request, fail failure, make func() ([]byte, error)) {
	data, err := make()
	if err != nil {
		fail(w, r, fault.New(fault.Internal, "cannot write the document: %w", err))
		return
	}
	writeRaw(w, http.StatusOK, data)
}

func documents(offs []*offering.Offering) []docsEntry {
	var out []docsEntry
	for _, off := range offs {
		out = append(out, docsEntry{Title: off.Spec.Names.Kind + " API (public)", Group: "public", URL: offeringBase(off.Spec) + "/openapi"})
	}
	return append(out,
		docsEntry{Title: "Drover API (own, with operators' verbs)", Group: "admin", URL: "/openapi.json"},
		docsEntry{Title: "Operators' API of the offerings", Group: "admin", URL: "/docs/admin.json"},
		docsEntry{Title: "Agent API", Group: "agent", URL: "/docs/agent.json"})
}

// DocsHandler serves the page and the public, admin and agent documents of some
// offerings, without a ledger: for reading, and for the generators of clients.
func DocsHandler(offs []*offering.Offering) http.Handler {
	mux := http.NewServeMux()
	s := &server{Config: Config{Offerings: shelf(offs)}}
	api := s.ownAPI(http.NewServeMux()) // its handlers are never called
	api.routes()
	routesDocs(mux, api.api.OpenAPI(), func() []*offering.Offering { return offs }, s.fail)
	for _, off := range offs {
		mux.HandleFunc("GET "+offeringBase(off.Spec)+"/openapi", func(w http.ResponseWriter, r *http.Request) {
			answerDocument(w, r, s.fail, func() ([]byte, error) { return openAPIFor(off) })
		})
	}
	mux.Handle("GET /{$}", http.RedirectHandler("/docs/", http.StatusFound))
	return mux
}

// shelf is a fixed set of offerings.
type shelf []*offering.Offering

func (s shelf) List() []*offering.Offering { return s }

func (s shelf) Get(name string) (*offering.Offering, bool) {
	for _, off := range s {
		if off.Metadata.Name == name {
			return off, true
		}
	}
	return nil, false
}

func (s shelf) ByGroup(group, version string) (*offering.Offering, bool) {
	for _, off := range s {
		if off.Spec.API.Group == group && off.Spec.API.Version == version {
			return off, true
		}
	}
	return nil, false
}
