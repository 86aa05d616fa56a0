# Everything that needs a real kube-apiserver builds it from Go modules; nothing is installed by hand.
GO ?= go

.PHONY: build
build: ## bin/celgate, the command line, and bin/celgate-webhook, the program for clusters
	$(GO) build -o bin/ ./cmd/celgate ./cmd/celgate-webhook

.PHONY: test
test: ## the tests of the root module but for the slow ones, no server needed
	$(GO) test -short -p 4 -timeout 30m ./...

.PHONY: test-long
test-long: ## all tests of the root module
	$(GO) test -timeout 30m ./...

.PHONY: race
race: ## the same with the race detector; of celgate prove the short tests, which have its concurrency, too
	$(GO) test -race -timeout 30m $$($(GO) list ./... | grep -v /cmd/internal/prove$$)
	$(GO) test -race -short -timeout 30m ./cmd/internal/prove

.PHONY: lint
lint: ## gofmt, go vet and the linters of .golangci.yml, in every module
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	for module in . conformance bench tools; do \
		(cd $$module && $(GO) vet ./... && $(GO) run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.5.0 run --allow-parallel-runners ./...) || exit 1; done

.PHONY: generate
generate: ## the tables of built-in kinds and everything else that is made by a program
	made=$$(mktemp -d) && $(GO) -C tools run ./schematables -out $$made && $(GO) -C tools run ./packtables $$made && rm -r $$made
	$(GO) generate ./...
	$(GO) -C tools run ./helmchart
	$(GO) -C tools run ./notices

.PHONY: profile
profile: ## the tables of the older minor KUBE=1.33, and what its CEL libraries answer, from its modules in tools/1.33.mod
	made=$$(mktemp -d) && cd tools && GOFLAGS=-modfile=$(KUBE).mod $(GO) mod download k8s.io/kubernetes && \
		GOFLAGS=-modfile=$(KUBE).mod $(GO) run ./schematables -out $$made && $(GO) run ./packtables $$made && rm -r $$made && \
		GOFLAGS=-modfile=$(KUBE).mod $(GO) run ./celanswers

.PHONY: fuzz
fuzz: ## every fuzz target for TIME, one after the other; SEED repeats a run
	SEED=$(SEED) ./tools/fuzz.sh $(or $(TIME),60s)

.PHONY: vuln
vuln: ## known vulnerabilities in what the programs call, where their database can be reached
	./tools/vuln.sh

.PHONY: lowerings
lowerings: ## what generated policies of the dialect answer beside their native forms, and rules with a scope beside a native rule for each place, N (100000) answers of each; SEED draws them
	$(GO) test ./internal/conformance -run 'TestGeneratedLowered|TestGeneratedScopes' -count=1 -v -timeout 1h -args -comparisons=$(or $(N),100000) $(if $(SEED),-seed=$(SEED))

.PHONY: prove-agree
prove-agree: ## what formulas of celgate prove say of expressions and mutations beside the engine, N (1000000) answers; SEED draws them
	$(GO) test ./cmd/internal/prove -run 'TestAgreement$$|TestErrorAgreement|TestMutationAgreement|TestRecipes' -count=1 -v -timeout 4h -args -comparisons=$(or $(N),1000000) $(if $(SEED),-seed=$(SEED))

.PHONY: prove-edits
prove-edits: ## edits validations of a folder, POLICIES=DIR, as mistakes do and asks celgate prove about both directions; prints what share of the validations is decided
	$(GO) test ./cmd/internal/prove -run 'TestCoverage|TestEdits' -count=1 -v -timeout 2h -args \
		-edited=$(abspath $(or $(POLICIES),examples)) -policies=$(abspath $(or $(POLICIES),examples))

.PHONY: prove-solvers
prove-solvers: ## celgate prove beside z3 and cvc5, which must be installed, on one of SHARE (1) pairs of its test beds; prints counts and times
	$(GO) test ./internal/solve -run TestScriptsWithSolvers -count=1 -v
	$(GO) test ./cmd/internal/prove -run 'TestSecond$$' -count=1 -v -timeout 1h -args -solvers=$(or $(SHARE),1)

.PHONY: live-server
live-server: ## a kube-apiserver 1.37, or KUBE=1.33, on loopback; prints its kubeconfig, ends with Ctrl-C; ARGS are flags of kube-apiserver
	$(GO) -C conformance run ./cmd/server $(if $(KUBE),-minor $(KUBE)) $(if $(ARGS),-- $(ARGS))

.PHONY: conformance
conformance: ## builds and starts kube-apiserver and etcd, checks the whole corpus live; KUBE=1.36: what is recorded of that minor, KUBE=all: of every minor
	cd conformance && $(GO) test ./server && $(GO) run ./cmd/corpus -check $(if $(KUBE),-minor $(KUBE))
	cd conformance && $(GO) test ./upgrades -count=1 -timeout 3h $(if $(KUBE),-args -minor=$(KUBE))

.PHONY: corpus-record
corpus-record: ## records the cases whose names match RUN (all without) from the live server, or from one of another minor, KUBE=1.36
	$(GO) -C conformance run ./cmd/corpus -record $(if $(RUN),-run '$(RUN)') $(if $(KUBE),-minor $(KUBE))

.PHONY: corpus-check
corpus-check: ## compares the recorded cases with the live server, or with one of another minor, KUBE=1.36
	$(GO) -C conformance run ./cmd/corpus -check $(if $(RUN),-run '$(RUN)') $(if $(KUBE),-minor $(KUBE))

.PHONY: refusals
refusals: ## what the registry refuses to store: custom resources beside the server's packages, N (100000) comparisons, and on a live server 300 requests for generated custom resources and 3,000 for objects of built-in kinds with a spoiled field, without plugins and 3,300 with all of them; RECORD=1 keeps the shares of those; KUBE=1.33: 3,000 objects of built-in kinds on a server of that minor alone
	$(if $(KUBE),,cd conformance && $(GO) test ./prepare -count=1 -run 'TestCustomRefusals|TestBuiltins' -objects=$$(($(or $(N),100000) / 15)) -timeout 1h -v)
	cd conformance && $(GO) test ./live -count=1 -run '$(if $(KUBE),TestBuiltins,TestCustomRequests|TestBuiltins|TestWhole|TestPodSecurity)' -v -args $(if $(KUBE),-spoiled-minor=$(KUBE)) -spoiled=3000 -whole=3300 $(if $(SEED),-spoiled-seed=$(SEED)) $(if $(RECORD),-spoiled-record)

.PHONY: oracles
oracles: ## preparation, write-time rules and warnings, merge, conversion and RBAC against the server's own packages
	cd conformance && $(GO) test ./prepare ./policy ./typecheck ./merge ./state
	cd tools && $(GO) test -timeout 30m ./...

.PHONY: e2e
e2e: ## celgate-webhook and celgate beside a kube-apiserver: serve where its own admission policies are off, apply and migrate where they are on; KUBE=1.33 builds that one, for celgate-webhook
	$(GO) -C conformance test ./serve -count=1 -timeout 1h $(if $(KUBE),-minor=$(KUBE))
	$(if $(KUBE),,$(GO) -C conformance test ./live -count=1)

.PHONY: recipes
recipes: ## every request of the recipes' suites on a real kube-apiserver, beside what celgate says
	$(GO) -C conformance test ./recipes -count=1 -timeout 1h

.PHONY: controllers
controllers: ## what the controllers of a real kube-controller-manager make of workloads, beside what celgate says; builds it the first time
	$(GO) -C conformance test ./controllers -count=1 -timeout 1h

.PHONY: standards
standards: ## the policies of a corpus of the Pod Security Standards, POLICIES=DIR with policy.yaml, binding.yaml and test.yaml each: Pods of workloads are denied exactly where the Pods are
	$(GO) test ./cmd/internal/cli -run TestStandardsOfCorpus -count=1 -v -standards=$(abspath $(POLICIES))

.PHONY: faults
faults: ## replicas, API server, etcd, watches and certificates fail under load, each for DURATION; prints a table
	$(GO) -C conformance test ./serve -count=1 -run TestFaultRuns -faults=$(or $(DURATION),2m) -timeout 2h -v

.PHONY: siege
siege: ## celgate serve in the memory of its Pod under known and generated hostile reviews, connections and directories for TIME (2m), SEED draws them; FAULTS=20s also kills and freezes what it depends on, each for so long
	$(GO) test ./cmd/internal/serve -run TestSiege -count=1 -v -timeout 2h -siege=$(or $(TIME),2m) $(if $(SEED),-siege-seed=$(SEED))
	$(if $(FAULTS),$(MAKE) faults DURATION=$(FAULTS))

.PHONY: image
image: ## the container image of celgate-webhook, with ko and without a registry, as an OCI layout in bin/image; PLATFORMS=linux/amd64,linux/arm64 for more than this machine's
	$(GO) -C tools run ./image $(if $(PLATFORMS),-platforms $(PLATFORMS))

.PHONY: release-snapshot
release-snapshot: ## the files of a release in bin/release, neither signed nor published; ARGS=-targets=linux_amd64 for some platforms, -twice to prove that a second build is the same
	$(GO) -C tools run ./release $(ARGS)

.PHONY: site
site: ## the documentation as pages in bin/site, with the playground if it is built; fails on a dead link
	$(GO) -C tools run ./site

.PHONY: playground
playground: ## the page with the engine as WebAssembly: static files in bin/playground; needs npm for its editor
	$(GO) -C tools run ./playground

.PHONY: browser
browser: build ## the page in headless Chromium, beside the command line; needs bin/playground; ARGS=-pictures=DIR takes screenshots, -every asks about all examples, -aims fails where an answer takes too long
	$(GO) -C conformance test ./browser -count=1 -timeout 30m -v -args $(ARGS)

.PHONY: bench
bench: ## speed beside the API server's own plugins
	$(GO) -C bench run . $(ARGS)

.PHONY: bench-serve
bench-serve: ## celgate serve on loopback, beside handlers that only decode and allow
	$(GO) -C bench run ./serve $(ARGS)

.PHONY: diff-fuzz
diff-fuzz: ## random policies and objects for TIME, beside the server's own plugins and beside a live server for the share LIVE of the time, or beside one of another minor alone, KUBE=1.33; SEED repeats a run, RECORD=1 keeps its totals
	$(GO) -C conformance run ./cmd/differ -time $(or $(TIME),1m) -live $(or $(LIVE),0.5) $(if $(SEED),-seed $(SEED)) $(if $(KUBE),-minor $(KUBE)) \
		$(if $(POLICIES),-policies $(POLICIES)) $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(RECORD),-record differ/totals.json)

comma := ,

.PHONY: wild
wild: ## policies that people wrote, of the folders POLICIES=DIR,..., on a live server for TIME, with objects near what they speak of; SEED repeats a run, ARGS=-whole
	$(GO) -C conformance run ./cmd/wild -time $(or $(TIME),1m) $(if $(SEED),-seed $(SEED)) $(ARGS) \
		$(abspath $(subst $(comma), ,$(or $(POLICIES),examples)))

.PHONY: scoreboard
scoreboard: ## docs/conformance.md
	$(GO) -C conformance run ./cmd/scoreboard

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z0-9-]*\): ## /\1\t/p' Makefile
