# SPDX-License-Identifier: GPL-2.0
# The state before install changed anything, kept on disk, so that a failure, an interruption or a
# crash can be undone; to be sourced after common.sh. Nothing has to be built to undo: the modules
# themselves are kept.
# shellcheck shell=bash

SAVED=$STATE/saved

# save KERNEL WORD...: keeps the driver of the kernel, zernel, the override and the library. The
# copy counts when it has its name, which it gets last.
save() {
	local new=$SAVED.new kernel=$1 dir
	rm -rf "$new"
	mkdir -p "$new/sources"
	printf '%s\n' "$driver" "$driver_version" "$@" >"$new/names"
	installed "$driver" "$kernel" >"$new/driver-installed"
	installed zernel >"$new/zernel-installed"
	keep "$TREE/$driver/$driver_version/$kernel" "$new/built"
	keep "$TREE/zernel" "$new/tree"
	keep "$SYMVERS/$kernel" "$new/symvers"
	keep "$LIBRARY" "$new/library"
	keep "$override" "$new/override"
	for dir in "$SOURCES"/zernel-*; do
		if is_ours "$dir"; then cp -a "$dir" "$new/sources/"; fi
	done
	sync -f "$new"
	mv -T "$new" "$SAVED"
}

# keep FROM TO: a copy of what may not be there.
keep() { [ ! -e "$1" ] || cp -a "$1" "$2"; }

# put_back FROM TO: TO becomes FROM, or nothing.
put_back() {
	rm -rf "$2"
	[ -e "$1" ] || return 0
	mkdir -p "$(dirname "$2")"
	cp -a "$1" "$2"
}

# Puts everything back; the copy goes only if all of it could be.
restore() {
	local names kernel failed=0
	mapfile -t names <"$SAVED/names"
	driver=${names[0]} driver_version=${names[1]} kernel=${names[2]}
	override=$CONFIGURATION/$driver.conf
	put_back "$SAVED/library" "$LIBRARY" || failed=1
	put_back "$SAVED/override" "$override" || failed=1
	restore_zernel || failed=1
	restore_driver "$kernel" "${names[@]:3}" || failed=1
	put_back "$SAVED/symvers" "$SYMVERS/$kernel" || failed=1
	[ "$failed" = 0 ] || return 1
	rm -rf "$SAVED"
}

restore_zernel() {
	local version kernel failed=0
	forget_zernel
	cp -a "$SAVED/sources/." "$SOURCES/" || failed=1
	[ -d "$SAVED/tree" ] || return "$failed"
	put_back "$SAVED/tree" "$TREE/zernel" || return 1
	# These links tell DKMS what is installed, which is to come.
	find "$TREE/zernel" -maxdepth 1 -type l -delete
	while read -r version kernel; do
		dkms install --force -m zernel -v "$version" -k "$kernel" >&2 || failed=1
	done <"$SAVED/zernel-installed"
	return "$failed"
}

restore_driver() {
	local kernel=$1 version failed=0
	shift
	unbuild "$kernel" "$@"
	put_back "$SAVED/built" "$TREE/$driver/$driver_version/$kernel" || return 1
	while read -r version _; do
		dkms install --force -m "$driver" -v "$version" -k "$kernel" "$@" >&2 || failed=1
	done <"$SAVED/driver-installed"
	return "$failed"
}

# After an install that was killed; does nothing otherwise.
restore_leftovers() {
	rm -rf "$SAVED.new"
	[ -d "$SAVED" ] || return 0
	say "an earlier install was stopped in the middle; putting back what was there"
	restore || die "not everything could be put back; see above. The copies are under $SAVED"
}
