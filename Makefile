# SPDX-License-Identifier: GPL-2.0
# The commands of zernel: modules for a kernel, and a lab that builds and tests them in QEMU.

SHELL := /bin/bash
KVER ?=
KSRC ?=
NVIDIA_SRC ?=
KDIR ?= /lib/modules/$(shell uname -r)/build
DESTDIR ?=
PREFIX ?= /usr/local
# A KDIR that was given is also the kernel that the lab boots.
LAB_KDIR := $(if $(filter command line environment,$(origin KDIR)),$(KDIR))
export KVER KSRC LAB_KDIR

.DEFAULT_GOAL := modules
.PHONY: modules nvidia tools runtime wheel prefetch-wheel install install-runtime demo test check format bench mutants gputest shell setup kernels update clean distclean help

modules: ## build the modules against KDIR (default: the running kernel's build folder)
	@scripts/modules "$(KDIR)"

nvidia: ## build NVIDIA's driver with zernel's hooks, and zernel_nvidia.ko, for the lab's kernel
	@scripts/nvidia-all "$(NVIDIA_SRC)"

tools: ## build zernelctl, zernel-load, replay and the test programs
	@scripts/tools

runtime: setup ## build the runtime's libraries for C and C++ into build/lib
	@scripts/libzernel

wheel: setup ## build the Python package into build/wheel, and import it in a clean environment
	@scripts/wheel

prefetch-wheel: setup ## build the prefetcher's Python package into build/wheel
	@scripts/wheel prefetch-python

install: ## install the modules for KDIR's kernel; tools, runtime and headers below PREFIX
	@scripts/install "$(KDIR)" "$(DESTDIR)" "$(PREFIX)"

install-runtime: ## install tools, runtime and headers below PREFIX, without modules
	@scripts/install "" "$(DESTDIR)" "$(PREFIX)"

demo: ## boot a kernel in QEMU and show what zernel does for programs that share a GPU
	@scripts/demo

test: ## run every check and test; the last line is 'N passed, N failed'
	@scripts/test

check: ## formatting, lints, licences, ABI and documentation checks
	@scripts/check

format: ## put every Rust source into its format
	@scripts/format

bench: ## costs in guest instructions, the suite of workloads, NVIDIA's driver with hooks
	@scripts/bench

mutants: ## hours: what the tests catch of faults in the modules, and of mutants of policy and model
	@scripts/mutants

gputest: ## what the GPU of this machine does, as zernel needs it: twelve programs with verdicts
	@scripts/gputest

shell: ## a shell in QEMU with the modules loaded and the tools on PATH
	@scripts/shell

setup: ## install what the lab needs on this machine
	@scripts/setup

kernels: setup ## build the test kernels
	@scripts/kernel base
	@scripts/kernel debug
	@scripts/kernel rt

update: ## look for newer releases of the kernel and the driver at the next build
	@scripts/update

clean: ## remove what was built in this tree
	@scripts/clean

distclean: clean ## remove the cache of kernels and sources too; packages and cargo's cache stay
	@scripts/clean cache

help: ## this list
	@echo 'zernel: one GPU for latency-critical and best-effort work together'
	@echo
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1	\2/p' Makefile | expand -t 24
	@echo
	@echo 'Variables:'
	@echo '  KVER=7.3|7.2     kernel series of the lab (default: the newest that can be had)'
	@echo '  KSRC=DIR         own kernel source tree for the lab'
	@echo '  KDIR=DIR         kernel build folder for make, make install, make nvidia and the lab'
	@echo "  NVIDIA_SRC=DIR   source tree of NVIDIA's open driver (default: Debian's package)"
	@echo '  DESTDIR= PREFIX= where make install puts things (default PREFIX: /usr/local)'
