package executor_test

import (
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/droverhq/drover/internal/executor"
	"github.com/droverhq/drover/internal/executor/action"
	"github.com/droverhq/drover/internal/executor/certificate"
	"github.com/droverhq/drover/internal/executor/consul"
	"github.com/droverhq/drover/internal/executor/executortest"
	"github.com/droverhq/drover/internal/executor/file"
	"github.com/droverhq/drover/internal/executor/kubernetes"
	"github.com/droverhq/drover/internal/executor/process"
	"github.com/droverhq/drover/internal/executor/secret"
	"github.com/droverhq/drover/internal/executor/terraform"
	"github.com/droverhq/drover/internal/executor/vault"
	"github.com/droverhq/drover/internal/instance"
)

var update = flag.Bool("update", false, "write the tables of docs/executors.md anew")

const page = "../../docs/executors.md"

// described are the executors of the page.
var described = map[string]executor.Executor{
	"action":      action.New(nil),
	"consul":      consul.New(consul.Config{}),
	"file":        file.New(),
	"instance":    instance.NewExecutor(instance.ExecutorConfig{}),
	"kubernetes":  kubernetes.New(kubernetes.Config{}),
	"process":     process.New(),
	"secret":      secret.New(),
	"certificate": certificate.New(),
	"terraform":   &terraform.Executor{},
	"vault":       vault.New(vault.Config{}),
}

var block = regexp.MustCompile(`(?s)(<!-- executor (\w+) -->\n).*?(<!-- end -->)`)

// The tables are drawn from what executors say of themselves, so that the page
// cannot tell anything else.
func TestPageIsDrawnFromTheExecutors(t *testing.T) {
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	want := block.ReplaceAllStringFunc(string(data), func(old string) string {
		m := block.FindStringSubmatch(old)
		found = append(found, m[2])
		if described[m[2]] == nil {
			t.Errorf("the page has executor %s, which nobody knows", m[2])
			return old
		}
		return m[1] + executortest.Tables(described[m[2]].Describe()) + m[3]
	})
	for name := range described {
		if !slices.Contains(found, name) {
			t.Errorf("executor %s is not on the page", name)
		}
	}
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, string(data)); d != "" {
		t.Errorf("docs/executors.md is not what executors say; run `go test ./internal/executor -run Page -update`:\n%s", d)
	}
}
