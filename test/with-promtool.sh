#!/bin/sh
# Runs a command with promtool, which checks rules and queries of Prometheus:
#
#   test/with-promtool.sh go test ./test/observability
#
# DROVER_TEST_PROMTOOL names one to use. Otherwise the one that is installed is
# taken, or Debian's package is unpacked into the user's cache: nothing is
# installed, and no server is started. The package's server is kept there, too: `drover
# bootstrap` finds it. Where it cannot be had the command runs with
# DROVER_TEST_NO_PROMTOOL=1, except with CI=true, which fails.
set -u

say() { echo "with-promtool: $*" >&2; }

# bring unpacks promtool and the server beside it; what is half there is never found.
bring() {
	command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 || return 1
	say "fetching Debian's package of Prometheus (this takes a minute)"
	work=$(mktemp -d "${TMPDIR:-/tmp}/drover-promtool.XXXXXX") && log=$work/log || return 1
	(
		cd "$work" || exit 1
		apt-get download prometheus >"$log" 2>&1 || { [ "$(id -u)" = 0 ] && apt-get update >>"$log" 2>&1 && apt-get download prometheus >>"$log" 2>&1; } || exit 1
		dpkg -x prometheus_*.deb . >>"$log" 2>&1 && mkdir -p "$(dirname "$1")/prometheus-debian" &&
			cp usr/bin/prometheus "$1.$$" && mv "$1.$$" "$(dirname "$1")/prometheus-debian/prometheus" && # for `drover bootstrap`
			cp usr/bin/promtool "$1.$$" && mv "$1.$$" "$1"
	)
	rc=$?
	[ "$rc" = 0 ] || tail -n 5 "$log" >&2
	rm -rf "$work"
	return "$rc"
}

if [ "${DROVER_TEST_NO_PROMTOOL:-}" != 1 ] && [ -z "${DROVER_TEST_PROMTOOL:-}" ]; then
	cached=${XDG_CACHE_HOME:-$HOME/.cache}/drover/promtool
	server=$(dirname "$cached")/prometheus-debian/prometheus
	if command -v promtool >/dev/null 2>&1 && command -v prometheus >/dev/null 2>&1; then
		DROVER_TEST_PROMTOOL=$(command -v promtool)
		export DROVER_TEST_PROMTOOL
	elif [ -x "$cached" ] && [ -x "$server" ] || bring "$cached"; then
		export DROVER_TEST_PROMTOOL="$cached"
	elif [ -x "$cached" ]; then
		export DROVER_TEST_PROMTOOL="$cached"
	elif command -v promtool >/dev/null 2>&1; then
		DROVER_TEST_PROMTOOL=$(command -v promtool)
		export DROVER_TEST_PROMTOOL
	elif [ "${CI:-}" = true ]; then
		say "no promtool: it is not installed and could not be fetched. CI=true wants it."
		exit 1
	else
		say "no promtool: it is not installed and could not be fetched. Its tests do not run; the summary says so again."
		export DROVER_TEST_NO_PROMTOOL=1
	fi
fi

exec "$@"
