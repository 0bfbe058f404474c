# Builds and installs landstrip, and makes packages of it.
#
#   make                          the three programs, static, in release form
#   make install PREFIX=/usr/local DESTDIR=
#   make uninstall PREFIX=/usr/local DESTDIR=
#   make dist                     packages and their checksums, in target/dist
#   make dist MAINTAINER='Name <name@example.org>'
#   make dist TARGET=aarch64-unknown-linux-gnu
#   make docs                     checks the links of the documents, draws their pictures, and makes a book of them in
#                                 target/book (with mdBook: cargo install mdbook)
#   make TARGET=x86_64-unknown-linux-gnu    with the GNU C library, where musl is there too
#
# Needs Cargo; for packages also GNU tar, gzip, dpkg-deb, npm and Python 3; for another architecture its standard library
# (rustup target add) and its gcc, which links.
#
# make and not a program in Rust: all of this is calling other programs, and who makes packages knows PREFIX and
# DESTDIR. What is installed where is told by packaging/files.

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
# The C library of the programs: musl, with which a launch takes some 0.5 ms less, where Rust has it for that.
MUSL := $(subst -gnu,-musl,$(HOST))
HAS_MUSL := $(wildcard $(shell rustc --print target-libdir --target $(MUSL) 2>/dev/null)/libstd-*.rlib)
TARGET ?= $(if $(HAS_MUSL),$(MUSL),$(HOST))
ARCH := $(firstword $(subst -, ,$(TARGET)))
PREFIX ?= /usr/local
DIST ?= target/dist
CARGO ?= cargo
CARGO_HOME ?= $(HOME)/.cargo

# The same commit gives the same bytes, whenever and wherever it is built.
SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),1700000000)
REMAP := '--remap-path-prefix=$(CURDIR)=/landstrip', '--remap-path-prefix=$(CARGO_HOME)=/cargo', \
	'--remap-path-prefix=$(shell rustc --print sysroot)=/rust'
# Who makes a package answers for it.
MAINTAINER ?= $(or $(shell git log -1 --format='%an <%ae>' 2>/dev/null),The authors of landstrip <root@localhost>)
export VERSION TARGET ARCH CARGO CARGO_HOME SOURCE_DATE_EPOCH MAINTAINER
export LC_ALL := C

OPTIONS := --locked --release --target $(TARGET) --target-dir target --config "target.$(TARGET).rustflags=[$(REMAP)]"
ifneq ($(ARCH),$(firstword $(subst -, ,$(HOST))))
OPTIONS += --config "target.$(TARGET).linker='$(ARCH)-linux-gnu-gcc'"
endif

all:
	@echo 'building for $(TARGET)$(if $(findstring -gnu,$(TARGET)),: launches are faster with musl (rustup target add $(MUSL)))'
	$(CARGO) build $(OPTIONS) -p landstrip-broker -p landstrip-proxy
	# By itself: see default-members in Cargo.toml. It has no C library; Rust brings start-up files for musl.
	$(CARGO) rustc $(OPTIONS) -p landstrip $(if $(findstring -musl,$(TARGET)),-- -Clink-self-contained=no)
	packaging/licenses >target/$(TARGET)/release/licenses.txt

install: all
	packaging/install target/$(TARGET)/release '$(DESTDIR)$(PREFIX)'

uninstall:
	packaging/uninstall '$(DESTDIR)$(PREFIX)'

dist: all
	packaging/dist target/$(TARGET)/release '$(DIST)'

docs: all
	docs/check-links
	PATH="$(CURDIR)/target/$(TARGET)/release:$$PATH" docs/draw-session README.md >docs/session.svg
	for table in session launch programs; do \
		docs/plot-benchmark $$table tests/benches/agent.txt >docs/benchmark-$$table.svg || exit; done
	docs/build-book target/book

.PHONY: all install uninstall dist docs
