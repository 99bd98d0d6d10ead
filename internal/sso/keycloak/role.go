package keycloak

import (
	"context"
	"slices"

	"github.com/Nerzal/gocloak/v13"

	"github.com/droverhq/drover/internal/fault"
)

// grant gives the service account exactly these roles of the realm. Roles that
// the realm does not have are made.
func (p *Provider) grant(ctx context.Context, user string, roles []string) error {
	have, err := p.rolesOf(ctx, user)
	if err != nil {
		return err
	}
	var remove, add []gocloak.Role
	for _, r := range have {
		if !slices.Contains(roles, text(r.Name)) {
			remove = append(remove, *r)
		}
	}
	for _, name := range roles {
		if slices.ContainsFunc(have, func(r *gocloak.Role) bool { return text(r.Name) == name }) {
			continue
		}
		role, err := p.role(ctx, name)
		if err != nil {
			return err
		}
		add = append(add, role)
	}
	if len(add) > 0 {
		err := p.call(ctx, "give the client its roles", func(ctx context.Context, token string) error {
			return p.api.AddRealmRoleToUser(ctx, token, p.cfg.Realm, user, add)
		})
		if fault.Is(err, fault.Invalid) { // so the server calls it when another process gives the same role at once
			err = fault.New(fault.Conflict, "%w", err).Because(moved)
		}
		if err != nil {
			return err
		}
	}
	if len(remove) == 0 {
		return nil
	}
	return p.call(ctx, "take roles from the client", func(ctx context.Context, token string) error {
		return p.api.DeleteRealmRoleFromUser(ctx, token, p.cfg.Realm, user, remove)
	})
}

func (p *Provider) rolesOf(ctx context.Context, user string) ([]*gocloak.Role, error) {
	var roles []*gocloak.Role
	err := p.call(ctx, "read the roles of the client", func(ctx context.Context, token string) (err error) {
		roles, err = p.api.GetRealmRolesByUserID(ctx, token, p.cfg.Realm, user)
		return err
	})
	return roles, err
}

// role returns a role of the realm, and makes it where it is missing.
func (p *Provider) role(ctx context.Context, name string) (gocloak.Role, error) {
	var role *gocloak.Role
	read := func(ctx context.Context, token string) (err error) {
		role, err = p.api.GetRealmRole(ctx, token, p.cfg.Realm, name)
		return err
	}
	err := p.call(ctx, "find the role", read)
	if fault.Reason(err) == moved {
		description := "made by Drover"
		err = p.call(ctx, "make the role", func(ctx context.Context, token string) error {
			_, err := p.api.CreateRealmRole(ctx, token, p.cfg.Realm, gocloak.Role{Name: &name, Description: &description})
			return err
		})
		if err == nil || fault.Reason(err) == moved { // somebody else was first
			err = p.call(ctx, "find the role", read)
		}
	}
	if err != nil {
		return gocloak.Role{}, err
	}
	return *role, nil
}
