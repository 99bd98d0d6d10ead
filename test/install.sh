#!/bin/sh
# Installs packages of Debian's, where this is root. Their services are not started, neither
# now nor with the machine, nor are those of packages that come along: RabbitMQ's would be
# open to the network. Services of packages that were there before are left alone.
#
#   test/install.sh rabbitmq-server
#
# It fails where nothing can be installed, and says why, unless this is not root or there
# is no apt-get.
set -u

say() { echo "install: $*" >&2; }

[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || exit 1
log=$(mktemp) || exit 1
policy=${DROVER_TEST_POLICY:-/usr/sbin/policy-rc.d} # asked by packages that would start something
made=
before=
# packages in one of these states (i: installed; not n: or half of it), a line each.
packages() { dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\n' 2>/dev/null | sed -n "s/^.[$1]. *//p"; }
# units that packages brought: bind9's is called named, postgresql's is postgresql-common's.
units() {
	for package; do dpkg -L "$package" 2>/dev/null; done |
		sed -nE 's#^(/usr)?/lib/systemd/system/([^/]+\.(service|socket))$#\2#p; s#^/etc/init\.d/([^/]+)$#\1.service#p' | sort -u
}
# disable has nothing of what is new start with the machine.
disable() {
	command -v systemctl >/dev/null 2>&1 || return 0
	fresh=$*
	# Without a list of what was there before, everything would be new.
	[ -z "$before" ] || fresh=$({ printf '%s\n\n' "$before"; packages '^nc'; } | awk '!NF { now = 1; next } !now { was[$0]; next } !($0 in was)')
	for unit in $(units $fresh); do systemctl disable "$unit" >/dev/null 2>&1; done
}
end() { rm -f "$log" ${made:+"$made"}; }
trap end EXIT
trap 'end; exit 130' HUP INT TERM
# One at a time: whoever ends first would take the policy away.
if command -v flock >/dev/null 2>&1; then exec 8>"${TMPDIR:-/tmp}/drover-install.lock" && flock 8; fi
if [ ! -e "$policy" ] || grep -q drover-install "$policy"; then # that of one that was killed is not somebody's own
	made=$policy
	printf '#!/bin/sh\n# of drover-install\nexit 101\n' >"$policy" && chmod 755 "$policy" || exit 1
fi
before=$(packages i)
trap 'disable "$@"; end; exit 130' HUP INT TERM # some may be there
say "installing $* (this takes some minutes)"
# RUNLEVEL: for systems that do not ask.
if ! { apt-get update && RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
	say "apt-get failed:"
	tail -n 5 "$log" >&2
	disable "$@" # some may be there
	exit 1
fi
disable "$@"
exit 0
