# SPDX-License-Identifier: GPL-2.0
# Shared by the scripts of the lab: messages, the cache layout and the toolchain; to be sourced.

# shellcheck disable=SC2034 # the variables are for the scripts that source this
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/zernel
SUPPORTED_SERIES=(7.3 7.2)
BINDGEN_VERSION=0.72.1
# The same as in tools/python/pyproject.toml and scripts/python/maturin.txt.
MATURIN_VERSION=1.16.0
MAKE_JOBS=${MAKE_JOBS:-$(nproc)}
# Where time is measured the software GPU sees stores to its words after this. A doorbell, which
# some of what is compared has and zernel's timer has not, makes it look at once.
WORD_POLL_US=5

say() { printf '==> %s\n' "$*" >&2; }
die() {
	printf 'zernel: %s\n' "$*" >&2
	exit 1
}

# discard PATH...: removes, read-only copies of sources too, whose folders only their mode protects.
discard() {
	local path
	for path in "$@"; do
		if [ -d "$path" ] && [ ! -L "$path" ]; then chmod -R u+w "$path"; fi
	done
	rm -rf "$@"
}

# prune FOLDER [PATTERN]: removes results that were not asked for in two weeks, each at once.
prune() {
	local old gone
	while IFS= read -r -d '' old; do
		gone=$old.gone-$$
		if mv -T "$old" "$gone" 2>/dev/null; then discard "$gone" || true; fi
	done < <(find "$1" -mindepth 1 -maxdepth 1 -name "${2:-*}" -mtime +14 -print0)
}

# Debian's toolchain alone, against any other in the user's PATH: kernel, modules and tools
# must come from the same rustc. /usr/sbin is where modprobe and friends are.
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin
export RUSTC=/usr/bin/rustc CARGO=/usr/bin/cargo LC_ALL=C
unset RUSTUP_TOOLCHAIN RUSTFLAGS MAKEFLAGS MFLAGS MAKEOVERRIDES ARCH CROSS_COMPILE LLVM CC

# bindgen on Debian 12 is built once per rustc, later Debians package a new enough one.
bindgen_root() {
	local rustc
	rustc=$("$RUSTC" --version | sha256sum | cut -c1-12)
	echo "$CACHE/tools/bindgen-$BINDGEN_VERSION-$rustc"
}

bindgen_path() {
	local own
	own=$(bindgen_root)/bin/bindgen
	if [ -x "$own" ]; then echo "$own"; else command -v bindgen || true; fi
}

libclang_path() {
	local dirs=(/usr/lib/llvm-*/lib)
	printf '%s\n' "${dirs[@]}" | sort -V | while read -r dir; do
		if compgen -G "$dir/libclang*.so*" >/dev/null; then echo "$dir"; fi
	done | tail -1
}

# The variables that every make line for a kernel or a module needs.
kernel_make_vars() {
	echo "RUSTC=$RUSTC"
	echo "RUSTFMT=/usr/bin/rustfmt"
	echo "CLIPPY_DRIVER=/usr/bin/clippy-driver"
	echo "BINDGEN=$(bindgen_path)"
	echo "HOSTRUSTC=$RUSTC"
	echo "RUST_LIB_SRC=$(rust_lib_src)"
}

rust_lib_src() {
	local dir
	for dir in "$("$RUSTC" --print sysroot)/lib/rustlib/src/rust/library" \
		/usr/lib/rustlib/src/rust/library /usr/share/cargo/registry/rust-src/library; do
		if [ -d "$dir" ]; then
			echo "$dir"
			return
		fi
	done
	dir=$(compgen -G '/usr/src/rustc-*/library' | sort -V | tail -1 || true)
	[ -n "$dir" ] || die "the source of Rust's core library is missing; run scripts/setup"
	echo "$dir"
}

toolchain_id() {
	"$RUSTC" --version --verbose
	gcc --version | head -1
	ld --version | head -1
	"$(bindgen_path)" --version
	libclang_path
}

# kernel_id KDIR: what tells two builds of a kernel apart for those who build against it.
kernel_id() {
	cat "$1/Module.symvers" "$1/.config" "$1/include/config/kernel.release"
	stat -L -c '%s %Y' "$1/vmlinux" 2>/dev/null || true
}

# wheels NAME: the packages that scripts/python/NAME.txt names with their hashes, and nothing else, in
# a folder of the cache, which is printed. They are downloaded once.
wheels() {
	local list=$ROOT/scripts/python/$1.txt folder work
	folder=$CACHE/wheels/$1-$({ python3 --version && cat "$list"; } | sha256sum | cut -c1-12)
	work=$folder.partial-$$
	if [ ! -d "$folder" ]; then
		mkdir -p "$CACHE/wheels" "$CACHE/tools"
		if ! python3 -m pip --disable-pip-version-check download --quiet --no-deps --only-binary :all: \
			--require-hashes --requirement "$list" --dest "$work" >"$CACHE/tools/wheels-$1.log" 2>&1; then
			discard "$work"
			say "the packages of scripts/python/$1.txt could not be had; see $CACHE/tools/wheels-$1.log"
			return 1
		fi
		mv -T "$work" "$folder" 2>/dev/null || discard "$work"
	fi
	echo "$folder"
}

# environment FOLDER NAME: a virtual environment with those packages, which are checked again.
environment() {
	local from
	from=$(wheels "$2") || return 1
	python3 -m venv "$1" && "$1/bin/pip" --quiet --disable-pip-version-check install --no-index \
		--no-deps --require-hashes --find-links "$from" --requirement "$ROOT/scripts/python/$2.txt" >&2
}

# on_tools PROGRAM SUBCOMMAND [ARGUMENT...]: runs cargo, or what calls it, on the tools. It builds in
# the cache, and from a copy there in which only files that differ are written: what was compiled
# for one checkout is not compiled again for the next. While it runs, others may use the copy, but
# not change it. Sets tools_target to where the results are.
on_tools() {
	local program=$1 subcommand=$2
	shift 2
	share_tools || return 1
	LIBCLANG_PATH=$(libclang_path) "$program" "$subcommand" --target-dir "$tools_target" --locked \
		--manifest-path "$tools_target/workspace/tools/Cargo.toml" "$@"
}

# Sets tools_target, makes the copy, and keeps others from changing it until this script ends.
share_tools() {
	local key
	[ -x "$CARGO" ] || die "$CARGO is missing; run scripts/setup"
	[ -f "$ROOT/tools/Cargo.toml" ] || die "tools/Cargo.toml is missing; check out the whole repository"
	key=$({
		"$RUSTC" --version --verbose
		cat "$ROOT/tools/Cargo.lock"
	} | sha256sum | cut -c1-12)
	tools_target=$CACHE/cargo-$key
	lock_tools || {
		say "the sources of the tools could not be copied to $tools_target"
		return 1
	}
}

# Makes the copy and shares it. Another checkout can change it between the two locks.
lock_tools() {
	local differing
	mkdir -p "$tools_target/workspace" && exec 5>"$tools_target/.zernel-lock" && flock -s 5 || return 1
	while differing=$(copy_tools --dry-run --itemize-changes) || return 1; [ -n "$differing" ]; do
		flock 5 && copy_tools && flock -s 5 || return 1
	done
}

copy_tools() {
	(cd "$ROOT" && rsync -rlc --delete --exclude /tools/target "$@" tools rust include \
		README.md Documentation "$tools_target/workspace")
}

# The kernel that the lab boots: the one given with KDIR=, or the lab's own.
lab_kernel() {
	if [ -n "${LAB_KDIR:-}" ]; then realpath -m "$LAB_KDIR"; else "$ROOT/scripts/kernel" "$1"; fi
}

# Modules and tools of every guest with zernel, as arguments for scripts/vm.
guest_arguments() {
	local kdir=$1 modules=$2 tools=$3 path
	echo "--kernel"
	echo "$kdir"
	for path in "$modules"/*.ko; do
		echo "--add"
		echo "$path:/lib/modules/zernel/"
	done
	for path in "$tools"/*; do
		if [ -f "$path" ] && [ -x "$path" ]; then
			echo "--add"
			echo "$path:/zernel/bin/"
		fi
	done
}
