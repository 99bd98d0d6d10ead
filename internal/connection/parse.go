package connection

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/droverhq/drover/internal/document"
)

const apiVersion = "drover.dev/v1"

// most documents of a file.
const most = 1000

var form = document.Form{Bytes: maxFile, Mistakes: 50}

// written is a connection in a file.
type written struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Executor string                    `json:"executor"`
		Options  map[string]*document.Node `json:"options"`
		For      For                       `json:"for"`
	} `json:"spec"`
}

var plain = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// hidden are options that hold a secret. Files are kept in repositories, and
// copied: a secret has no place in them.
var hidden = []string{"token", "secret", "secretId", "password", "key", "jwt", "kubeconfig"}

// Parse reads the connections of a file, YAML or JSON, several with --- between
// them. The fault is Invalid and tells all mistakes with their lines, and no
// value of an option.
func Parse(source string, data []byte) ([]Connection, error) {
	f := document.Open(source, data, form)
	var out []Connection
	seen := map[[2]string]bool{}
	for _, body := range f.Documents {
		if body.Value == nil {
			continue
		}
		if len(out) == most {
			f.Report(body.At, nil, "a file holds at most 1000 connections")
			break
		}
		var w written
		before := f.Found()
		f.Decode(body, &w, nil)
		if f.Found() > before {
			continue
		}
		report := func(message string, path ...any) { f.Report(body.Find(path).At, path, message) }
		if w.APIVersion != apiVersion {
			report("apiVersion is "+apiVersion, "apiVersion")
		}
		if w.Kind != "Connection" {
			report("kind is Connection", "kind")
		}
		if !plain.MatchString(w.Metadata.Name) {
			report("a connection has a name of small letters, digits, - and .", "metadata", "name")
		}
		if !plain.MatchString(w.Spec.Executor) {
			report("a connection names its executor: consul, vault, file, ...", "spec", "executor")
		}
		options := map[string]string{}
		for _, option := range slices.Sorted(maps.Keys(w.Spec.Options)) {
			var ok bool
			if options[option], ok = text(w.Spec.Options[option]); !ok {
				report("an option is text, true or false", "spec", "options", option)
			}
			bare := strings.TrimSuffix(strings.TrimSuffix(option, "File"), "Env")
			_, given := w.Spec.Options[bare]
			_, filed := w.Spec.Options[bare+"File"]
			switch {
			case slices.Contains(hidden, option):
				report("a secret is not written here; write "+option+"File or "+option+"Env, and where it is", "spec", "options", option)
			case bare != option && (given || filed && strings.HasSuffix(option, "Env")):
				report(bare+" is given twice", "spec", "options", option)
			}
		}
		key := [2]string{w.Spec.Executor, w.Metadata.Name}
		if seen[key] {
			report("there are two connections of this name and executor in the file", "metadata", "name")
		}
		seen[key] = true
		out = append(out, Connection{Name: w.Metadata.Name, Executor: w.Spec.Executor, Options: options, For: w.Spec.For})
	}
	if err := f.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

// text is the value of an option; a key without one is empty.
func text(n *document.Node) (string, bool) {
	if n == nil {
		return "", true
	}
	switch value := n.Value.(type) {
	case string:
		return value, true
	case bool:
		return strconv.FormatBool(value), true
	}
	return "", false
}
