package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/droverhq/drover/api/v1"
	"github.com/droverhq/drover/internal/access"
	"github.com/droverhq/drover/internal/fault"
	"github.com/droverhq/drover/internal/ledger"
)

// Users changes who can log in at the server's own identity provider. Every
// verb is for operators, whom it finds in the context.
type Users interface {
	Create(ctx context.Context, user access.User, password string) (access.User, error)
	SetPassword(ctx context.Context, name, password string) error
	Delete(ctx context.Context, name string) error
}

type userInput struct {
	ID string `path:"id" maxLength:"256" doc:"Id or name of the user"`
}

type passwordInput struct {
	ID   string `path:"id" maxLength:"256" doc:"Id or name of the user"`
	Body v1.SetPassword
}

func (o *own) routesUser() {
	tags := []string{"access"}
	huma.Register(o.api, huma.Operation{
		OperationID: "create-user", Method: http.MethodPost, Path: "/api/v1/users", Tags: tags,
		Summary: "Add a person who logs in here; operators only", DefaultStatus: http.StatusCreated, MaxBodyBytes: -1,
		Description: "Only where the server is its own identity provider. The password is kept as a sealed hash, and shown by nothing.",
	}, o.createUser)
	huma.Register(o.api, huma.Operation{
		OperationID: "set-password", Method: http.MethodPut, Path: "/api/v1/users/{id}/password", Tags: tags,
		Summary: "Give a user another password, which ends their logins; operators only", MaxBodyBytes: -1,
	}, o.setPassword)
	huma.Register(o.api, huma.Operation{
		OperationID: "delete-user", Method: http.MethodDelete, Path: "/api/v1/users/{id}", Tags: tags,
		Summary: "Remove a user, which ends their logins; operators only", DefaultStatus: http.StatusOK,
		Description: "What they own stays.",
	}, o.deleteUser)
}

func (o *own) createUser(ctx context.Context, in *body[v1.CreateUser]) (*body[v1.Object], error) {
	if err := o.mayChangeUsers(ctx); err != nil {
		return nil, err
	}
	b := in.Body
	made, err := o.Users.Create(ctx, access.User{Name: b.Name, Org: b.Org, Account: b.Account, OrgAdmin: b.OrgAdmin, Roles: b.Roles}, b.Password)
	if err != nil {
		return nil, err
	}
	return o.person(ctx, made.ID)
}

func (o *own) setPassword(ctx context.Context, in *passwordInput) (*body[v1.Object], error) {
	found, err := o.user(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := o.Users.SetPassword(ctx, found.Name, in.Body.Password); err != nil {
		return nil, err
	}
	return o.person(ctx, found.ID)
}

func (o *own) deleteUser(ctx context.Context, in *userInput) (*body[v1.Object], error) {
	found, err := o.user(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := o.Users.Delete(ctx, found.Name); err != nil {
		return nil, err
	}
	return o.person(ctx, found.ID)
}

func (o *own) mayChangeUsers(ctx context.Context) error {
	switch {
	case !access.From(ctx).Admin:
		return fault.New(fault.Denied, "only an operator may see and change users")
	case o.Users == nil:
		return fault.New(fault.NotFound, "people do not log in here: their identity provider has them")
	}
	return nil
}

// user finds one that can be changed.
func (o *own) user(ctx context.Context, idOrName string) (ledger.Object, error) {
	if err := o.mayChangeUsers(ctx); err != nil {
		return ledger.Object{}, err
	}
	r, err := o.resource(access.KindUser.Name)
	if err != nil {
		return ledger.Object{}, err
	}
	found, err := o.find(ctx, r, idOrName)
	if err == nil && !found.Deleted.IsZero() {
		err = absent(r, idOrName)
	}
	return found, err
}

// person shows a user as they are now.
func (o *own) person(ctx context.Context, id string) (*body[v1.Object], error) {
	now, err := o.Ledger.Get(ctx, ledger.Ref{Kind: access.KindUser.Name, ID: id})
	if err != nil {
		return nil, err
	}
	return &body[v1.Object]{wire(&now, o.Offerings, access.From(ctx))}, nil
}
