package dns

import (
	"regexp"
	"slices"
	"strings"

	"github.com/droverhq/drover/internal/fault"
)

const (
	// markLabel stands before a host to name the TXT record that says whose it
	// is. It cannot be at the host itself: beside a CNAME nothing else may stand.
	markLabel = "_drover."
	heritage  = "heritage=drover,"
)

var (
	plain = regexp.MustCompile(`^[A-Za-z0-9._/:-]{1,100}$`)
	label = regexp.MustCompile(`^(\*|[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)$`)
)

// markName is the name of the mark of a host.
func markName(host string) string { return markLabel + host }

// markText is what the mark of an owner says.
func markText(installation, owner string) string {
	return heritage + "installation=" + installation + ",owner=" + owner
}

func checkName(what, name string) error {
	if len(name) > 253-len(markLabel) {
		return fault.New(fault.Invalid, "the %s %q is too long for a host with a mark", what, name).Because("dns-name")
	}
	for i, l := range strings.Split(name, ".") {
		if !label.MatchString(l) || l == "*" && i > 0 {
			return fault.New(fault.Invalid, "the %s %q is not a host name", what, name).Because("dns-name")
		}
	}
	return nil
}

// state is what a host and its mark have.
type state struct {
	cnames []RR // at the host
	texts  []RR // at the mark
	others []RR // whatever else is shown at either: it is in the way
}

func sort(host string, had []RR) state {
	var s state
	for _, r := range had {
		switch {
		case r.Name == host && r.Type == "CNAME":
			s.cnames = append(s.cnames, r)
		case r.Name == markName(host) && r.Type == "TXT":
			s.texts = append(s.texts, r)
		case r.Name == host || r.Name == markName(host):
			s.others = append(s.others, r)
		}
	}
	return s
}

// holder returns the mark that counts. Servers without conditional updates may
// end up with the marks of two that came at once: the lesser one has it, and
// both see the same.
func (s state) holder() string {
	least := ""
	for _, t := range s.texts {
		if strings.HasPrefix(t.Data, heritage) && (least == "" || t.Data < least) {
			least = t.Data
		}
	}
	return least
}

// planEnsure says what a host is to have, or why it may not be touched.
func planEnsure(host, target, mark string, had []RR) ([]RR, error) {
	s := sort(host, had)
	holder := s.holder()
	switch {
	case len(s.others) > 0:
		return nil, notOurs("%s has a %s record that was not made here", s.others[0].Name, s.others[0].Type)
	case holder != "" && holder != mark:
		return nil, notOurs("%s belongs to %q", host, strings.TrimPrefix(holder, heritage))
	case holder == "" && len(s.texts) > 0:
		return nil, notOurs("%s has a text that was not made here", markName(host))
	case holder == "" && len(s.cnames) > 0:
		return nil, notOurs("%s has a CNAME record that was not made here; remove it, or add the TXT record %s with the text %q", host, markName(host), mark)
	}
	want := slices.Clone(s.texts)
	if holder == "" {
		want = append(want, RR{Name: markName(host), Type: "TXT", Data: mark, TTL: TTL})
	}
	if len(s.cnames) == 1 && s.cnames[0].Data == target {
		return append(want, s.cnames[0]), nil
	}
	return append(want, RR{Name: host, Type: "CNAME", Data: target, TTL: TTL}), nil
}

// planRemove says what is left of a host once the owner of the mark has left it.
func planRemove(host, mark string, had []RR) []RR {
	s := sort(host, had)
	ours := s.holder() == mark
	var want []RR
	for _, r := range had {
		if ours && slices.Contains(s.cnames, r) || slices.Contains(s.texts, r) && r.Data == mark {
			continue
		}
		want = append(want, r)
	}
	return want
}

func notOurs(format string, args ...any) error {
	return fault.New(fault.Conflict, format, args...).Because("not-ours")
}
