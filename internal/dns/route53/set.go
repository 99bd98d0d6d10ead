package route53

import (
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/droverhq/drover/internal/dns"
)

// set is what the service knows as one thing: all records of a name and a type.
type set struct {
	name, kind string
	ttl        uint32
	data       []string
}

func sets(rrs []dns.RR) []set {
	var out []set
	for _, r := range rrs {
		i := slices.IndexFunc(out, func(s set) bool { return s.name == r.Name && s.kind == r.Type })
		if i < 0 {
			out = append(out, set{name: r.Name, kind: r.Type, ttl: r.TTL})
			i = len(out) - 1
		}
		out[i].data = append(out[i].data, r.Data)
	}
	return out
}

func (s set) same(o set) bool {
	return s.name == o.name && s.kind == o.kind && s.ttl == o.ttl && slices.Equal(slices.Sorted(slices.Values(s.data)), slices.Sorted(slices.Values(o.data)))
}

func (s set) wire() *types.ResourceRecordSet {
	out := &types.ResourceRecordSet{Name: aws.String(s.name + "."), Type: types.RRType(s.kind), TTL: aws.Int64(int64(s.ttl))}
	for _, d := range s.data {
		value := d + "."
		if s.kind == "TXT" {
			value = quote(d)
		}
		out.ResourceRecords = append(out.ResourceRecords, types.ResourceRecord{Value: &value})
	}
	return out
}

// records shows a set as records. Sets that are more than records (aliases, and
// those with a routing policy) get a type of their own: they are in the way of
// everything.
func records(name string, s types.ResourceRecordSet) []dns.RR {
	kind := string(s.Type)
	if s.SetIdentifier != nil || s.AliasTarget != nil {
		return []dns.RR{{Name: name, Type: kind + " (alias or policy)"}}
	}
	var out []dns.RR
	for _, r := range s.ResourceRecords {
		data := aws.ToString(r.Value)
		switch kind {
		case "CNAME":
			data = dns.Canonical(unescape(data))
		case "TXT":
			data = unquote(data)
		}
		out = append(out, dns.RR{Name: name, Type: kind, Data: data, TTL: uint32(aws.ToInt64(s.TTL))})
	}
	return out
}

// quote writes a text in pieces of at most 255 bytes.
func quote(text string) string {
	var b strings.Builder
	for i := 0; i < len(text) || i == 0; i += 255 {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteByte('"')
		for _, c := range []byte(text[i:min(i+255, len(text))]) {
			switch {
			case c == '"' || c == '\\':
				b.Write([]byte{'\\', c})
			case c < 32 || c > 126:
				b.WriteString(`\` + octal(c))
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('"')
	}
	return b.String()
}

func octal(c byte) string { return string([]byte{'0' + c>>6, '0' + c>>3&7, '0' + c&7}) }

// unquote joins the pieces of a text.
func unquote(value string) string {
	var b strings.Builder
	inside := false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == '"':
			inside = !inside
		case !inside:
		case c == '\\' && i+1 < len(value):
			if n, ok := escaped(value[i+1:]); ok {
				b.WriteByte(n)
				i += 3
			} else {
				b.WriteByte(value[i+1])
				i++
			}
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescape reads a name: the service writes * as \052.
func unescape(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if name[i] == '\\' {
			if n, ok := escaped(name[i+1:]); ok {
				b.WriteByte(n)
				i += 3
				continue
			}
		}
		b.WriteByte(name[i])
	}
	return b.String()
}

func escaped(digits string) (byte, bool) {
	if len(digits) < 3 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits[:3], 8, 8)
	return byte(n), err == nil
}
