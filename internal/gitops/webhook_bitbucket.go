package gitops

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"
)

// bitbucketPush is a message of Bitbucket Cloud (push.changes) or of Bitbucket
// Server (changes).
type bitbucketPush struct {
	Push struct {
		Changes []struct {
			New, Old *struct {
				Type   string `json:"type"` // branch, tag
				Name   string `json:"name"`
				Target struct {
					Hash string `json:"hash"`
				} `json:"target"`
			}
		} `json:"changes"`
	} `json:"push"`
	Changes []struct {
		Ref struct {
			ID string `json:"id"`
		} `json:"ref"`
		RefID string `json:"refId"`
		From  string `json:"fromHash"`
		To    string `json:"toHash"`
	} `json:"changes"`
	Actor struct {
		Nickname string `json:"nickname"` // Cloud
		Name     string `json:"name"`     // Server
		Display  string `json:"display_name"`
	} `json:"actor"`
	Repository struct {
		FullName string `json:"full_name"` // Cloud
		Slug     string `json:"slug"`      // Server
		Main     struct {
			Name string `json:"name"`
		} `json:"mainbranch"`
		Project struct {
			Key string `json:"key"`
		} `json:"project"`
		Links struct {
			HTML struct {
				Href string `json:"href"`
			} `json:"html"`
			Clone []struct {
				Href string `json:"href"`
			} `json:"clone"`
			Self json.RawMessage `json:"self"` // an object in the Cloud, a list of a Server
		} `json:"links"`
	} `json:"repository"`
}

func readBitbucket(payload []byte) ([]Push, bool) {
	var m bitbucketPush
	if json.Unmarshal(payload, &m) != nil {
		return nil, false
	}
	var out []Push
	for _, c := range m.Push.Changes {
		var p Push
		if c.Old != nil {
			p.Ref, p.Before = bitbucketRef(c.Old.Type, c.Old.Name), c.Old.Target.Hash
		}
		if c.New != nil {
			p.Ref, p.After = bitbucketRef(c.New.Type, c.New.Name), c.New.Target.Hash
		}
		out = append(out, p)
	}
	for _, c := range m.Changes {
		ref := c.Ref.ID
		if ref == "" {
			ref = c.RefID
		}
		out = append(out, Push{Ref: ref, Before: c.From, After: c.To})
	}
	for i := range out {
		out[i].Pusher = cmp.Or(m.Actor.Nickname, m.Actor.Name, m.Actor.Display)
	}
	return pushesOf(m.addresses(), m.Repository.Main.Name, out)
}

func bitbucketRef(kind, name string) string {
	if kind == "tag" {
		return "refs/tags/" + name
	}
	return "refs/heads/" + name
}

// addresses are those that it names, and those that follow from them: neither
// Bitbucket tells all.
func (m *bitbucketPush) addresses() []string {
	r := m.Repository
	out := []string{r.Links.HTML.Href}
	for _, c := range r.Links.Clone {
		out = append(out, c.Href)
	}
	if u, err := url.Parse(r.Links.HTML.Href); err == nil && u.Host != "" && r.FullName != "" {
		out = append(out, "ssh://git@"+u.Host+"/"+r.FullName)
	}
	var self []struct {
		Href string `json:"href"`
	}
	_ = json.Unmarshal(r.Links.Self, &self) // there may be none
	for _, s := range self {
		u, err := url.Parse(s.Href)
		if err != nil || u.Host == "" || r.Slug == "" || r.Project.Key == "" {
			continue
		}
		before, _, ok := strings.Cut(u.Path, "/projects/")
		if !ok {
			before, _, _ = strings.Cut(u.Path, "/users/")
		}
		at := "/" + strings.ToLower(r.Project.Key) + "/" + r.Slug + ".git"
		out = append(out, u.Scheme+"://"+u.Host+before+"/scm"+at, "ssh://git@"+u.Hostname()+":7999"+at)
	}
	return out
}
