package terraform_test

import (
	"context"

	"github.com/droverhq/drover/internal/executor/terraform"
)

// empty is where nothing is kept.
type empty struct{}

func (empty) Read(context.Context, string) (terraform.Head, []byte, error) {
	return terraform.Head{}, nil, nil
}

func (empty) Access(context.Context, terraform.Run) (terraform.Access, error) {
	return terraform.Access{}, nil
}
func (empty) Rescue(context.Context, string, []byte) error { return nil }
func (empty) Break(context.Context, string, string) error  { return nil }
func (empty) Forget(context.Context, string) error         { return nil }
