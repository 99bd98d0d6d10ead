package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/account"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// tenantUse marks the accounts that tenants have made. Those of agents and of
// logins to clusters are the control plane's own.
const tenantUse = "tenant"

// secretOnce answers with a secret, which no cache may keep.
type secretOnce struct {
	CacheControl string `header:"Cache-Control"`
	Body         v1.ServiceAccount
}

type accountInput struct {
	ID string `path:"id" maxLength:"256" doc:"Id, name or client id of the account"`
}

func (o *own) routesServiceAccount() {
	tags := []string{"access"}
	huma.Register(o.api, huma.Operation{
		OperationID: "create-service-account", Method: http.MethodPost, Path: "/api/v1/serviceaccounts", Tags: tags,
		Summary: "Make an account for a program of the caller's", DefaultStatus: http.StatusCreated, MaxBodyBytes: -1,
		Description: "The answer has the secret; nothing shows it again.",
	}, func(ctx context.Context, in *body[v1.CreateServiceAccount]) (*secretOnce, error) {
		if o.Accounts == nil {
			return nil, noAccounts()
		}
		made, err := o.Accounts.Create(ctx, in.Body.Name, in.Body.Description)
		return o.showSecret(made, err)
	})
	huma.Register(o.api, huma.Operation{
		OperationID: "reset-service-account", Method: http.MethodPost, Path: "/api/v1/serviceaccounts/{id}/reset", Tags: tags,
		Summary: "Give a service account another secret", DefaultStatus: http.StatusOK,
		Description: "For its owner and the organisation's admins. The old secret ends when the new one works.",
	}, func(ctx context.Context, in *accountInput) (*secretOnce, error) {
		found, err := o.serviceAccount(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		made, err := o.Accounts.Reset(ctx, found.ID)
		return o.showSecret(made, err)
	})
	huma.Register(o.api, huma.Operation{
		OperationID: "delete-service-account", Method: http.MethodDelete, Path: "/api/v1/serviceaccounts/{id}", Tags: tags,
		Summary: "Remove a service account", DefaultStatus: http.StatusOK,
		Description: "For its owner and the organisation's admins. Its secret counts no more; where the identity provider is away, from when it is back.",
	}, func(ctx context.Context, in *accountInput) (*body[v1.Object], error) {
		found, err := o.serviceAccount(ctx, in.ID)
		if err != nil {
			return nil, err
		}
		if err := o.Accounts.Delete(ctx, found.ID); err != nil {
			return nil, err
		}
		now, err := o.Ledger.Get(ctx, found.Ref)
		if err != nil {
			return nil, err
		}
		return &body[v1.Object]{wire(&now, o.Offerings, access.From(ctx))}, nil
	})
}

func noAccounts() error {
	return fault.New(fault.NotFound, "this server has no service accounts")
}

func (o *own) showSecret(a account.Account, err error) (*secretOnce, error) {
	if err != nil {
		return nil, err
	}
	out := v1.ServiceAccount{
		ID: a.ID, Name: a.Name, Description: a.Description, Org: a.Org, Owner: a.Owner,
		ClientID: a.ClientID, ClientSecret: a.Secret, Created: a.Created,
	}
	if o.SSO != nil {
		out.TokenURL = o.SSO().TokenURL
	}
	return &secretOnce{"no-store", out}, nil
}

// serviceAccount finds one that the caller sees, by client id too.
func (o *own) serviceAccount(ctx context.Context, id string) (ledger.Object, error) {
	if o.Accounts == nil {
		return ledger.Object{}, noAccounts()
	}
	r, err := o.resource(account.Kind.Name)
	if err != nil {
		return ledger.Object{}, err
	}
	found, err := o.find(ctx, r, id)
	if err == nil && found.Deleted.IsZero() || err != nil && !fault.Is(err, fault.NotFound) {
		return found, err
	}
	if !plainName(id) {
		return found, absent(r, id)
	}
	known, err := o.Accounts.Get(ctx, id)
	switch {
	case fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid):
		return found, absent(r, id)
	case err != nil:
		return found, err
	}
	return o.Ledger.Get(ctx, ledger.Ref{Kind: account.Kind.Name, ID: known.ID})
}
