# SPDX-License-Identifier: GPL-2.0
# Shared by install and remove: where things go, and what DKMS has; to be sourced.

# shellcheck disable=SC2034 # the variables are for the scripts that source this
set -euo pipefail
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATCH=$(dirname "$HERE")
REPOSITORY=$(dirname "$PATCH")
LIBRARY=/usr/local/lib/zernel/nvidia-patch
SYMVERS=/var/lib/zernel/nvidia
CONFIGURATION=/etc/dkms
SOURCES=/usr/src
TREE=/var/lib/dkms
BEGIN='# zernel: begin'
END='# zernel: end'

say() { printf '==> %s\n' "$*" >&2; }
die() {
	printf 'zernel: %s\n' "$*" >&2
	exit 1
}

check_host() {
	[ "$(id -u)" = 0 ] || die "only root may change DKMS; run this with sudo"
	command -v dkms >/dev/null || die "dkms is missing; install the distribution's driver with \
DKMS first: nvidia-open-kernel-dkms on Debian, nvidia-dkms-NNN-open on Ubuntu"
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

has_override() { grep -qsxF "$BEGIN" "$override"; }

# Takes our lines out of the override; what others wrote there stays.
drop_override() {
	has_override || return 0
	sed "/^$BEGIN\$/,/^$END\$/d" "$override" >"$override.zernel-new"
	if [ -s "$override.zernel-new" ]; then
		mv "$override.zernel-new" "$override"
	else
		rm -f "$override.zernel-new" "$override"
	fi
}

# The driver's module that DKMS built for a kernel, unpacked, on standard output.
built_module() {
	local file
	file=$(find "$TREE/$driver/$driver_version/$1" -path '*/module/*' \
		\( -name "$driver.ko*" -o -name 'nvidia.ko*' \) | head -1)
	case $file in
	*.xz) xz -dc "$file" ;;
	*.zst) zstd -qdc "$file" ;;
	*.gz) gzip -dc "$file" ;;
	*.ko) cat "$file" ;;
	esac
}

has_hooks() { built_module "$1" | grep -aq nv_zernel_register; }

# rebuild KERNEL WORD...: the driver anew, and installed if it was; the words go to dkms.
rebuild() {
	local kernel=$1 installed
	shift
	installed=$(dkms status -m "$driver" -v "$driver_version" -k "$kernel" "$@" | grep -c installed ||
		true)
	say "building $driver $driver_version for $kernel, some minutes (log: \
$TREE/$driver/$driver_version/$kernel/*/log/make.log)"
	if [ -d "$TREE/$driver/$driver_version/$kernel" ]; then
		dkms unbuild -m "$driver" -v "$driver_version" -k "$kernel" "$@" >&2
	fi
	dkms build -m "$driver" -v "$driver_version" -k "$kernel" "$@" >&2 || return 1
	[ "$installed" = 0 ] ||
		dkms install --force -m "$driver" -v "$driver_version" -k "$kernel" "$@" >&2
}
