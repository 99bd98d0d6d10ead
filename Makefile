# `make help` lists the targets.
SHELL = /bin/sh
export CGO_ENABLED = 0

GO      = go
VERSION = $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS = -s -w -X main.version=$(VERSION)
# What needs the built binary, Keycloak, Kubernetes, OpenTofu, Consul or OpenBao runs in `make e2e`, and only there.
E2E     = $(shell $(GO) list -tags e2e ./... 2>/dev/null | grep -E "/test/(e2e|fault|clients|keycloak|schemathesis|kubernetes|dataplane|consul|openbao|tofu|gitserver|toxiproxy)|/internal/(sso/keycloak|runtime/kubernetes|manifest|provider|source|executor/(terraform|consul|vault|kubernetes))")
UNIT    = $(shell $(GO) list ./... | grep -vE '/test/(e2e|fault|clients|dataplane)')
CROSS   = linux/arm64 darwin/arm64 windows/amd64
CROSS_ALL = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
FUZZTIME = 20s

.DEFAULT_GOAL = help
.PHONY: help build run run/docs check test e2e servers bench lint fuzz cross fmt clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z\/0-9]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

build: ## bin/drover
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/drover

run: build ## a whole control plane on this machine: API on 127.0.0.1:8000, routes on 127.0.0.1:8080
	bin/drover up

run/docs: build ## the API's documentation on 127.0.0.1:8082
	bin/drover docs --listen 127.0.0.1:8082

check: ## format, vet, the house, tests that need no server, builds for other systems (under two minutes)
	@echo "check: format"; out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not formatted, run make fmt:"; echo "$$out"; exit 1; fi
	@echo "check: vet"; $(GO) vet ./...
	@echo "check: house"; $(GO) test .
	@echo "check: tests"; DROVER_TEST_NO_POSTGRES=1 DROVER_TEST_NO_BIND=1 DROVER_TEST_NO_MOTO=1 $(GO) test -json -short $(UNIT) | $(GO) run ./test/report check
	@$(MAKE) --no-print-directory cross CROSS_ALL='$(CROSS)'

cross: ## builds for every system
	@for p in $(CROSS_ALL); do echo "check: build $$p"; \
		GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -o /dev/null ./cmd/drover || exit 1; done

test: ## all tests, with the servers they need (PostgreSQL, BIND, an emulator of Route 53), which are set up for them
	@test/with-dns.sh test/with-postgres.sh sh -c '$(GO) test -json $(UNIT) | $(GO) run ./test/report test'

e2e: build ## tests on the built binary, on Keycloak, Kubernetes, Consul and OpenBao, with clients of other fleet managers, and with made-up requests
	@test/with-kubernetes.sh test/with-backends.sh test/with-clients.sh test/with-schemathesis.sh test/with-dns.sh test/with-keycloak.sh test/with-postgres.sh sh -c 'DROVER_TEST_BINARY="$$PWD/bin/drover" $(GO) test -json -count=1 -timeout 45m -tags e2e $(or $(E2E),./test/...) | $(GO) run ./test/report e2e'

servers: ## the servers that tests need and that are fetched or built into the cache (the first time takes 40 minutes)
	@$(GO) run ./test/servers/fetch all

bench: build ## the table of docs/benchmarks.md, measured here (starts its own PostgreSQL, with fsync on)
	@DROVER_TEST_POSTGRES= DROVER_TEST_BINARY="$$PWD/bin/drover" sh -c 'for p in "-run TestTransitionTable ./internal/sqlledger" ./test/bench; do $(GO) test -tags bench -count=1 -timeout 60m -v $$p || exit 1; done'

lint: ## static analysis beyond vet
	@if command -v golangci-lint >/dev/null 2>&1; then golangci-lint run ./...; \
	else $(GO) tool -modfile=tools/go.mod staticcheck ./...; fi

fuzz: ## every fuzz target for FUZZTIME
	@for pkg in $(UNIT); do for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
		echo "fuzz: $$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; done; done

fmt: ## format all Go files
	gofmt -w $$(git ls-files '*.go')

clean: ## remove what make build made
	rm -rf bin
