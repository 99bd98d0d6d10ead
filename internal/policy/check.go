package policy

import (
	"net/url"
	"strings"
	"unicode"
)

// check tells what is wrong with a spec that could be read.
func check(spec any, wrong func(message string, path ...any)) {
	switch x := spec.(type) {
	case *Quota:
		x.check(wrong)
	case *DenyList:
		words(x.Users, "a user", wrong, "users")
		words(x.Organisations, "an organisation", wrong, "organisations")
	case *AccessList:
		words(x.Organisations, "an organisation", wrong, "organisations")
	case *Terms:
		if !word(x.Version) {
			wrong("is needed: users accept a version", "version")
		}
		if u, err := url.Parse(x.URL); err != nil || x.URL != "" && (u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
			wrong("is an http or https address", "url")
		}
		if x.URL == "" && x.Text == "" {
			wrong("say what is accepted: a url or a text", "text")
		}
	}
}

func (q *Quota) check(wrong func(message string, path ...any)) {
	switch {
	case (q.Organisation == "") == (q.Account == ""):
		wrong("name either an organisation or an account", "organisation")
	case q.Organisation != "" && !word(q.Organisation):
		wrong("is short, plain text", "organisation")
	case q.Account != "" && !word(q.Account):
		wrong("is short, plain text", "account")
	}
	if q.Account != "" && (q.AnyUser || len(q.Users) > 0) {
		wrong("is for organisations", map[bool]string{true: "anyUser", false: "users"}[q.AnyUser])
	}
	if q.Organisation != "" && q.AnyUser == (len(q.Users) > 0) {
		wrong("an organisation's quota is for anyUser or for the users that are named", "users")
	}
	words(q.Users, "a user", wrong, "users")
	if q.MaxInstances < 0 {
		wrong("is at least 0", "maxInstances")
	}
	seen := map[[2]string]bool{}
	for i, g := range q.Grants {
		if !word(g.Offering) {
			wrong("which offering?", "grants", i, "offering")
		}
		if !word(g.Type) {
			wrong("which instance type?", "grants", i, "type")
		}
		if key := [2]string{g.Offering, g.Type}; seen[key] {
			wrong("this offering and type are granted twice: one grant takes several billing models", "grants", i, "type")
		} else {
			seen[key] = true
		}
		if (g.Units == 0) == (len(g.Billing) == 0) {
			wrong("say how many (-1: no limit), or say it for each billing model", "grants", i, "units")
		}
		models := map[string]bool{}
		for j, b := range g.Billing {
			if !word(b.Model) || models[b.Model] {
				wrong("which billing model? Each is there once", "grants", i, "billing", j, "model")
			}
			models[b.Model] = true
			if b.Units == 0 {
				wrong("say how many (-1: no limit)", "grants", i, "billing", j, "units")
			}
		}
	}
}

func words(list []string, what string, wrong func(message string, path ...any), field string) {
	for i, w := range list {
		if !word(w) {
			wrong(what+" is short, plain text", field, i)
		}
	}
}

// word is a name of somebody or something, as tokens hold it.
func word(s string) bool {
	return s != "" && len(s) <= 255 && strings.TrimSpace(s) == s && strings.IndexFunc(s, unicode.IsControl) < 0
}
