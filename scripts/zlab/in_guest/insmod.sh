#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# In a guest without any GPU: zernel.ko loads, documents its attributes, unloads without a trace.

CLASS=/sys/class/misc/zernel
number=0

# report STATUS NAME: one KTAP line.
report() {
	number=$((number + 1))
	if [ "$1" = 0 ]; then echo "ok $number $2"; else echo "not ok $number $2"; fi
}

# The attributes that the running module has, without those that every device has.
attributes() {
	find $CLASS/ -type f | sed "s,^$CLASS/,," |
		grep -vE '^(uevent|dev|power/.*|waiting_for_supplier)$' | sort
}

# The names in the documentation, as shell patterns: <level> stands for anything.
documented() {
	sed -nE "s,^What:[[:space:]]*$CLASS/,,p" /zernel/abi/* | sed 's/<[^>]*>/*/g' | sort
}

# unmatched NAMES PATTERNS: the names that no pattern covers.
unmatched() {
	while read -r name; do
		found=
		while read -r pattern; do
			# shellcheck disable=SC2254 # it is a pattern
			case $name in $pattern) found=1 ;; esac
		done <"$2"
		[ -n "$found" ] || echo "$name"
	done <"$1"
}

# unused PATTERNS NAMES: the patterns that cover no name.
unused() {
	while read -r pattern; do
		found=
		while read -r name; do
			# shellcheck disable=SC2254 # it is a pattern
			case $name in $pattern) found=1 ;; esac
		done <"$2"
		[ -n "$found" ] || echo "$pattern"
	done <"$1"
}

echo 'KTAP version 1'
echo '1..8'

insmod /lib/modules/zernel/zernel.ko
report $? insmod_without_gpu

dmesg | grep -i 'zernel: .*no gpu'
report $? says_that_there_is_no_gpu

[ -c /dev/zernel ] && grep -q '^zernel ' /proc/modules
report $? device_exists

attributes >/tmp/attributes
documented >/tmp/documented
[ -s /tmp/attributes ]
report $? has_attributes

undocumented=$(unmatched /tmp/attributes /tmp/documented)
[ -z "$undocumented" ]
report $? every_attribute_is_documented
echo "# not under Documentation/ABI/testing:" $undocumented

vanished=$(unused /tmp/documented /tmp/attributes)
[ -z "$vanished" ]
report $? every_documented_attribute_exists
echo "# documented, but not there:" $vanished

rmmod zernel
report $? rmmod

[ ! -e /dev/zernel ] && [ ! -e $CLASS ] && [ ! -e /sys/kernel/debug/zernel ] &&
	[ ! -e /sys/module/zernel ]
report $? rmmod_leaves_nothing
