# The C ABI: libraries, header, installation. Included by the Makefile at the top, from where it runs.
#
# make libcoracle      the shipped libraries, in target/dist/
# make header          include/coracle.h and coracle.ffi.h, include/schema, docs/reference and ffi/coracle.map from the source
# make header-check    whether all are current, and CHANGELOG.md mentions each change since tests/abi/baseline
# make header-baseline tests/abi/baseline from the source, with a release: symbols, layouts, numbers, declarations
# make symbols-check   whether the libraries give out what the header says and nothing else
# make install-lib PREFIX=/usr/local DESTDIR=   headers of C and C++, CMake package, schemas, libraries, coracle.pc, manual pages (part of make install)
#
# PROFILE=dev DIST=DIR makes them of a development build in another directory.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
DIST ?= $(OUTPUT)/dist
PROFILE ?= release
LIBDIR = $(DESTDIR)$(PREFIX)/lib

.PHONY: libcoracle header header-check header-baseline symbols-check install-lib

libcoracle:
	PROFILE=$(PROFILE) TARGET=$(TARGET) OUT=$(DIST) ffi/dist

header:
	$(CARGO) run -q -p coracle-header

header-check:
	$(CARGO) run -q -p coracle-header -- --check

header-baseline:
	$(CARGO) run -q -p coracle-header -- --baseline

symbols-check: libcoracle
	ffi/check-symbols $(DIST)

install: install-lib

install-lib: libcoracle
	install -d $(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 644 include/coracle.h include/coracle.ffi.h bindings/cpp/include/coracle.hpp $(DESTDIR)$(PREFIX)/include/
	install -d $(LIBDIR)/cmake/Coracle
	install -m 644 bindings/cpp/cmake/CoracleConfig.cmake $(LIBDIR)/cmake/Coracle/
	sed -e "s|@VERSION@|$$(sed -n 's/^Version: //p' $(DIST)/coracle.pc.in)|" bindings/cpp/cmake/CoracleConfigVersion.cmake.in \
	  >$(LIBDIR)/cmake/Coracle/CoracleConfigVersion.cmake
	install -d $(DESTDIR)$(PREFIX)/share/coracle/schema
	install -m 644 include/schema/*.json $(DESTDIR)$(PREFIX)/share/coracle/schema/
	env -u CARGO_BUILD_TARGET $(CARGO) run -q -p coracle-header -- --man $(abspath $(DESTDIR)$(PREFIX)/share/man/man3) >/dev/null
	install -m 644 $(DIST)/libcoracle.a $(LIBDIR)/
	cp -P --no-preserve=ownership $(DIST)/libcoracle.so $(DIST)/libcoracle.so.* $(LIBDIR)/
	sed -e 's|@PREFIX@|$(PREFIX)|' $(DIST)/coracle.pc.in >$(LIBDIR)/pkgconfig/coracle.pc
