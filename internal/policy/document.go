package policy

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/droverhq/drover/internal/document"
	"github.com/droverhq/drover/internal/expr"
)

const (
	apiVersion   = "drover.dev/v1"
	maxFile      = 4 << 20
	maxDocument  = 200 << 10 // an object of the ledger has room for it, and for its status
	maxDocuments = 1000
	maxMistakes  = 50
)

// Document is one policy, checked.
type Document struct {
	Kind   string // of the ledger: "quota"
	Name   string
	Labels map[string]string
	Spec   json.RawMessage
	value  any // *Quota, *DenyList, *AccessList or *Terms
}

// written names the kinds as files write them.
var written = map[string]string{"Quota": KindQuota.Name, "DenyList": KindDenyList.Name, "AccessList": KindAccessList.Name, "Terms": KindTerms.Name}

// blank returns an empty spec of a kind.
func blank(kind string) any {
	switch kind {
	case KindQuota.Name:
		return &Quota{}
	case KindDenyList.Name:
		return &DenyList{}
	case KindAccessList.Name:
		return &AccessList{}
	case KindTerms.Name:
		return &Terms{}
	}
	return nil
}

// Parse reads the policies of a file, YAML or JSON, several with --- between
// them. The fault is Invalid and tells all mistakes with their lines.
func Parse(source string, data []byte) ([]Document, error) {
	r := reading{document.Open(source, data, form)}
	documents := r.documents()
	if err := r.Err(); err != nil {
		return nil, err
	}
	return documents, nil
}

// form has no paths: the place is enough for the few fields that policies have.
var form = document.Form{Bytes: maxFile, Mistakes: maxMistakes, NoPaths: true, Words: func(m document.Misfit) string {
	switch {
	case m.Unknown:
		return "unknown field \"" + m.Key + "\""
	case m.Want == "":
		return "the entry is empty"
	case m.Want == "a map":
		return "want an object"
	case m.Want == "text":
		return "want text; a number needs quotes around it"
	}
	return "want " + m.Want
}}

// reading is a file of policies while it is checked.
type reading struct{ *document.File }

// report reports a mistake at a path of a node, or of as much as there is of it.
func (r reading) report(message string, n *document.Node, path ...any) {
	r.Report(n.Find(path).At, nil, message)
}

func (r reading) documents() []Document {
	var out []Document
	seen := map[string]bool{}
	for _, body := range r.Documents {
		if body.Value == nil {
			continue
		}
		if len(out) == maxDocuments {
			r.report(fmt.Sprintf("a file holds at most %d documents", maxDocuments), body)
			break
		}
		doc, ok := r.document(body)
		if !ok {
			continue
		}
		key := doc.Kind + "/" + doc.Name
		if seen[key] {
			r.report(doc.Kind+" "+doc.Name+" is in the file twice", body, "metadata", "name")
		}
		seen[key] = true
		out = append(out, doc)
	}
	if len(out) == 0 && r.Sound() {
		r.report("the file is empty", r.Root())
	}
	return out
}

type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec *document.Node `json:"spec"`
}

var plain = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// document reads one, with as many mistakes as it has.
func (r reading) document(body *document.Node) (Document, bool) {
	before := r.Found()
	var h header
	r.Decode(body, &h, nil)
	if h.APIVersion != apiVersion {
		r.report("apiVersion: want "+apiVersion, body, "apiVersion")
	}
	kind, known := written[h.Kind]
	if !known {
		r.report(fmt.Sprintf("kind: %.64q is none of AccessList, DenyList, Quota, Terms", h.Kind), body, "kind")
		return Document{}, false
	}
	if !plain.MatchString(h.Metadata.Name) {
		r.report("metadata.name: 1 to 63 lower-case letters, digits, - and .", body, "metadata", "name")
	}
	value := blank(kind)
	if h.Spec == nil {
		r.report("spec: is missing", body)
	} else {
		r.Decode(h.Spec, value, nil)
	}
	if r.Found() > before {
		return Document{}, false
	}
	check(value, func(message string, path ...any) {
		r.report("spec."+expr.Where(path)+": "+message, h.Spec, path...)
	})
	spec, err := document.Encode(value)
	if err != nil {
		r.report("the spec cannot be stored", body)
	}
	if len(spec) > maxDocument {
		r.report(fmt.Sprintf("the document has more than %d KiB: make several of it", maxDocument>>10), body)
	}
	return Document{Kind: kind, Name: h.Metadata.Name, Labels: h.Metadata.Labels, Spec: spec, value: value}, r.Found() == before
}
