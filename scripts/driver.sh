# SPDX-License-Identifier: GPL-2.0
# The source tree of NVIDIA's driver that is asked for; to be sourced after lab.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the variables are for the scripts that source this

# driver_find [SOURCE]: sets DRIVER_SOURCE (SOURCE, or Debian's package), DRIVER_LAYER (its interface
# layer, as nvidia-patch/apply finds it) and DRIVER_VERSION.
driver_find() {
	local place
	if [ -n "$1" ]; then
		[ -d "$1" ] || die "there is no folder NVIDIA_SRC=$1"
		DRIVER_SOURCE=$(realpath "$1")
	else
		DRIVER_SOURCE=$("$ROOT/scripts/nvidia-source")
	fi
	DRIVER_LAYER=
	for place in . kernel-open modules/nvidia-open-kernel; do
		if [ -f "$DRIVER_SOURCE/$place/nvidia/nv.c" ]; then
			DRIVER_LAYER=$(realpath "$DRIVER_SOURCE/$place")
			break
		fi
	done
	[ -n "$DRIVER_LAYER" ] || die "$DRIVER_SOURCE is no source tree of NVIDIA's open driver; give the \
folder that kernel-open or nvidia/nv.c is in"
	DRIVER_VERSION=$(sed -nE 's/^.*-DNV_VERSION_STRING=\\"([0-9.]+)\\".*$/\1/p' "$DRIVER_LAYER/Kbuild")
	[ -n "$DRIVER_VERSION" ] || die "$DRIVER_LAYER/Kbuild does not say which version of the driver \
this is; give an unchanged source tree"
}

# driver_state SOURCE: the state of a tree: its own for the cache, which nobody changes, by content
# for others.
driver_state() {
	case $1 in
	"$CACHE"/*) echo "$1" ;;
	*) find "$1" -type f ! -path '*/.git/*' ! -name '*.o' ! -name '*.ko' ! -name '*.cmd' \
		-printf '%P %s %T@\n' | sort ;;
	esac
}
