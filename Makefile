# Everything that needs a real kube-apiserver builds it from Go modules; nothing is installed by hand.
GO ?= go

.PHONY: build
build: ## bin/celgate
	$(GO) build -o bin/celgate ./cmd/celgate

.PHONY: test
test: ## the tests of the root module, no server needed
	$(GO) test ./...

.PHONY: race
race: ## the same with the race detector
	$(GO) test -race ./...

.PHONY: lint
lint: ## gofmt, go vet and the linters of .golangci.yml
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) vet ./...
	$(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0 run ./...

.PHONY: generate
generate: ## the tables of built-in kinds and everything else that is made by a program
	cd tools && $(GO) generate ./...
	$(GO) generate ./...

.PHONY: fuzz
fuzz: ## every fuzz target for TIME, one after the other
	./tools/fuzz.sh $(or $(TIME),60s)

.PHONY: bench
bench: ## speed beside the API server's own plugins
	$(GO) -C bench run . $(ARGS)

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\): ## /\1\t/p' Makefile
