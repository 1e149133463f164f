# SPDX-License-Identifier: GPL-2.0
# Shared by install and remove: places of files, and the state of DKMS; to be
# sourced.
#
# With ZERNEL_DESTDIR everything is below that folder, and the commands in its bin/ come first: so
# the tests run it.

# shellcheck disable=SC2034 # the variables are for the scripts that source this
set -euo pipefail
DESTDIR=${ZERNEL_DESTDIR:-}
export PATH=${DESTDIR:+$DESTDIR/bin:}/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
umask 022

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATCH=$(dirname "$HERE")
REPOSITORY=$(dirname "$PATCH")
LIBRARY=$DESTDIR/usr/local/lib/zernel/nvidia-patch
STATE=$DESTDIR/var/lib/zernel
SYMVERS=$STATE/nvidia
CONFIGURATION=$DESTDIR/etc/dkms
SOURCES=$DESTDIR/usr/src
TREE=$DESTDIR/var/lib/dkms
MODULES=$DESTDIR/lib/modules
LOG=$DESTDIR/var/log/zernel-dkms.log
BEGIN='# zernel: begin'
END='# zernel: end'

say() { printf '==> %s\n' "$*" >&2; }
die() {
	printf 'zernel: %s\n' "$*" >&2
	exit 1
}

# Root, and nobody else at the same time.
check_host() {
	[ -n "$DESTDIR" ] || [ "$(id -u)" = 0 ] || die "only root may change DKMS; run this with sudo"
	mkdir -p "$STATE"
	exec 9>"$STATE/lock"
	flock -n 9 || die "another install or remove is under way; wait for its end"
}

# word_of FILE NAME: a word of a dkms.conf.
word_of() { sed -nE "s/^$2=[\"']?([^\"']*)[\"']?\$/\1/p" "$1" | head -1; }

# The newest source of NVIDIA's driver that DKMS knows. Its name is nvidia-current-open on Debian
# and nvidia on Ubuntu.
find_driver() {
	local dir
	dir=$(for dir in "$SOURCES"/nvidia*/; do
		if [ -f "$dir/dkms.conf" ] && [ -f "$dir/nvidia/nv.c" ]; then echo "${dir%/}"; fi
	done | sort -V | tail -1)
	[ -n "$dir" ] || die "there is no source of NVIDIA's open driver for DKMS under $SOURCES; \
install nvidia-open-kernel-dkms (Debian) or nvidia-dkms-NNN-open (Ubuntu)"
	driver_source=$dir
	driver=$(word_of "$dir/dkms.conf" PACKAGE_NAME)
	driver_version=$(word_of "$dir/dkms.conf" PACKAGE_VERSION)
	[ -n "$driver" ] && [ -n "$driver_version" ] ||
		die "$dir/dkms.conf names no package and version; install the driver's package again"
	override=$CONFIGURATION/$driver.conf
}

has_override() { grep -qsxF "$BEGIN" "$1"; }

# The lines of others in an override, each with its end.
foreign_lines() { sed -e "/^$BEGIN\$/,/^$END\$/d" -e "\$a\\" "$1"; }

# write_override hooked|compat: our lines behind those of others; DKMS never sees half of them.
write_override() {
	mkdir -p "$CONFIGURATION"
	{
		if [ -e "$override" ]; then foreign_lines "$override"; fi
		sed -e "s,@LIBRARY@,$LIBRARY,g" -e "s,@MODE@,$1,g" -e "s,@MODULES@,$MODULES,g" \
			"$HERE/override.conf"
	} >"$override.zernel-new"
	mv "$override.zernel-new" "$override"
}

# drop_override FILE: takes our lines out; other lines stay.
drop_override() {
	has_override "$1" || return 0
	foreign_lines "$1" >"$1.zernel-new"
	if [ -s "$1.zernel-new" ]; then
		mv "$1.zernel-new" "$1"
	else
		rm -f "$1.zernel-new" "$1"
	fi
}

# The driver's module that DKMS built for a kernel, unpacked, on standard output.
built_module() {
	local files file
	mapfile -t files < <(find "$TREE/$driver/$driver_version/$1" -path '*/module/*' \
		\( -name "$driver.ko*" -o -name 'nvidia.ko*' \) 2>/dev/null)
	file=${files[0]:-}
	case $file in
	*.xz) xz -dc "$file" ;;
	*.zst) zstd -qdc "$file" ;;
	*.gz) gzip -dc "$file" ;;
	*.ko) cat "$file" ;;
	esac
}

# All of the module is read: a grep that stops at the first match would break the pipe, and with
# pipefail that is a failure.
has_hooks() { [ "$(built_module "$1" | grep -ac nv_zernel_register || true)" != 0 ]; }

# driver_dkms ACTION KERNEL WORD...
driver_dkms() {
	local action=$1 kernel=$2
	shift 2
	dkms "$action" -m "$driver" -v "$driver_version" -k "$kernel" "$@" >&2
}

# keep_log FILE: the log of a failed build, which DKMS removes at the next one.
keep_log() {
	[ -s "$1" ] || return 0
	mkdir -p "$(dirname "$LOG")"
	cp "$1" "$LOG"
	say "the build failed; the end of its log, which is kept as $LOG:"
	tail -n 20 "$LOG" >&2
}

# rebuild KERNEL WORD...: the driver anew, and installed; the words go to dkms.
rebuild() {
	local kernel=$1
	shift
	say "building $driver $driver_version for $kernel, some minutes (log: \
$TREE/$driver/$driver_version/build/make.log)"
	unbuild "$kernel" "$@"
	if ! driver_dkms build "$kernel" "$@"; then
		keep_log "$TREE/$driver/$driver_version/build/make.log"
		return 1
	fi
	driver_dkms install "$kernel" --force "$@"
}

# Removes the builds of a kernel from DKMS, which leaves incomplete ones and then refuses to build.
unbuild() {
	[ -d "$TREE/$driver/$driver_version/$1" ] || return 0
	driver_dkms unbuild "$@" || true
	rm -rf "${TREE:?}/$driver/$driver_version/$1"
}

# installed NAME [KERNEL]: `VERSION KERNEL` of each installation of a package by DKMS.
installed() {
	{ dkms status -m "$1" ${2:+-k "$2"} || true; } |
		sed -nE "s|^$1[/,] *([^,]+), *([^,]+), *[^:,]+: *installed.*|\1 \2|p"
}

# True for a folder of sources that install made, and not for a checkout of somebody's.
is_ours() {
	[ ! -L "$1" ] && [ "$(word_of "$1/dkms.conf" PACKAGE_NAME 2>/dev/null)" = zernel ] &&
		grep -qs nvidia-patch/dkms/modules "$1/dkms.conf"
}

# Takes every zernel of ours out of DKMS.
forget_zernel() {
	local dir version
	for dir in "$SOURCES"/zernel-*; do
		is_ours "$dir" || continue
		version=${dir##*/zernel-}
		dkms remove -m zernel -v "$version" --all >/dev/null 2>&1 || true
		rm -rf "$dir" "${TREE:?}/zernel/$version"
	done
	# A module that DKMS knows although its source is gone cannot be added again.
	for dir in "$TREE"/zernel/*/; do
		if [ -L "${dir}source" ] && [ ! -e "${dir}source" ]; then rm -rf "$dir"; fi
	done
}
