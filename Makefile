# make demo    the main job on a real image, shown (fresh Debian machine: installs what is missing; needs root)
# make test    every test, and the check that nothing was left behind (needs root)
# make bench   the table beside crun, runc and dockerd (needs root); BENCH=--quick: fewer rounds
# make lint    formatting, clippy, shell scripts
# make install PREFIX=/usr/local DESTDIR=    the libraries, the header, coracle.pc and the command

CARGO ?= cargo
BENCH ?=
PREFIX ?= /usr/local
DESTDIR ?=
RELEASE = target/release
PROFILE ?= release

.PHONY: all demo test bench lint install install-cli clean

all:
	$(CARGO) build --release --workspace

demo:
	tools/setup demo
	$(CARGO) build --release -p coracle-cli
	tools/demo $(RELEASE)/coracle

test:
	tools/setup test
	tests/run

bench:
	tools/setup bench
	ffi/dist
	bench/run $(BENCH)

lint:
	tests/run lint

install: install-cli

install-cli:
	$(CARGO) build --profile $(PROFILE) -p coracle-cli
	install -D -m 755 target/$(PROFILE:dev=debug)/coracle $(DESTDIR)$(PREFIX)/bin/coracle

clean:
	$(CARGO) clean

-include ffi/dist.mk
