# SPDX-License-Identifier: GPL-2.0
# NVIDIA's driver finds out by some hundred compilations what a kernel has. The answers depend on
# the kernel and on the tests alone, so they are kept in the cache; to be sourced after lab.sh.
# shellcheck shell=bash

# conftest_cache TREE KDIR: where the answers are kept.
conftest_cache() {
	local key
	key=$({
		cat "$2/Module.symvers" "$2/.config" "$1/conftest.sh" "$1/Kbuild"
		toolchain_id
	} | sha256sum | cut -c1-12)
	echo "$CACHE/nvidia/conftest-$key"
}

# conftest_restore TREE KDIR: make takes what is newer than the tests as done.
conftest_restore() {
	local cache
	cache=$(conftest_cache "$1" "$2")
	if [ -d "$cache" ] && [ ! -e "$1/conftest" ]; then
		cp -a "$cache" "$1/conftest" || rm -rf "$1/conftest"
		touch -d 2000-01-01 "$1/conftest.sh"
	fi
}

# conftest_save TREE KDIR: keeps the answers unless there are more already; other modules of the
# driver ask for more of them.
conftest_save() {
	local cache partial
	cache=$(conftest_cache "$1" "$2")
	partial=$cache.partial.$$
	if [ "$(find "$cache" -type f 2>/dev/null | wc -l)" -ge "$(find "$1/conftest" -type f | wc -l)" ]; then
		return
	fi
	rm -rf "$partial"
	cp -a "$1/conftest" "$partial"
	rm -rf "$cache"
	mv -T "$partial" "$cache" 2>/dev/null || rm -rf "$partial"
}
