# `make help` lists the targets.
SHELL = /bin/sh
export CGO_ENABLED = 0

GO      = go
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS = -s -w -X main.version=$(VERSION)
# What needs the built binary, or a server that is built or fetched, runs in `make e2e`, and only there. The longest come first.
ALL     = ./test/e2e ./test/dataplane ./test/schemathesis ./test/gitops ./test/fault $(shell grep -rlE '^//go:build .*e2e' --include='*_test.go' internal test | xargs -n1 dirname | sort -u | sed 's,^,./,')
E2E     = $(ALL)
# Packages at once: on two cores they wait more than they compute.
ATONCE  = $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
# Those that need no server that is built can run while these are; the rest is LATE.
EARLY   = ./test/schemathesis ./test/fault ./test/keycloak ./internal/sso/keycloak
LATE    = $(filter-out $(EARLY),$(ALL))
UNIT    = $(shell $(GO) list ./... | grep -vE '/test/(e2e|fault|clients|dataplane)')
CROSS   = linux/arm64 darwin/arm64 windows/amd64
CROSS_ALL = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
FUZZTIME = 20s
# Bad days of make chaos in a row, from SEED on.
SEED     = 1
ROUNDS   = 20
CHAOS    = DROVER_TEST_BINARY="$(CURDIR)/bin/drover" DROVER_TEST_CHAOS_BINARY="$(CURDIR)/bin/chaos/drover"
# What is generated of the custom resources, below a folder: deep copies, and the definitions, role and webhook that go to Kubernetes.
GENERATE = $(GO) tool -modfile=tools/go.mod controller-gen paths=./internal/kubeapi paths=./internal/kubeapi/v1alpha1
COPIES   = object output:object:dir=$(1)/v1alpha1
OBJECTS  = crd rbac:roleName=drover-gitops-server,fileName=server.yaml webhook output:crd:dir=$(1)/manifests/crd output:rbac:dir=$(1)/manifests/rbac output:webhook:dir=$(1)/manifests/webhook

.DEFAULT_GOAL = help
.PHONY: help build run bootstrap run/docs check test e2e e2e/large build/chaos chaos servers bench lint fuzz cross fmt clean generate manifests

help: ## this list
	@awk -F ':.*## ' '/^[a-z\/0-9]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## bin/drover
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/drover

run: build ## a whole control plane on this machine: API on 127.0.0.1:8000, routes on 127.0.0.1:8080
	bin/drover up

# The first that works: a docker without its daemon builds nothing, and one whose daemon hangs is not waited for.
ENGINE   = $(shell limit=$$(command -v timeout); for e in docker podman buildah; do if $${limit:+$$limit 10} $$e info >/dev/null 2>&1; then command -v $$e; break; fi; done)
REGISTRY =
bootstrap: build ## everything that Drover needs, and Drover itself, from nothing; ARGS="--location ..." for elsewhere than this machine, REGISTRY=... where its image is pushed
	@GO='$(GO)' ENGINE='$(ENGINE)' REGISTRY='$(REGISTRY)' VERSION='$(VERSION)' deploy/bootstrap.sh $(ARGS)

run/docs: build ## the API's documentation on 127.0.0.1:8082
	bin/drover docs --listen 127.0.0.1:8082

check: ## format, vet, the house, tests that need no server, builds for other systems (under two minutes)
	@echo "check: format"; out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not formatted, run make fmt:"; echo "$$out"; exit 1; fi
	@echo "check: vet"; $(GO) vet ./...
	@echo "check: generated"; d=$$(mktemp -d) && trap 'rm -rf "$$d"' EXIT && $(GENERATE) $(call COPIES,$$d) $(call OBJECTS,$$d) && (cd "$$d" && find . -type f) | \
		while read -r f; do cmp -s "$$d/$$f" "internal/kubeapi/$$f" || { echo "internal/kubeapi/$$f is not what its types say, run make generate manifests"; exit 1; }; done
	@echo "check: house"; $(GO) test .
	@echo "check: tests"; DROVER_TEST_NO_POSTGRES=1 DROVER_TEST_NO_RABBITMQ=1 DROVER_TEST_NO_BIND=1 DROVER_TEST_NO_MOTO=1 DROVER_TEST_NO_PROMTOOL=1 $(GO) test -json -short $(UNIT) | $(GO) run ./test/report check
	@$(MAKE) --no-print-directory cross CROSS_ALL='$(CROSS)'

cross: ## builds for every system
	@for p in $(CROSS_ALL); do echo "check: build $$p"; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./cmd/drover || exit 1; done

test: ## all tests, with the servers they need (PostgreSQL, RabbitMQ, BIND, an emulator of Route 53, promtool), which are set up for them
	@test/with-promtool.sh test/with-dns.sh test/with-rabbitmq.sh test/with-postgres.sh sh -c '$(GO) test -json $(UNIT) | $(GO) run ./test/report test'

e2e: build ## tests on the built binary, on Keycloak, Kubernetes, Argo CD, Consul, OpenBao and RabbitMQ, with clients of other fleet managers, and with made-up requests
	@test/with-kubernetes.sh test/with-argocd.sh test/with-backends.sh test/with-buildah.sh test/with-clients.sh test/with-schemathesis.sh test/with-dns.sh test/with-keycloak.sh test/with-rabbitmq.sh test/with-postgres.sh sh -c 'DROVER_TEST_BINARY="$$PWD/bin/drover" $(GO) test -json -vet=off -p $(ATONCE) -count=1 -timeout 45m -tags e2e $(or $(E2E),./test/...) | $(GO) run ./test/report e2e'

e2e/large: build ## deployments of repositories of 2 GiB (some minutes, and 6 GB below the directory for temporary files)
	@test/with-kubernetes.sh test/with-argocd.sh sh -c 'DROVER_TEST_BINARY="$$PWD/bin/drover" DROVER_TEST_REPOSITORY_MIB=$(or $(MIB),2048) $(GO) test -count=1 -timeout 60m -v -tags e2e -run "^TestLargeRepositories$$" ./test/gitops'

e2e/early: build ## those of make e2e that need no server that is built
	@test/with-clients.sh test/with-schemathesis.sh test/with-dns.sh test/with-keycloak.sh test/with-rabbitmq.sh test/with-postgres.sh sh -c 'DROVER_TEST_BINARY="$$PWD/bin/drover" $(GO) test -json -vet=off -count=1 -timeout 45m -tags e2e $(EARLY) | $(GO) run ./test/report e2e/early'

build/chaos: ## bin/chaos/drover, in which DROVER_CHAOS=ledger=0.2,kubernetes=0.2,seed=1 has that share of calls fail
	$(GO) build -trimpath -tags chaos -ldflags '$(LDFLAGS)' -o bin/chaos/ ./cmd/drover

chaos: build build/chaos ## what deployments promise on ROUNDS bad days in a row, from SEED on: calls fail, processes are killed (hours)
	$(GO) test -tags chaos -count=1 -run Chaos ./internal/app
	$(GO) test -tags e2e,chaos -c -o bin/chaos/gitops.test ./test/gitops
	@test/with-kubernetes.sh test/with-argocd.sh sh -c 'cd test/gitops && for seed in $$(seq $(SEED) $$(($(SEED) + $(ROUNDS) - 1))); do echo "chaos: the day of SEED=$$seed"; \
		DROVER_TEST_SEED=$$seed $(CHAOS) "$(CURDIR)/bin/chaos/gitops.test" -test.run "^TestChaos$$" -test.v -test.parallel 4 -test.timeout 90m || { echo "chaos: that day failed: make chaos ROUNDS=1 SEED=$$seed"; exit 1; }; done'

servers: ## the servers that tests need and that are fetched or built into the cache (the first time takes 50 minutes)
	@$(GO) run ./test/servers/fetch all

bench: build ## the table of docs/benchmarks.md, measured here (starts its own PostgreSQL, with fsync on)
	@test/with-kubernetes.sh test/with-argocd.sh test/with-promtool.sh test/with-rabbitmq.sh test/with-postgres.sh true # installs what is missing
	@DROVER_TEST_POSTGRES= DROVER_TEST_BINARY="$$PWD/bin/drover" sh -c 'for p in "-run TestTransitionTable ./internal/sqlledger" ./test/bench; do $(GO) test -tags bench -count=1 -timeout 150m -v $$p || exit 1; done'

lint: ## static analysis beyond vet
	@if command -v golangci-lint >/dev/null 2>&1; then golangci-lint run ./...; \
	else $(GO) tool -modfile=tools/go.mod staticcheck ./...; fi

fuzz: ## every fuzz target for FUZZTIME
	@for pkg in $(UNIT); do for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
		echo "fuzz: $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; done; done

generate: ## deep copies of the custom resources' types
	$(GENERATE) $(call COPIES,internal/kubeapi)

manifests: ## definitions, role and webhook of the custom resources (deploy/kubernetes/gitops)
	$(GENERATE) $(call OBJECTS,internal/kubeapi)

fmt: ## format all Go files
	gofmt -w $$(git ls-files '*.go')

clean: ## remove what make build made
	rm -rf bin
