# outboxctl: everything a developer or a pipeline types. `make` alone lists the targets.
#
# Nothing here depends on git metadata or on a tool installed by hand: a source archive builds too.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO ?= go
BIN := bin
PKG := github.com/outboxctl/outboxctl

# Extra words for the programs behind the targets: make run RUN_ARGS="--for 20s", make test TEST_ARGS="-run Emit".
RUN_ARGS ?=
PUBLISH_ARGS ?=
TEST_ARGS ?=
# Every package of the modules in go.work; ./... would stop at the first go.mod below. Those that take longest begin first, so
# that none of them is the last and alone.
TEST_PKGS ?= ./lab/browser ./cmd ./internal/migrate ./internal/consumer work
# What shares memory between goroutines: engine, consumers, brokers, page, dev stack.
RACE_PKGS ?= ./internal/dispatch ./dispatch/... ./consume/... ./internal/consumer ./internal/broker/... ./internal/devstack \
	./internal/forward ./internal/signin/... ./internal/stats ./internal/telemetry ./ui
# Most tests wait for servers: with one for each core, the default, the cores wait as well.
TEST_PARALLEL ?= 8
# Packages at a time: one more than there are cores.
TEST_PACKAGES ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))

# The commit's date, not the clock's: the same commit builds the same bytes. A source archive has no git; then say so.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
DATE ?= $(shell git log -1 --format=%cI 2>/dev/null || echo unknown)
LDFLAGS := -s -w -X $(PKG)/cmd.version=$(VERSION) -X $(PKG)/cmd.commit=$(COMMIT) -X $(PKG)/cmd.date=$(DATE)

.PHONY: help
help: ## list the targets
	@printf 'usage: make TARGET [RUN_ARGS=…] [TEST_ARGS=…]\n\n'
	@awk -F ':.*## ' '/^[a-z][a-zA-Z_-]*:.*## / {printf "  %-22s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## check for Go, PostgreSQL and Redis; install the servers where they are missing
	@scripts/setup.sh

.PHONY: build
build: ## build bin/outboxctl
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/outboxctl .

.PHONY: run
run: setup build ## start the embedded stack with demo traffic (RUN_ARGS="--for 20s" ends by itself)
	@$(BIN)/outboxctl dev --demo $(RUN_ARGS) || test $$? -eq 130 # Ctrl-C is how it ends

.PHONY: run-outbox-publisher
run-outbox-publisher: build ## start the publisher against the configured or the running stack (PUBLISH_ARGS=…)
	$(BIN)/outboxctl publish $(PUBLISH_ARGS)

# suite runs packages in one folder for their servers and reports each as it finishes: $(call suite,FLAGS,PACKAGES)
define suite
@scripts/setup.sh test
@run=$$(mktemp -d); trap 'rm -rf "$$run"' EXIT; $(GO) build -o "$$run/suite" ./tools/suite; echo "running: go test $(1) $(TEST_ARGS) $(2)"; \
OUTBOXTEST_RUN=$$run $(GO) test -json -vet=off -shuffle=on -timeout 45m $(1) $(TEST_ARGS) $(2) | "$$run/suite"
endef

.PHONY: test
# Memory for time: garbage is collected only at a gigabyte, the linker's included. make lint runs vet, over everything and once.
test: export GOGC ?= off
test: export GOMEMLIMIT ?= 1GiB
test: ## run the whole suite against real PostgreSQL and Redis: 4 minutes (TEST_PKGS=…, TEST_ARGS=…)
	$(call suite,-p $(TEST_PACKAGES) -parallel $(TEST_PARALLEL),$(TEST_PKGS))

.PHONY: test-race
test-race: ## run what goroutines share under the race detector (RACE_PKGS=work for the whole suite, TEST_ARGS=…)
	@[ "$$($(GO) env CGO_ENABLED)" = 1 ] || echo "running WITHOUT the race detector: no C compiler found"
	$(call suite,$$([ "$$($(GO) env CGO_ENABLED)" != 1 ] || echo -race) -p 2 -parallel 4,$(RACE_PKGS))

.PHONY: nightly
nightly: ## run what is too slow for every change: suite under the race detector, torture of an hour, matrix, mutants, …
	@.ci/nightly

# The versions of PostgreSQL to run on: make test-matrix MATRIX="14 18" MATRIX_STEPS="test bench".
MATRIX ?=

.PHONY: test-matrix
test-matrix: setup ## run suite, torture and drain benchmark on PostgreSQL 14 to 18 (MATRIX=…, MATRIX_STEPS=…)
	@scripts/test-matrix.sh $(MATRIX)

# What the proof runs on: the program with its failpoints, and the tools around it. See docs/proof/torture.md.
SEED ?= 1
DURATION ?= 3m
RATE ?= 300
TORTURE_ARGS ?=
MUTANTS ?=
SCORES ?=
SCORE_ARGS ?=

.PHONY: torture
torture: ## run everything under faults and check the invariants (SEED=…, DURATION=…, RATE=…)
	@scripts/setup.sh torture
	$(GO) build -trimpath -tags failpoints -o $(BIN)/outboxctl-failpoints .
	$(GO) build -trimpath -tags failpoints -o $(BIN)/torture ./lab/cmd/torture
	$(BIN)/torture -program $(BIN)/outboxctl-failpoints -seed $(SEED) -duration $(DURATION) -rate $(RATE) $(TORTURE_ARGS)

.PHONY: torture-short
torture-short: ## the torture run of the pipeline: a minute, once more at a third of the rate should the machine be too busy
	@$(MAKE) --no-print-directory torture DURATION=1m TORTURE_ARGS="-tries 2"

.PHONY: mutants
mutants: ## plant known bugs one by one; each must be found (MUTANTS="name …")
	@scripts/setup.sh torture
	$(GO) run -trimpath ./lab/cmd/mutants $(MUTANTS)

.PHONY: adoption
adoption: build ## try the ways of docs/adoption.md and a rolling deploy under load (ADOPTION_ARGS="-rows 100000 A B C rolling")
	$(GO) build -trimpath -o $(BIN)/adoption ./lab/cmd/adoption
	$(BIN)/adoption -program $(BIN)/outboxctl $(ADOPTION_ARGS)

.PHONY: scoreboard
scoreboard: ## measure what docs/proof/scoreboard.md says and write it there (SCORES="R6 R8", SCORE_ARGS=-full)
	@scripts/setup.sh scoreboard
	$(GO) build -trimpath -tags failpoints -o $(BIN)/outboxctl-failpoints .
	$(GO) build -trimpath -o $(BIN)/scoreboard ./lab/cmd/scoreboard
	$(BIN)/scoreboard -program $(BIN)/outboxctl-failpoints -seed $(SEED) $(SCORE_ARGS) $(SCORES)

.PHONY: bench
bench: build ## measure bin/outboxctl on servers of its own (BENCH_ARGS="-mode steady -check", BENCH_ARGS=-help)
	$(GO) build -trimpath -o $(BIN)/bench ./lab/cmd/bench
	$(BIN)/bench -program $(BIN)/outboxctl $(BENCH_ARGS)

.PHONY: simulate
simulate: ## run the simulations of dispatcher and operators on SEEDS=1000 new seeds, or from SEED=… on (TRACE=file keeps the last one's)
	export SIMULATE_SEED=$(if $(filter file,$(origin SEED)),$$(date +%s)000,$(SEED)) SIMULATE_SEEDS=$(or $(SEEDS),1000) SIMULATE_TRACE=$(abspath $(TRACE)); \
	$(GO) test -count=1 -timeout 60m -v -run 'TestSimulation$$' ./internal/dispatch; \
	$(GO) test -count=1 -timeout 60m -v -run 'TestModel$$' ./lab/model

FUZZTIME ?= 1m

.PHONY: fuzz
fuzz: ## fuzz every target for FUZZTIME=1m; what it finds goes to testdata/fuzz and is run by every test from then on
	@grep -rlE --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u | while read -r dir; do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9]+' "$$dir"/*_test.go | cut -c6- | sort); do \
			echo "==> $$dir $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$dir"; \
		done; \
	done

.PHONY: chart
chart: ## test the Helm chart: rendered, decoded as Kubernetes does, its command lines, the plain manifests
	cd tools/chart && GOWORK=off $(GO) test -count=1 $(TEST_ARGS) . # the chart is outside the module, so a cached result may be old

.PHONY: version
version: ## give chart, image and manifests VERSION, before it is tagged
	cd tools/chart && GOWORK=off $(GO) run . -set $(VERSION) ../..

.PHONY: chart-version
chart-version: ## fail unless chart and image have VERSION (the release does this)
	cd tools/chart && GOWORK=off $(GO) run . -check $(VERSION) ../..

.PHONY: lint
lint: $(BIN)/lint ## look for mistakes in all modules, and for breaches of the rules of the house (who may import whom, …)
	$(BIN)/lint work
	$(GO) test -vet=off -run '^TestHouseRules' ./*_test.go

# Pinned in a module of its own, so that its dependencies stay out of ours. It finds the mistakes that its test plants.
$(BIN)/lint: $(wildcard tools/lint/*)
	cd tools/lint && GOWORK=off $(GO) test -vet=off . && GOWORK=off $(GO) build -o ../../$@ .

.PHONY: pictures
pictures: build ## draw README's terminal and benchmark and a trace from what the program does now (quiet machine; 3 minutes)
	@scripts/setup.sh pictures
	cd lab && $(GO) run ./cmd/pictures --outboxctl ../$(BIN)/outboxctl --out ../docs/images

.PHONY: release-check
release-check: $(BIN)/goreleaser ## check the release configuration and build this machine's release binary into dist/
	$(BIN)/goreleaser check
	$(BIN)/goreleaser build --snapshot --single-target --clean

.PHONY: release-rehearsal
release-rehearsal: $(BIN)/goreleaser $(BIN)/syft ## build all files of a release twice, install and run them, and publish nothing
	scripts/release-rehearsal.sh

.PHONY: release
release: $(BIN)/goreleaser $(BIN)/syft ## build, sign and publish the tagged version as a draft (the release workflow does this)
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/goreleaser release --clean

# Each pinned in a module of its own, as the linter is. syft writes the bills of materials.
$(BIN)/goreleaser: tools/release/go.mod tools/release/go.sum
	@echo "building goreleaser from its module download (minutes, once)"
	cd tools/release && GOWORK=off $(GO) build -trimpath -o ../../$@ github.com/goreleaser/goreleaser/v2
	@touch $@

$(BIN)/syft: tools/sbom/go.mod tools/sbom/go.sum
	@echo "building syft from its module download (minutes, once)"
	cd tools/sbom && GOWORK=off $(GO) build -trimpath -o ../../$@ github.com/anchore/syft/cmd/syft
	@touch $@

.PHONY: fmt
fmt: ## format the Go sources
	gofmt -s -w .

.PHONY: tidy
tidy: ## tidy go.mod and go.sum of every module
	scripts/tidy.sh

.PHONY: generate
generate: ## write the generated files again (completions, configuration reference, manifests)
	@rm -rf completions
	$(GO) run -trimpath ./tools/generate .
	cd tools/chart && GOWORK=off $(GO) run . ../..

.PHONY: screenshots
screenshots: ## take the pictures of the web page for README and docs, in Chromium
	@scripts/setup.sh test
	OUTBOXCTL_REQUIRE_BROWSER=1 $(GO) test -count=1 -run 'TestPictures$$' ./lab/browser -pictures $(CURDIR)/docs/images

.PHONY: verify
verify: ## fail when a generated file, a go.mod or the formatting is not current
	scripts/verify.sh

.PHONY: smoke
smoke: setup build ## a run of the embedded stack that ends by itself and must have moved events
	scripts/smoke.sh

.PHONY: clean
clean: ## remove what the build made
	rm -rf $(BIN) dist coverage.out
