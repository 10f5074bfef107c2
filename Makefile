# make demo    a build, a network, a push and a pull, and a container's life, shown (fresh Debian machine: installs what is missing; needs root)
# make test    every test, and the check that nothing was left behind (needs root)
# make test-one NAME=lifecycle::a_container    the tests of the suite and of the attacks with that in their names (needs root)
# make torture the long campaigns: crowds, kills, power cuts, fuzz targets (tests/torture has the variables)
# make test-vm the suite in an emulated machine with cgroup v2 and every privilege; FILTER="module:: ...", VM_KERNEL=5.10 or 6.1
# make test-floor the suite without mount_setattr(2), as on the oldest kernel that is supported; FILTER="module:: ..."
# make test-clients clients of other makers at busy processors: output that they lose, and 20 times their tests
# make test-receivers the log drivers at real receivers (part of make test, too), with what they measured, each killed CORACLE_FAULTS times (50)
# make test-swarm    swarm mode, its program killed CORACLE_FAULTS times (200)
# make test-plugins plugins of every kind, also public ones, beside dockerd's answers, and programs killed while they change one
# make test-tools the tools of today (docs/tools.md), each installed and run: a life, exec, logs, build, prunes
# make torture-node   Node's own tests with 10,000 lives of containers in the test of leaks
# make torture-dotnet the same of .NET and Mono
# make torture-java   Java's own tests with 10,000 lives of containers in the test of leaks
# make swarm          coracle-swarm, the program of swarm mode, in target/swarm (docs/swarm.md)
# make test-contract the suites of API 1.18 to 1.24 against a server that has no later versions (--api-max 1.24)
# make crates         packages every crate of the workspace, without the network (the packages are not built from their archives)
# make test-bindings  the scenarios of all bindings by each language, with the table of the functions that each one called; their own tests
# make test-versions the version before and this one on the same roots
# make test-buildkit the build files of tests/oracle/buildkit through buildkitd and through Coracle
# make test-oci the validation programs of the OCI runtime tools (a Go module) over the launch path
# make attacks every defence switched off in turn: its test must turn red (WALLS="name ..." for some)
# make bench   the table beside crun, runc and dockerd (needs root); BENCH=--quick: fewer rounds
# make guide   the guide (docs/guide), with the pages of docs/ that it links to, as a book in target/guide; installs mdbook into target/tools if it is missing
# make packages  archives, .deb, .rpm, the Python wheel and the NuGet package for x86_64 in target/packages/out, and their tests (packaging/README.md)
# make lint    formatting, clippy, shell scripts
# make install PREFIX=/usr/local DESTDIR=    the libraries, the header, coracle.pc, the command, its manual pages and completions
#
# TARGET=aarch64-unknown-linux-gnu (or CARGO_BUILD_TARGET) builds for another machine; LD, CC, OBJCOPY, STRIP and AR name its tools.

CARGO ?= cargo
BENCH ?=
PREFIX ?= /usr/local
DESTDIR ?=
PROFILE ?= release
TARGET ?= $(CARGO_BUILD_TARGET)
FOR_TARGET = $(if $(TARGET),--target $(TARGET))
# Where the build of that machine is: asked when a recipe runs, for cargo's configuration may name another directory.
OUTPUT = $(shell $(if $(CARGO_TARGET_DIR),CARGO_TARGET_DIR='$(CARGO_TARGET_DIR)') tools/target-dir)$(if $(TARGET),/$(TARGET))
COMMAND = $(OUTPUT)/$(PROFILE:dev=debug)/coracle
# The command that writes pages and scripts: it runs on this machine.
HERE = $(if $(TARGET),env -u CARGO_BUILD_TARGET $(CARGO) run -q -p coracle-cli --,$(COMMAND))
SHARE = $(DESTDIR)$(PREFIX)/share

FILTER ?=
NAME ?=
WALLS ?=

.PHONY: all swarm demo test test-one torture test-vm test-floor test-clients test-receivers test-plugins test-swarm test-tools test-contract test-bindings crates torture-node packages torture-java torture-dotnet test-versions test-oci test-buildkit attacks bench guide lint install install-cli clean

all:
	$(CARGO) build --release --workspace

swarm:
	tools/setup swarm
	$(CARGO) build --release -p coracle-ffi
	swarm/build target/release target/swarm/coracle-swarm

demo:
	tools/setup demo
	$(CARGO) build --profile $(PROFILE) $(FOR_TARGET) -p coracle-cli
	tools/demo $(COMMAND)

test:
	tools/setup test
	tests/run

test-one:
	tests/run one '$(NAME)'

torture:
	tools/setup test
	tests/torture

test-vm:
	tools/setup vm
	tests/vm/run $(FILTER)

test-floor:
	tools/setup test
	tests/floor $(or $(FILTER),all)

test-clients:
	tools/setup test
	tests/clients/run

test-receivers:
	tools/setup receivers
	CORACLE_FAULTS=$${CORACLE_FAULTS:-50} $(CARGO) test -p coracle-ship --features tls --test receivers -- --nocapture

test-swarm:
	tools/setup test
	$(CARGO) build --workspace
	CORACLE_FAULTS=$${CORACLE_FAULTS:-200} $(CARGO) test --test suite swarm::

test-plugins:
	tools/setup plugins
	$(CARGO) build -p coracle-cli
	CORACLE_TORTURE=1 $(CARGO) test --test suite -- --include-ignored authorization:: network_plugin:: volume_plugin:: log_plugin:: managed_plugin:: public_plugin::

test-tools:
	tools/setup test
	tests/tools/run

test-contract:
	tools/setup test
	$(CARGO) build -p coracle-cli
	CORACLE_API_MAX=1.24 $(CARGO) test --test suite -- docker_cli:: docker_files:: clients:: specification:: oracle:: oracle_build:: oracle_events:: oracle_networks:: oracle_refusals:: --skip network_clients::

crates:
	$(CARGO) package --workspace --offline --no-verify

test-bindings:
	tools/setup bindings
	bindings/scenarios/all

torture-node:
	tools/setup bindings
	CORACLE_LIVES=10000 bindings/node/tests/run.sh

torture-java:
	tools/setup bindings
	CORACLE_LIVES=10000 bindings/java/tests/run.sh

torture-dotnet:
	tools/setup bindings
	CORACLE_LIVES=10000 bindings/dotnet/tests/run.sh

test-versions:
	tools/setup test
	tests/versions

test-oci:
	tools/setup oci
	tests/oci/run

test-buildkit:
	tools/setup buildkit
	tests/oracle/buildkit/run

attacks:
	tools/setup test
	tests/attacks/run $(WALLS)

bench:
	tools/setup bench
	ffi/dist
	bench/run $(BENCH)

guide:
	tools/guide

packages:
	tools/setup packages
	packaging/run
	packaging/test

lint:
	tests/run lint

install: install-cli

install-cli:
	$(CARGO) build --profile $(PROFILE) $(FOR_TARGET) -p coracle-cli
	install -D -m 755 $(COMMAND) $(DESTDIR)$(PREFIX)/bin/coracle
	install -d $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(HERE) manual $(SHARE)/man/man1
	$(HERE) completion bash >$(SHARE)/bash-completion/completions/coracle
	$(HERE) completion zsh >$(SHARE)/zsh/site-functions/_coracle
	$(HERE) completion fish >$(SHARE)/fish/vendor_completions.d/coracle.fish

clean:
	$(CARGO) clean

-include ffi/dist.mk
