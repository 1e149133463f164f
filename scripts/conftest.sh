# SPDX-License-Identifier: GPL-2.0
# NVIDIA's driver finds out by some hundred compilations what a kernel has. The answers depend on
# the kernel and on the tests alone, so they are kept in the cache; to be sourced after lab.sh.
# shellcheck shell=bash

# conftest_cache TREE KDIR: where the answers are kept.
conftest_cache() {
	local key
	key=$({
		kernel_id "$2"
		cat "$1/conftest.sh" "$1/Kbuild"
		toolchain_id
	} | sha256sum | cut -c1-12)
	echo "$CACHE/nvidia/conftest-$key"
}

# conftest_restore TREE KDIR: make takes what is newer than the tests as done. What a build that was
# stopped has left is not trusted, and neither is what this leaves if it is interrupted.
conftest_restore() (
	cache=$(conftest_cache "$1" "$2")
	exec 5>>"$CACHE/nvidia/conftest.lock"
	flock -s 5
	discard "$1/conftest"
	if [ -d "$cache" ]; then
		cp -a "$cache" "$1/conftest" || discard "$1/conftest"
		touch -d 2000-01-01 "$1/conftest.sh"
		# The lists are put together again: another module has more in them, and make does not
		# miss a part of a list that is there.
		rm -f "$1"/conftest/{functions,generic,macros,symbols,types}.h
	fi
)

# conftest_save TREE KDIR: keeps the answers unless there are more already; other modules of the
# driver ask for more of them. To be called after a build that succeeded: an answer is wrong where
# a compilation was stopped.
conftest_save() (
	cache=$(conftest_cache "$1" "$2")
	exec 5>>"$CACHE/nvidia/conftest.lock"
	flock 5
	if [ "$(find "$cache" -type f 2>/dev/null | wc -l)" -ge "$(find "$1/conftest" -type f | wc -l)" ]; then
		return
	fi
	discard "$cache.partial"
	if cp -a "$1/conftest" "$cache.partial"; then
		discard "$cache"
		mv -T "$cache.partial" "$cache"
	else
		discard "$cache.partial"
	fi
)
