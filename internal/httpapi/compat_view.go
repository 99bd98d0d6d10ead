package httpapi

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/droverhq/drover/internal/ledger"
	"github.com/droverhq/drover/internal/offering"
)

// view writes instances as an offering's API shows them. Where the instance is,
// and what the offering adds, was rendered when the instance was written and is spliced in as it is: a list
// of a hundred decodes nothing.
type view struct {
	kind string
	list string // the kind of a list of them
	href string // up to the id
}

func newView(off *offering.Offering) view {
	return view{kind: off.Spec.Names.Kind, list: requestKind(off.Spec) + "List", href: offeringBase(off.Spec) + "/" + off.Spec.Names.Plural + "/"}
}

func (v view) append(buf []byte, o *ledger.Object) []byte {
	buf = append(buf, `{"id":`...)
	buf = appendJSON(buf, o.ID)
	buf = append(buf, `,"kind":`...)
	buf = appendJSON(buf, v.kind)
	buf = append(buf, `,"href":`...)
	buf = appendJSON(buf, v.href+o.ID)
	buf = appendField(buf, "status", o.Phase)
	buf = appendField(buf, "owner", o.Owner)
	buf = appendField(buf, "name", o.Name)
	buf = appendTime(buf, "created_at", o.Created)
	buf = appendTime(buf, "updated_at", o.Updated)
	if inner := members(o.View); len(inner) > 0 {
		buf = append(buf, ',')
		buf = append(buf, inner...)
	}
	return append(buf, '}')
}

// members returns what is between the braces of a JSON object.
func members(object []byte) []byte {
	object = bytes.TrimSpace(object)
	if len(object) < 2 || object[0] != '{' {
		return nil
	}
	return bytes.TrimSpace(object[1 : len(object)-1])
}

// appendField leaves an empty value out: absent, never null.
func appendField(buf []byte, name, value string) []byte {
	if value == "" {
		return buf
	}
	buf = append(buf, ',', '"')
	buf = append(buf, name...)
	buf = append(buf, '"', ':')
	return appendJSON(buf, value)
}

func appendTime(buf []byte, name string, at time.Time) []byte {
	if at.IsZero() {
		return buf
	}
	buf = append(buf, ',', '"')
	buf = append(buf, name...)
	buf = append(buf, `":"`...)
	buf = at.UTC().AppendFormat(buf, time.RFC3339Nano)
	return append(buf, '"')
}

// appendJSON writes a string; nearly all of ours need no escaping.
func appendJSON(buf []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			data, err := json.Marshal(s)
			if err != nil {
				panic(err)
			}
			return append(buf, data...)
		}
	}
	buf = append(buf, '"')
	buf = append(buf, s...)
	return append(buf, '"')
}
