# SPDX-License-Identifier: GPL-2.0
# Debian packages as files, through apt, without touching the host's own apt; to be sourced after
# lab.sh.
#
# Sources list, state and cache are zernel's own, one set per APT folder; the host says only where
# its mirror is. Signatures are checked with Debian's keys.

# apt_use FOLDER: the following calls keep their state there.
apt_use() {
	APT=$1
	mkdir -p "$APT"
	mapfile -t APT_OPTIONS < <(apt_options)
}

apt_mirror() {
	local line
	line=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null |
		grep -E '/debian/?$' | head -1 || true)
	echo "${line:-http://deb.debian.org/debian}"
}

# The keys that sign trixie came to bookworm's keyring with 2023.3+deb12u2; where the installed
# one is older, the newest package that the host's own, signed, apt sources have is unpacked.
apt_keyring() {
	local have key=/usr/share/keyrings/debian-archive-keyring.gpg dir=$APT/keyring
	have=$(dpkg-query -W -f '${Version}' debian-archive-keyring 2>/dev/null || echo 0)
	if dpkg --compare-versions "$have" ge 2023.3+deb12u2; then
		echo "$key"
		return
	fi
	say "fetching a newer debian-archive-keyring than the installed $have"
	mkdir -p "$dir"
	(cd "$dir" && apt-get -qq download debian-archive-keyring) ||
		die "apt cannot download debian-archive-keyring; run 'apt-get update' as root and try again"
	dpkg-deb -x "$(find "$dir" -name '*.deb' | sort -V | tail -1)" "$dir"
	find "$dir/usr/share/keyrings" -name 'debian-archive-keyring.[gp][pg][gp]' | head -1
}

apt_options() {
	printf '%s\n' \
		-o "Dir::Etc::sourcelist=$APT/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts=/dev/null \
		-o "Dir::State=$APT/state" -o Dir::State::status=/dev/null -o "Dir::Cache=$APT/cache" \
		-o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
		-o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false \
		-o "APT::Sandbox::User=$(id -un)" -o Acquire::Retries=3 -o APT::Architecture=amd64
}

# apt_update COMPONENT SUITE...: reads the package lists. One suite is enough when it has what is
# wanted, so a failure here is not the end yet.
apt_update() {
	local component=$1 key site suite
	shift
	mkdir -p "$APT/state/lists/partial" "$APT/cache/archives/partial"
	key=$(apt_keyring)
	site=$(apt_mirror)
	for suite in "$@"; do
		printf 'deb [arch=amd64 signed-by=%s] %s %s %s\n' "$key" "$site" "$suite" "$component"
	done >"$APT/sources.list"
	say "reading the package lists of $* ($component) from $site"
	apt-get "${APT_OPTIONS[@]}" -qq update >&2 || say 'not every package list could be read'
}

# apt_versions PACKAGE: `VERSION SUITE` lines, as the lists have them.
apt_versions() {
	apt-cache "${APT_OPTIONS[@]}" madison "$1" 2>/dev/null |
		awk -F'|' '{ gsub(/ /, "", $2); split($3, part, " "); split(part[2], suite, "/")
			print $2, suite[1] }'
}

# apt_unpack PACKAGE VERSION FOLDER: the package's files, into a folder that is there.
apt_unpack() {
	say "downloading $1 $2"
	(cd "$3" && apt-get "${APT_OPTIONS[@]}" -qq download "$1=$2" >&2) ||
		die "apt could not download $1 $2; run 'make update' and try again"
	say "unpacking $1 $2"
	dpkg-deb -x "$3"/*.deb "$3"
}
