# make demo    the main job on a real image, shown (fresh Debian machine: installs what is missing; needs root)
# make test    every test, and the check that nothing was left behind (needs root)
# make torture the long campaigns: crowds, kills, power cuts, fuzz targets (tests/torture has the variables)
# make test-vm the suite in an emulated machine with cgroup v2 and every privilege; FILTER="module:: ..."
# make test-clients clients of other makers at busy processors: output that they lose, and 20 times their tests
# make test-versions the version before and this one on the same roots
# make test-oci the validation programs of the OCI runtime tools (a Go module) over the launch path
# make attacks every defence switched off in turn: its test must turn red (WALLS="name ..." for some)
# make bench   the table beside crun, runc and dockerd (needs root); BENCH=--quick: fewer rounds
# make guide   the guide (docs/guide) as a book in target/guide; installs mdbook into target/tools where it is missing
# make lint    formatting, clippy, shell scripts
# make install PREFIX=/usr/local DESTDIR=    the libraries, the header, coracle.pc and the command

CARGO ?= cargo
BENCH ?=
PREFIX ?= /usr/local
DESTDIR ?=
RELEASE = target/release
PROFILE ?= release

FILTER ?=
WALLS ?=

.PHONY: all demo test torture test-vm test-clients test-versions test-oci attacks bench guide lint install install-cli clean

all:
	$(CARGO) build --release --workspace

demo:
	tools/setup demo
	$(CARGO) build --release -p coracle-cli
	tools/demo $(RELEASE)/coracle

test:
	tools/setup test
	tests/run

torture:
	tools/setup test
	tests/torture

test-vm:
	tools/setup vm
	tests/vm/run $(FILTER)

test-clients:
	tools/setup test
	tests/clients/run

test-versions:
	tools/setup test
	tests/versions

test-oci:
	tools/setup oci
	tests/oci/run

attacks:
	tools/setup test
	tests/attacks/run $(WALLS)

bench:
	tools/setup bench
	ffi/dist
	bench/run $(BENCH)

guide:
	tools/guide

lint:
	tests/run lint

install: install-cli

install-cli:
	$(CARGO) build --profile $(PROFILE) -p coracle-cli
	install -D -m 755 target/$(PROFILE:dev=debug)/coracle $(DESTDIR)$(PREFIX)/bin/coracle

clean:
	$(CARGO) clean

-include ffi/dist.mk
