package command

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/droverhq/drover/internal/bus"
	"github.com/droverhq/drover/internal/fault"
)

// envelope is a command as it comes: CloudEvents 1.0 in JSON.
type envelope struct {
	SpecVersion string          `json:"specversion"`
	ID          string          `json:"id"`
	Source      string          `json:"source"`
	Type        string          `json:"type"`
	Subject     string          `json:"subject"`
	Time        *time.Time      `json:"time"`
	ContentType string          `json:"datacontenttype"`
	Schema      string          `json:"dataschema"`
	Trace       string          `json:"traceparent"`
	Data        json.RawMessage `json:"data"`
	Base64      json.RawMessage `json:"data_base64"`

	name  string // of the command
	route Route
}

// maxText bounds what becomes a field of a record, and of a message: an id is the
// correlation of its answers.
const maxText = 255

// Parse reads a message that wants to be a command. What is wrong with it no further
// delivery would mend.
func Parse(m *bus.Message) (envelope, error) {
	var e envelope
	wrong := func(format string, args ...any) (envelope, error) {
		return e, fault.New(fault.Invalid, format, args...).Because("malformed")
	}
	if len(m.Body) > bus.MaxBody {
		return e, tooLarge(len(m.Body))
	}
	if !utf8.Valid(m.Body) {
		return wrong("the message is not UTF-8")
	}
	if err := json.Unmarshal(m.Body, &e); err != nil {
		return wrong("the message is no CloudEvent in JSON")
	}
	name, ours := strings.CutPrefix(e.Type, TypePrefix)
	route, known := Routes[name]
	switch {
	case e.SpecVersion != "1.0":
		return wrong("specversion is %.16q: CloudEvents 1.0 is what is taken", e.SpecVersion)
	case e.ID == "" || e.Source == "":
		return wrong("a command has an id and a source: by them it is known when it comes twice")
	case len(e.ID) > maxText || len(e.Source) > maxText || len(e.Subject) > 2*maxText || !plain(e.ID) || !plain(e.Source) || !plain(e.Subject):
		return wrong("id, source and subject are short, plain text")
	case e.Time != nil && (e.Time.UTC().Year() < 1 || e.Time.UTC().Year() > 9999):
		return wrong("time is in no year that can be written down: the years 1 to 9999 can, in UTC")
	case !ours || !known:
		return wrong("there is no command %.128q: there are %s", e.Type, strings.Join(Names(), ", "))
	case e.ContentType != "" && !strings.HasPrefix(e.ContentType, "application/json"):
		return wrong("datacontenttype is %.64q: data is JSON", e.ContentType)
	case e.Schema != "" && e.Schema != Schemas && e.Schema != route.Schema():
		return wrong("dataschema is %.128q: this version takes data as %s says, or leave it out", e.Schema, cmp.Or(route.Schema(), Schemas))
	case own(m.ReplyTo):
		return wrong("reply_to is a queue of Drover's own: name one of yours")
	case len(e.Base64) > 0:
		return wrong("data is JSON, not base64")
	}
	if _, ok := route.path(e.Subject); !ok {
		return wrong("subject: %s", route.Summary)
	}
	e.name, e.route = name, route
	e.Trace = parentOf(m, e)
	return e, nil
}

// body is that of the request: what is not said of data that a command has is nothing.
func (e envelope) body() []byte {
	switch data := bytes.TrimSpace(e.Data); {
	case e.route.Body == "":
		return nil
	case len(data) == 0 || string(data) == "null":
		return []byte("{}")
	default:
		return data
	}
}

// digest is that of what the command asks for, however its JSON is written. Nobody can
// guess by it what the data is who has not the key.
func (e envelope) digest(key []byte) string {
	body := e.body()
	read := json.NewDecoder(bytes.NewReader(body))
	read.UseNumber()
	var data any
	if read.Decode(&data) == nil {
		if plain, err := json.Marshal(data); err == nil { // with its keys in order
			body = plain
		}
	}
	h := hmac.New(sha256.New, key)
	for _, part := range []string{e.name, e.Subject, string(body)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// own tells whether an address is one of Drover's own queues: nobody makes us send
// there, where answers would be commands.
func own(queue string) bool { return strings.HasPrefix(queue, "drover.") }

func tooLarge(size int) error {
	return fault.New(fault.Invalid, "the message has %d bytes, and a command has at most %d", size, bus.MaxBody).Because("malformed")
}

// plain tells whether a text has nothing in it that a log or a terminal would act on.
func plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f || r == utf8.RuneError }) < 0
}
