package keycloak

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/Nerzal/gocloak/v13"

	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/sso"
)

// tries bounds how often work is begun anew because somebody else moved things.
const tries = 5

// Apply makes the client as it is described, whether it was there or not. What
// was deleted or changed by hand comes back. A client of the same id that does
// not carry our mark is a Conflict, and stays as it is.
func (p *Provider) Apply(ctx context.Context, c sso.Client) error {
	if err := check(c); err != nil {
		return err
	}
	return p.persist(ctx, c.ID, func() error { return p.apply(ctx, c) })
}

// Get tells what is there.
func (p *Provider) Get(ctx context.Context, id string) (sso.Client, error) {
	var c sso.Client
	err := p.persist(ctx, id, func() error {
		rep, err := p.find(ctx, id)
		if err != nil {
			return err
		}
		if rep == nil {
			return fault.New(fault.NotFound, "the identity provider has no client %q", id)
		}
		user, err := p.robot(ctx, *rep.ID)
		if err != nil {
			return err
		}
		roles, err := p.rolesOf(ctx, user)
		if err != nil {
			return err
		}
		c = sso.Client{
			ID: id, Secret: text(rep.Secret), Name: text(rep.Name), Description: text(rep.Description),
			Claims: claims(rep), Redirects: list(rep.RedirectURIs),
		}
		for _, r := range roles {
			c.Roles = append(c.Roles, text(r.Name))
		}
		return nil
	})
	return c, err
}

// Delete removes a client of ours; one that is not there is fine.
func (p *Provider) Delete(ctx context.Context, id string) error {
	return p.persist(ctx, id, func() error {
		rep, err := p.find(ctx, id)
		if err != nil || rep == nil {
			return err
		}
		return p.call(ctx, "delete the client", func(ctx context.Context, token string) error {
			return p.api.DeleteClient(ctx, token, p.cfg.Realm, *rep.ID)
		})
	})
}

// persist does the work on one client, and anew while others get in between.
func (p *Provider) persist(ctx context.Context, id string, work func() error) error {
	leave, err := p.alone(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	for range tries {
		if err = work(); fault.Reason(err) != moved {
			return err
		}
	}
	// The client cannot have been changed by others each time: the realm or a
	// right on it is missing.
	return fault.New(fault.Unavailable, "the identity provider keeps changing, or has no realm %q: %w", p.cfg.Realm, err)
}

func check(c sso.Client) error {
	if c.ID == "" || c.Secret == "" {
		return fault.New(fault.Invalid, "a client needs an id and a secret")
	}
	for _, r := range c.Redirects {
		u, err := url.Parse(r)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "" || strings.Contains(r, "*") {
			return fault.New(fault.Invalid, "a redirect of client %q is not a whole URL", c.ID)
		}
	}
	return nil
}

func (p *Provider) apply(ctx context.Context, c sso.Client) error {
	rep, err := p.find(ctx, c.ID)
	if err != nil {
		return err
	}
	want := p.represent(c)
	var id string
	if rep == nil {
		mappers := p.mappersOf(c)
		want.ProtocolMappers = &mappers
		// People's names come into a token only where an application asks for
		// them: by default they would take the place of the client's own claims.
		want.DefaultClientScopes = &[]string{"basic", "acr", "roles", "web-origins"}
		want.OptionalClientScopes = &[]string{"profile", "email"}
		err = p.call(ctx, "create the client", func(ctx context.Context, token string) (err error) {
			id, err = p.api.CreateClient(ctx, token, p.cfg.Realm, want)
			return err
		})
	} else {
		id = *rep.ID
		err = p.change(ctx, rep, want, p.mappersOf(c))
	}
	if err != nil {
		return err
	}
	user, err := p.robot(ctx, id)
	if err != nil {
		return err
	}
	return p.grant(ctx, user, c.Roles)
}

// change writes what is different, and nothing where nothing is.
func (p *Provider) change(ctx context.Context, rep *gocloak.Client, want gocloak.Client, mappers []gocloak.ProtocolMapperRepresentation) error {
	want.ID = rep.ID
	if differs(rep, want) {
		err := p.call(ctx, "change the client", func(ctx context.Context, token string) error {
			return p.api.UpdateClient(ctx, token, p.cfg.Realm, want)
		})
		if err != nil {
			return err
		}
	}
	var have []gocloak.ProtocolMapperRepresentation
	if rep.ProtocolMappers != nil {
		have = *rep.ProtocolMappers
	}
	remove, add := compare(have, mappers)
	for _, m := range remove {
		err := p.call(ctx, "remove a claim of the client", func(ctx context.Context, token string) error {
			return p.api.DeleteClientProtocolMapper(ctx, token, p.cfg.Realm, *rep.ID, text(m.ID))
		})
		if err != nil {
			return err
		}
	}
	for _, m := range add {
		err := p.call(ctx, "add a claim to the client", func(ctx context.Context, token string) error {
			_, err := p.api.CreateClientProtocolMapper(ctx, token, p.cfg.Realm, *rep.ID, m)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// find returns the client, nil where there is none. One that is not ours is a
// Conflict.
func (p *Provider) find(ctx context.Context, id string) (*gocloak.Client, error) {
	var found []*gocloak.Client
	err := p.call(ctx, "look for the client", func(ctx context.Context, token string) (err error) {
		found, err = p.api.GetClients(ctx, token, p.cfg.Realm, gocloak.GetClientsParams{ClientID: &id})
		return err
	})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found, func(c *gocloak.Client) bool { return text(c.ClientID) == id && c.ID != nil })
	if i < 0 {
		return nil, nil
	}
	if rep := found[i]; rep.Attributes != nil && (*rep.Attributes)[mark] == p.cfg.Owner {
		return rep, nil
	}
	return nil, fault.New(fault.Conflict, "the identity provider has a client %q that is not of this Drover (%s %q); it is left alone", id, mark, p.cfg.Owner).Because(foreign)
}

// robot returns the id of the user that stands for a client's service account.
func (p *Provider) robot(ctx context.Context, id string) (string, error) {
	var user string
	err := p.call(ctx, "find the service account of the client", func(ctx context.Context, token string) error {
		u, err := p.api.GetClientServiceAccount(ctx, token, p.cfg.Realm, id)
		if err == nil {
			user = text(u.ID)
		}
		return err
	})
	return user, err
}
