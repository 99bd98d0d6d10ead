package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/droverhq/drover/api/client"
	v1 "github.com/droverhq/drover/api/v1"
)

func TestVerbsOnPeopleAndBills(t *testing.T) {
	var asked string
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.EscapedPath() + " " + string(body)
		fmt.Fprint(w, `{"id": "x", "name": "y", "client_secret": "z"}`)
	})
	ctx := t.Context()
	for _, tc := range []struct {
		reason, want string
		call         func() (string, error)
	}{
		{"a promotion names the bill", `POST /api/v1/kafkas/a%2Fb/promote {"billing_model":"marketplace","marketplace":"aws","billing_cloud_account_id":"7"}`, func() (string, error) {
			o, err := c.Promote(ctx, "kafkas", "a/b", v1.Promote{BillingModel: "marketplace", Marketplace: "aws", BillingAccount: "7"})
			return o.ID, err
		}},
		{"an account comes with its secret", `POST /api/v1/serviceaccounts {"name":"ci"}`, func() (string, error) {
			a, err := c.CreateServiceAccount(ctx, v1.CreateServiceAccount{Name: "ci"})
			return a.ClientSecret, err
		}},
		{"so does a reset one", `POST /api/v1/serviceaccounts/ci/reset `, func() (string, error) {
			a, err := c.ResetServiceAccount(ctx, "ci")
			return a.ClientSecret, err
		}},
		{"a password goes in the body, never in the path", `PUT /api/v1/users/zoe/password {"password":"horse"}`, func() (string, error) {
			o, err := c.SetPassword(ctx, "zoe", "horse")
			return o.ID, err
		}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got, err := tc.call()
			if err != nil || got == "" || asked != tc.want {
				t.Errorf("got %q, %v for\n%s\nwant\n%s", got, err, asked, tc.want)
			}
		})
	}
}

// A token that is renewed on the way is asked for before every request.
func TestBearer(t *testing.T) {
	serial, away := 0, errors.New("the login has ended")
	var fail error
	var seen []string
	c := dial(t, func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization"))
		fmt.Fprint(w, `{}`)
	}, func(cfg *client.Config) {
		cfg.Bearer = func(context.Context) (string, error) {
			serial++
			return fmt.Sprint("t", serial), fail
		}
	})
	for range 2 {
		if _, err := c.WhoAmI(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	fail = away
	if _, err := c.WhoAmI(t.Context()); !errors.Is(err, away) {
		t.Errorf("without a token: %v", err)
	}
	if fmt.Sprint(seen) != "[Bearer t1 Bearer t2]" {
		t.Errorf("the server saw %v", seen)
	}
}
