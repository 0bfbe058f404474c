# Builds and installs landstrip, and makes packages of it.
#
#   make                          the three programs, static, in release form
#   make install PREFIX=/usr/local DESTDIR=
#   make uninstall PREFIX=/usr/local DESTDIR=
#   make dist                     packages and their checksums, in target/dist
#   make dist MAINTAINER='Name <name@example.org>'
#   make dist TARGET=aarch64-unknown-linux-gnu
#
# Needs Cargo; for packages also GNU tar, gzip, dpkg-deb and npm; for another architecture its standard library
# (rustup target add) and its gcc, which links. Where Rust's standard library for musl is installed (rustup target
# add x86_64-unknown-linux-musl), the broker is linked with that, and a launch takes 0.2 ms less: the start of the GNU
# C library asks the processor dozens of times what it can do, which a virtual machine traps.
#
# make and not a program in Rust: all of this is calling other programs, and who makes packages knows PREFIX and
# DESTDIR. What is installed where is told by packaging/files.

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
TARGET ?= $(HOST)
ARCH := $(firstword $(subst -, ,$(TARGET)))
MUSL := $(ARCH)-unknown-linux-musl
# What the broker is built for. The launcher has no C library, and the proxy starts when it is needed.
BROKER := $(if $(wildcard $(shell rustc --print sysroot)/lib/rustlib/$(MUSL)),$(MUSL),$(TARGET))
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
export VERSION TARGET BROKER ARCH CARGO CARGO_HOME SOURCE_DATE_EPOCH MAINTAINER
export LC_ALL := C

build = $(CARGO) build --locked --release --target $(1) --target-dir target \
	--config "target.$(1).rustflags=[$(REMAP)]" \
	$(if $(filter-out $(ARCH)-%,$(HOST)),--config "target.$(1).linker='$(ARCH)-linux-gnu-gcc'")

all:
	$(call build,$(BROKER)) -p landstrip-broker
	$(call build,$(TARGET)) -p landstrip-proxy
	# By itself: see default-members in Cargo.toml.
	$(call build,$(TARGET)) -p landstrip
	# Not into the file that is there, which has another name among what Cargo keeps.
	test $(BROKER) = $(TARGET) || \
		cp --remove-destination target/$(BROKER)/release/landstrip-broker target/$(TARGET)/release
	packaging/licenses >target/$(TARGET)/release/licenses.txt

install: all
	packaging/install target/$(TARGET)/release '$(DESTDIR)$(PREFIX)'

uninstall:
	packaging/uninstall '$(DESTDIR)$(PREFIX)'

dist: all
	packaging/dist target/$(TARGET)/release '$(DIST)'

.PHONY: all install uninstall dist
