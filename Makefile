# Pilotage: build, test and check. `make help` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

TOOLS   := $(CURDIR)/.tools
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# The binary, the tools and the checks share one flavour (no cgo, trimmed
# paths), so that a cold machine compiles the dependencies once for all of
# them. Tests need cgo for the race detector and are the other flavour. A third one would
# take two more minutes of processor time.
STATIC := CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"

# `go test -json` goes through internal/ci, which prints the usual summary
# lines, the output of failed tests and the totals, and keeps the record.
# Vet has its own target and need not run again in this flavour.
TEST_RECORD := .ci/cache/test.json
# The race detector keeps every process for a second at its end, by default.
export GORACE := atexit_sleep_ms=50
TEST        := go test -json -vet=off
CI          := $(STATIC) go run ./internal/ci
# What takes longest begins first. These tests wait for other processes much of the time, so
# one package more is tested at once than there are processors.
LONGEST     := ./pilot/exec ./taskqueue/server
AT_ONCE     := $(shell echo $$(($$(nproc) + 1)))
# One after the other: grids of dozens of processes, beside which the clocks of other tests
# ran out, and real nodes that are measured by the clock of the machine.
ALONE       := ./integration ./dht/memnet/live
# What starts no goroutine (ci serial) is tested without the race detector, and so is
# papers/, a module of its own on top of this one, whose experiments are simulations.
TEST_ALL     = failed=; serial=$$($(CI) serial); { \
	$(TEST) -race -p $(AT_ONCE) $(1) $(LONGEST) $$(go list ./... | grep -vxFf <(go list $$serial $(ALONE))) || failed=1; \
	$(TEST) -race -p 1 -parallel $(AT_ONCE) $(1) $(ALONE) || failed=1; \
	$(STATIC) $(TEST) $(1) $$serial || failed=1; \
	(cd papers && $(STATIC) $(TEST) $(1) ./...) || failed=1; [ -z "$$failed" ]; } </dev/null
SHOW        := $(CI) show -record $(TEST_RECORD)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: .tools/.installed ## Install the pinned tools of tools.versions into .tools/

.tools/.installed: tools.versions
	@mkdir -p .tools
	@grep -v '^#' $< | while read -r name package; do \
		echo "installing $$name: $$package"; \
		GOBIN=$(TOOLS) $(STATIC) go install "$$package"; \
		test -x "$(TOOLS)/$$name"; \
	done
	@touch $@

# What starts payloads is a small program of its own inside the binary; a plain
# `go build` makes a binary that starts itself again for it.
.PHONY: build
build: ## Build the static binary bin/pilotage
	$(STATIC) go build -ldflags "-s -w" -o pilot/exec/spawner.bin ./pilot/exec/spawner/static
	$(STATIC) go build -tags spawner -ldflags "-s -w -X main.version=$(VERSION)" -o bin/pilotage ./cmd/pilotage

# Each target gets the same time on one processor, FUZZ_EACH=n seconds; FUZZ_KEEP=1 keeps
# the inputs that reach new code in testdata.
FUZZ_SECONDS := 600
FUZZ_EACH     = $$(($(FUZZ_SECONDS) / $$(grep -ro --include='*_test.go' '^func Fuzz' . | wc -l)))
.PHONY: fuzz
fuzz: ## Fuzz all that comes from outside, 10 minutes of processor time in all
	FUZZ_KEEP=$(FUZZ_KEEP) .ci/fuzz $(FUZZ_EACH)

# The same flags as `make build`; each build makes the program that starts payloads
# anew, for its architecture.
.PHONY: release
release: ## Build static binaries for amd64 and arm64 into dist/, with SHA256SUMS
	@rm -rf dist
	for arch in amd64 arm64; do \
		GOOS=linux GOARCH=$$arch $(STATIC) go build -ldflags "-s -w" -o pilot/exec/spawner.bin ./pilot/exec/spawner/static; \
		GOOS=linux GOARCH=$$arch $(STATIC) go build -tags spawner -ldflags "-s -w -X main.version=$(VERSION)" -o dist/pilotage-linux-$$arch ./cmd/pilotage; \
	done
	@rm pilot/exec/spawner.bin # of the last architecture
	cd dist && sha256sum pilotage-linux-* | tee SHA256SUMS

# Only this target needs the tool, so `make setup` does not install it. A version that
# begins with a letter, as a bare commit does, is none for Debian.
DEB_TOOL    := github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2
DEB_VERSION := $(shell sed -E "s/^v//; /^[0-9]+\./! s/^/0~git$$(git log -1 --format=%cd --date=format:%Y%m%d%H%M)./; s/-/+/g" <<<"$(VERSION)")
DEB          = dist/pilotage_$(DEB_VERSION)_$(shell go env GOARCH).deb
.PHONY: deb
deb: build ## Pack dist/pilotage_VERSION_ARCH.deb: binary, service, completion, documents
	@mkdir -p dist/completion && rm -f dist/*.deb
	for shell in bash zsh fish; do bin/pilotage completion $$shell >dist/completion/$$shell; done
	test -x $(TOOLS)/nfpm || GOBIN=$(TOOLS) $(STATIC) go install $(DEB_TOOL)
	ARCH=$(shell go env GOARCH) DEB_VERSION=$(DEB_VERSION) SOURCE_DATE_EPOCH=$(shell git log -1 --format=%ct) $(TOOLS)/nfpm package --config deploy/debian/nfpm.yaml --target $(DEB)

# Only this target needs the tool, so `make setup` does not install it.
SBOM_TOOL := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0
.PHONY: sbom
sbom: build ## Write bin/pilotage.cdx.json: the modules, with versions and licences, of which the binary is made
	GOBIN=$(TOOLS) $(STATIC) go install $(SBOM_TOOL)
	$(TOOLS)/cyclonedx-gomod bin -json -licenses -std -noserial -notimestamp -version $(VERSION) -output bin/pilotage.cdx.json bin/pilotage

# With CACHE=FOLDER, as a Go cache that has the first build, it takes seconds, and shows
# only that nothing depends on where the sources and modules are.
.PHONY: reproducible
reproducible: build ## Build again in another folder without Go's cache: the binary must be the same
	@folder=$$(mktemp -d); trap 'chmod -R u+w "$$folder"; rm -rf "$$folder"' EXIT; \
	git ls-files -z | xargs -0 cp --parents -t "$$folder"; \
	ln -s "$$(go env GOMODCACHE)" "$$folder/.modules"; \
	GOMODCACHE="$$folder/.modules" GOCACHE="$(or $(CACHE),$$folder/.cache)" $(MAKE) --no-print-directory -C "$$folder" build VERSION=$(VERSION); \
	cmp bin/pilotage "$$folder/bin/pilotage"; \
	sha256sum bin/pilotage

.PHONY: papers
papers: build ## Build bin/papers, which repeats the experiments of the papers
	cd papers && $(STATIC) go build -ldflags "-s -w" -o ../bin/papers ./cmd/papers

.PHONY: demo
demo: build ## Run a real workflow over two sites with four pilots each
	examples/demo/run

.PHONY: test
test: storms ## Run all tests, with the race detector what has goroutines, and some storms
	@mkdir -p $(dir $(TEST_RECORD))
	$(call TEST_ALL,-timeout 25m) | $(SHOW)

# Each commit plays seeds of its own, the same on every clone; without git, the usual ones.
# FIRST=n plays those from n on.
STORMS := 500
LARGE_STORMS := 2
FIRST   = $$(printf %d 0x$$(git rev-parse HEAD 2>/dev/null | grep -o '^.\{8\}' || echo 3dabd8bc))

.PHONY: storms
storms: ## Play STORMS=n whole grids under faults (sim/world), others for each commit
	$(STATIC) go run ./sim/soak -seeds $(STORMS) -first $(FIRST)

.PHONY: large-storms
large-storms: ## Play LARGE_STORMS=n large grids for a day of virtual time, others for each commit
	$(STATIC) go run ./sim/soak -large -seeds $(LARGE_STORMS) -first $(FIRST)

.PHONY: test-long
test-long: ## Run all tests with many more seeds and rounds (about an hour)
	@mkdir -p $(dir $(TEST_RECORD))
	export PILOTAGE_TEST_LONG=1; $(call TEST_ALL,-count 1 -timeout 90m) | $(SHOW)

SECONDS := 60

.PHONY: soak
soak: ## Play whole grids under faults for SECONDS=n on all cores (sim/world), LARGE=1 large ones; fails where something is not as it must be
	$(STATIC) go run ./sim/soak -seconds $(SECONDS) $(if $(LARGE),-large)

# What the tests on real batch systems, with a browser and with Prometheus need.
SITE_PACKAGES := munge slurmctld slurmd slurm-client gridengine-master gridengine-exec gridengine-client nordugrid-arc-arex nordugrid-arc-client nordugrid-arc-plugins-arcrest chromium prometheus curl xfsprogs

.PHONY: site-packages
site-packages:
	@dpkg-query --show $(SITE_PACKAGES) >/dev/null 2>&1 || { apt-get update -q && \
		DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $(SITE_PACKAGES); }

.PHONY: test-site
test-site: ## Test the factory on real batch systems, the page in Chromium, metrics with Prometheus, the Debian package (as root, on a Debian that may be thrown away: installs them)
	@mkdir -p $(dir $(TEST_RECORD))
	@$(MAKE) --no-print-directory -j2 deb site-packages
	$(STATIC) $(TEST) -count 1 -tags site -parallel 6 -timeout 10m ./integration/site </dev/null | $(CI) show -record .ci/cache/test-site.json

.PHONY: bugs
bugs: ## Put known bugs into the product, one after the other, and print in how many seeds the storms find them (an hour)
	sim/world/bugs/run

.PHONY: test-count
test-count: ## Record the number of tests of the last `make test` in .ci/test-count
	$(CI) count -record $(TEST_RECORD) >.ci/test-count
	@cat .ci/test-count

.PHONY: bench
bench: build ## Measure this program shortly, and print one table with the goals
	bin/pilotage bench all

.PHONY: bench-parts
bench-parts: ## Run the Go benchmarks of single functions, shortly
	go test -run '^$$' -bench . -benchmem -benchtime 200ms ./...

.PHONY: generate
generate: setup ## Generate Go code from the protos, and documents from the code
	@if compgen -G 'proto/pilotage/*/*.proto' >/dev/null; then $(TOOLS)/buf generate; fi
	$(STATIC) go generate ./...

.PHONY: format
format: setup ## Format Go code and protos in place
	$(TOOLS)/golangci-lint fmt . papers
	@if compgen -G 'proto/pilotage/*/*.proto' >/dev/null; then $(TOOLS)/buf format --write; fi

.PHONY: lint
lint: setup ## Lint: the import arrows of the architecture, style, likely bugs
	$(STATIC) $(TOOLS)/golangci-lint run --allow-serial-runners
	cd papers && $(STATIC) $(TOOLS)/golangci-lint run --allow-serial-runners

.PHONY: verify
verify: setup verify-format verify-vet lint verify-proto verify-generated verify-modules verify-reached verify-large ## Prove that formatting, lint, protos, generated code and module files are in order, no code is dead and no type too large

.PHONY: verify-format
verify-format: setup
	@echo "formatting"
	@$(TOOLS)/golangci-lint fmt --diff || { echo "some files are not formatted: run make format" >&2; exit 1; }

.PHONY: verify-vet
verify-vet:
	$(STATIC) go vet -tags site ./...
	cd papers && $(STATIC) go vet ./...

.PHONY: verify-proto
verify-proto: setup
	@.ci/verify-proto

.PHONY: verify-generated
verify-generated: setup
	@.ci/verify-generated

.PHONY: verify-reached
verify-reached: setup
	@.ci/verify-reached

# Types of more than 60 methods or 20 fields are taken apart.
.PHONY: verify-large
verify-large:
	@$(CI) large
	@cd papers && $(STATIC) go run github.com/pilotage-grid/pilotage/internal/ci large

.PHONY: verify-modules
verify-modules:
	go mod verify
	@for module in . papers; do (cd $$module && go mod tidy -diff) || { echo "$$module/go.mod or go.sum does not fit the imports: see the difference above" >&2; exit 1; }; done
