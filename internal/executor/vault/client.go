package vault

import (
	"encoding/json"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/vault"
)

// dial reads a connection. It calls nobody.
func dial(c executor.Connection, with Config) (*vault.Client, error) {
	if err := c.Check("address", "namespace", "auth", "authMount", "token", "role", "roleId", "secretId", "jwt", "ca", "cert", "key", "serverName", "plaintext"); err != nil {
		return nil, err
	}
	return vault.New(vault.Config{
		Way: c.Way(), Namespace: c["namespace"], Auth: c["auth"], Mount: c["authMount"],
		Show: func(what string) (string, error) { return c[what], nil },
		Who:  "the connection", Where: "the connection", Resilience: with.Resilience, Now: with.Now,
	})
}

// number reads a whole number as JSON, or a ledger, gives it.
func number(v any) int {
	switch x := v.(type) {
	case int:
		return x
	case int64:
		return int(x)
	case float64:
		return int(x)
	case json.Number:
		n, _ := x.Int64()
		return int(n)
	}
	return 0
}
