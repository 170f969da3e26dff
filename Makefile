.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := bash
.SHELLFLAGS := -euo pipefail -c

BIN := $(CURDIR)/bin
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -X main.version=$(VERSION)
# The modules that hold code of ours. dev/controlplane is one file around Kubernetes and takes minutes to analyse.
MODULES := . dev tools/image
ALL_MODULES := $(MODULES) tools dev/controlplane
GO_TOOLS := controller-gen golangci-lint workflowcheck govulncheck benchstat
SUITE ?= releases
SEED ?= 0
ROUNDS ?= 20
ONLY ?=
RUN ?= TestALifeFrom|TestHooksOfEachKind|TestADeletedRelease|TestPruneReleasesDeletes|TestDriftIsTold|TestHealthThatIsLost|TestAnObserverThatIsKilled|TestConvoyThatIsKilled|TestWhatIsWished|TestARolloutSurvives|TestASecondHubIs
# The newest Temporal server that the Go of go.mod builds.
temporal-server := v1.32.1

controller-gen := sigs.k8s.io/controller-tools/cmd/controller-gen
golangci-lint := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
workflowcheck := go.temporal.io/sdk/contrib/tools/workflowcheck
govulncheck := golang.org/x/vuln/cmd/govulncheck
benchstat := golang.org/x/perf/cmd/benchstat

.PHONY: help tools tools-postgres generate lint verify test test-postgres bench chaos demo demo-once build image clean clean-tools FORCE

help: ## lists these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

tools: $(GO_TOOLS:%=bin/%) ## builds or links into bin/ what the other commands run; the first time takes up to 30 minutes
	@KUBEBUILDER_ASSETS="$(KUBEBUILDER_ASSETS)" dev/tools.sh

$(GO_TOOLS:%=bin/%): tools/go.mod
	@echo "tools: $(@F) is built now, with cold caches about 3 minutes"
	@go build -modfile=tools/go.mod -o $@ $($(@F))

# The server takes long to build, so that neither tools nor continuous integration do.
tools-postgres: bin/temporal-server bin/temporal-sql ## builds a Temporal server as it is run in production, and its tool for schemas, which take 10 minutes the first time

bin/temporal-server bin/temporal-sql:
	@echo "tools: $(@F) is built now, with cold caches about 10 minutes for both"
	@mkdir -p $@.new && GOBIN=$(CURDIR)/$@.new GOFLAGS=-mod=mod go install go.temporal.io/server/cmd/$(if $(filter %-sql,$@),tools/sql,server)@$(temporal-server)
	@mv $@.new/* $@ && rmdir $@.new

generate: bin/controller-gen ## writes deep copies, CRDs, the API reference and the kustomize base
	bin/controller-gen object paths=./api/... crd:generateEmbeddedObjectMeta=false paths=./api/... output:crd:dir=deploy/crd
	go run ./docs/gen
	go run ./deploy/gen

lint: bin/golangci-lint bin/workflowcheck ## checks the code's rules
	@for module in $(MODULES); do echo "lint: $$module"; (cd $$module && $(BIN)/golangci-lint run ./...); done
	bin/workflowcheck ./workflows/...

verify: generate ## checks that what is generated is committed, that the modules are tidy, and that an upgrade of the CRDs breaks nothing
	@for module in $(ALL_MODULES); do echo "verify: $$module/go.mod"; (cd $$module && go mod tidy -diff); done
	@! grep -n 'go.temporal.io/server' go.mod || { echo "verify: the product must not hold the Temporal server"; exit 1; }
	@go run ./deploy/crds/check $(BASE:%=-base %)
	@test -z "$$(git status --porcelain)" || { git status --short; echo "verify: commit these files"; exit 1; }

# Nothing is taken from the cache: go does not know that the end-to-end tests run bin/convoy-race. The packages of dev run one
# after another, since the end-to-end tests wait for real clusters and want the machine for themselves.
test: tools bin/convoy-race ## runs all tests of all modules with the race detector
	@export KUBEBUILDER_ASSETS=$(BIN); for module in $(MODULES); do echo "test: $$module"; \
	  (cd $$module && go test -race -count=1 -timeout 60m $$([[ $$module == dev ]] && echo -p=1) ./...); done

test-postgres: tools tools-postgres bin/convoy-race ## runs end-to-end tests on a Temporal server with PostgreSQL, which has to be installed; RUN="A|B" chooses others than the main ones
	cd dev && KUBEBUILDER_ASSETS=$(BIN) go test -race -count=1 -timeout 1h ./e2e -temporal=postgres -parallel=4 -run '$(RUN)'

bench: tools bin/convoy ## measures the budgets with N Releases of M ConfigMaps each; SUITE=clusters: with N Clusters, DEAD of them dead; SUITE=sources: with N Releases of one repository; SUITE=observe: with N observed Clusters of ten Releases; SUITE=render: renders, beside those of Helm and kustomize; ARGS="-json FILE" keeps the figures
	go build -C dev -o $(BIN)/bench ./bench && KUBEBUILDER_ASSETS=$(BIN) exec bin/bench -suite $(SUITE) $(N:%=-n %) $(M:%=-m %) $(DEAD:%=-dead %) $(ARGS)

chaos: tools bin/convoy-race ## disturbs ROUNDS rollouts by kills and outages, at points that SEED chooses, and prints what they survived; ONLY="kill -9": only those so called
	cd dev && KUBEBUILDER_ASSETS=$(BIN) go test -race -count=1 -v -timeout 1h ./e2e -run 'TestARolloutSurvivesWhateverHappensToIt' -chaos.seed=$(SEED) -chaos.rounds=$(ROUNDS) -chaos.only="$(ONLY)"

demo: tools bin/convoy ## shows the product at work and keeps running
	go build -C dev -o $(BIN)/demo ./demo && KUBEBUILDER_ASSETS=$(BIN) exec bin/demo

demo-once: tools bin/convoy ## shows the product at work, checks each step and ends
	go build -C dev -o $(BIN)/demo ./demo && KUBEBUILDER_ASSETS=$(BIN) exec bin/demo -once

build: bin/convoy ## builds bin/convoy

# go build itself knows whether there is anything to do.
bin/convoy: FORCE
	@CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/convoy

bin/convoy-race: FORCE
	@go build -race -ldflags '$(LDFLAGS)' -o $@ ./cmd/convoy

image: ## builds a container image into bin/convoy-image.tar
	CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags '-s -w $(LDFLAGS)' -o bin/convoy-linux ./cmd/convoy
	go run -C tools/image . -program $(BIN)/convoy-linux -tag convoy:$(VERSION) -output $(BIN)/convoy-image.tar

clean: ## removes what was built, but not the tools
	rm -f bin/{convoy,convoy-race,convoy-linux,convoy-image.tar,demo,bench}

clean-tools: ## removes the tools, which take long to build
	rm -f $(GO_TOOLS:%=bin/%) bin/{controlplane,etcd,kube-apiserver,kube-controller-manager,kube-scheduler,kubectl,kwok,temporal,temporal-server,temporal-sql}
