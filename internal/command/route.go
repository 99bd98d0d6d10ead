package command

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// TypePrefix is before the name of a command in the type of its message.
const TypePrefix = "dev.drover.command."

// Route is the request of the API that a command stands for.
type Route struct {
	Method string
	// Path has {} where the message's subject goes, word by word: a subject of a path
	// with two is "shop-staging/restart".
	Path    string
	Summary string
	Body    string // the API's schema of the data; empty: there is none
}

// Routes are all commands, by name.
var Routes = map[string]Route{
	"environment.plan":    {http.MethodPost, "/api/v1/environments/{}/plan", "Plan an environment; the subject is its name", "PlanEnvironment"},
	"environment.create":  {http.MethodPost, "/api/v1/environments", "Plan and apply a new environment", "CreateEnvironment"},
	"environment.apply":   {http.MethodPost, "/api/v1/environments/{}/apply", "Carry a plan out; the subject is the environment's name", "ApplyEnvironment"},
	"environment.destroy": {http.MethodPost, "/api/v1/environments/{}/destroy", "Take an environment away; the subject is its name", "DestroyEnvironment"},
	"environment.extend":  {http.MethodPatch, "/api/v1/environments/{}", "Move the end of an environment, or change what is said of it; the subject is its name", "UpdateEnvironment"},
	"environment.action":  {http.MethodPost, "/api/v1/environments/{}/actions/{}", "Run an action; the subject is <environment>/<action>", "RunAction"},
	"instance.create":     {http.MethodPost, "/api/v1/{}", "Order an instance; the subject is the offering's plural, such as dinosaurs", "CreateInstance"},
	"instance.update":     {http.MethodPatch, "/api/v1/{}/{}", "Change an instance; the subject is <plural>/<id or name>", "UpdateInstance"},
	"instance.delete":     {http.MethodDelete, "/api/v1/{}/{}", "Ask for the end of an instance; the subject is <plural>/<id or name>", ""},
	"deployment.sync":     {http.MethodPost, "/api/v1/deployments/{}/sync", "Sync a deployment; the subject is its id or name", "SyncDeployment"},
}

// Schemas is the document that has the schemas of commands' data.
const Schemas = "/api/v1/asyncapi"

// Schema is what dataschema may be of a message of the command; empty: it has no data.
func (r Route) Schema() string {
	if r.Body == "" {
		return ""
	}
	return Schemas + "#/components/schemas/" + r.Body
}

// Names are those of all commands, in order.
func Names() []string { return slices.Sorted(maps.Keys(Routes)) }

// path fills the subject in; false if it has not the words that the path wants.
func (r Route) path(subject string) (string, bool) {
	var words []string
	if subject != "" {
		words = strings.Split(subject, "/")
	}
	if len(words) != strings.Count(r.Path, "{}") {
		return "", false
	}
	path := r.Path
	for _, w := range words {
		if w == "" || w == "." || w == ".." {
			return "", false
		}
		path = strings.Replace(path, "{}", strings.ReplaceAll(url.PathEscape(w), "{}", "%7B%7D"), 1)
	}
	return path, true
}
