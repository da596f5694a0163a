# make demo and make test are the two to begin with; make help lists the rest.

# For Docker in the tests; see CONTRIBUTING.md. Set them to override.
export TESTCONTAINERS_HOST_OVERRIDE ?= 127.0.0.1
export TESTCONTAINERS_RYUK_DISABLED ?= true

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

.PHONY: build
build: ## build bin/walletarchive
	go build -trimpath -o bin/walletarchive ./cmd/walletarchive

.PHONY: demo
demo: build ## the whole loop on a private server, in a minute
	scripts/demo.sh bin/walletarchive

.PHONY: test
test: ## install what is missing (root, Debian) and run all tests on MySQL and MariaDB
	scripts/test.sh

.PHONY: integration
integration: ## as test, but a server that is missing is a failure
	WALLETARCHIVE_TEST_REQUIRE=mysql,mariadb scripts/test.sh

.PHONY: fmt
fmt: ## fail when gofmt would change a file
	@files=$$(gofmt -l .); if [ -n "$$files" ]; then echo "gofmt would change:"; echo "$$files"; exit 1; fi

.PHONY: vet
vet: ## go vet
	go vet ./...

.PHONY: lint
lint: ## golangci-lint, where it is installed
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "golangci-lint is not installed: skipped"; fi

.PHONY: check
check: fmt vet lint test ## what a commit has to pass

.PHONY: golden
golden: ## rebuild testdata/ and fail when that changes it
	scripts/gen-testdata.sh
	git diff --exit-code -- testdata
	@new=$$(git status --porcelain -- testdata); if [ -n "$$new" ]; then echo "not committed:"; echo "$$new"; exit 1; fi

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZTIME (30s)
	scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: build ## measure against other tools and write docs/BENCHMARKS.md
	scripts/bench.sh
