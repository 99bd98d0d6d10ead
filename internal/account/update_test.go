package account_test

import (
	"testing"

	"github.com/droverhq/drover/internal/fault"
)

func TestUpdate(t *testing.T) {
	w := newWorld(t)
	p := w.start(-1)
	mary, eve := as(t.Context(), "mary", "acme"), as(t.Context(), "eve", "evil")
	made, err := p.Create(mary, "my-robot", "for tests")
	if err != nil {
		t.Fatal(err)
	}
	name, description, bad := "your-robot", "", "Bad_Name"
	got, err := p.Update(mary, made.ID, &name, nil)
	if err != nil || got.Name != name || got.Description != "for tests" || got.Secret != "" {
		t.Errorf("a new name: %+v, %v", got, err)
	}
	if got, err = p.Update(mary, made.ClientID, nil, &description); err != nil || got.Name != name || got.Description != "" {
		t.Errorf("no description: %+v, %v", got, err)
	}
	w.work(t, p)
	if c := w.idp.all()[made.ClientID]; c.Name != name || c.Description != "" || c.Secret != made.Secret {
		t.Errorf("the identity provider has %+v", c)
	}
	if again, err := p.Get(mary, made.ID); err != nil || again != got {
		t.Errorf("there is %+v, %v", again, err)
	}
	if _, err := p.Update(mary, made.ID, &bad, nil); fault.Reason(err) != "account-name" {
		t.Errorf("a bad name: %v", err)
	}
	if _, err := p.Update(eve, made.ID, &name, nil); fault.Reason(err) != "account" {
		t.Errorf("another organisation's: %v", err)
	}
	if _, err := p.Update(as(t.Context(), "john", "acme"), made.ID, &name, nil); !fault.Is(err, fault.Denied) {
		t.Errorf("a colleague's: %v", err)
	}
}
