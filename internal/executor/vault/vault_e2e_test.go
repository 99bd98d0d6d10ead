//go:build e2e

package vault_test

import (
	"testing"

	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/test/openbao"
)

func TestContractOnOpenBao(t *testing.T) {
	s := openbao.Start(t)
	h := hands{s.URL, s.Token}
	t.Run("given", func(t *testing.T) { executortest.Run(t, secrets(executortest.Before(t, s.URL), h, false)) })
	t.Run("generated", func(t *testing.T) { executortest.Run(t, secrets(executortest.Before(t, s.URL), h, true)) })
	t.Run("policies", func(t *testing.T) { executortest.Run(t, policies(executortest.Before(t, s.URL), h)) })
}
