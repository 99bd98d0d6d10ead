#!/bin/sh
# Runs a command with what its tests of DNS need:
#
#   test/with-dns.sh go test ./internal/dns/...
#
# BIND (named) is installed by root where it is missing; each test starts its own.
# moto, the emulator of Route 53, comes from PyPI into the user's cache;
# DROVER_TEST_MOTO names another moto_server. Where one cannot be had the command
# runs with DROVER_TEST_NO_BIND=1 or DROVER_TEST_NO_MOTO=1, except with CI=true,
# which fails.
set -u

MOTO=5.2.5

say() { echo "with-dns: $*" >&2; }

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

missing() {
	if [ "${CI:-}" = true ]; then
		say "no $1: $2. CI=true wants every server."
		exit 1
	fi
	say "no $1: $2. Its tests do not run; the summary says so again."
}

has_named() {
	for bin in named /usr/sbin/named /usr/local/sbin/named /opt/homebrew/sbin/named; do
		command -v "$bin" >/dev/null 2>&1 && return
	done
	return 1
}

if [ "${DROVER_TEST_NO_BIND:-}" != 1 ] && ! has_named && ! { "$(dirname "$0")/install.sh" bind9 && has_named; }; then
	missing BIND "it is not installed (apt-get install -y bind9)"
	export DROVER_TEST_NO_BIND=1
fi

# bring makes the virtual environment; of several processes one does it.
bring() {
	say "fetching moto $MOTO into $venv"
	rm -rf "$venv"
	if ! python3 -m venv "$venv" >"$log" 2>&1; then
		"$(dirname "$0")/install.sh" python3 python3-venv || return 1
		rm -rf "$venv"
		python3 -m venv "$venv" >"$log" 2>&1 || return 1
	fi
	"$venv/bin/pip" install --quiet --disable-pip-version-check "moto[server]==$MOTO" >"$log" 2>&1 && touch "$venv/complete"
}

if [ "${DROVER_TEST_NO_MOTO:-}" != 1 ] && [ -z "${DROVER_TEST_MOTO:-}" ]; then
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/drover
	venv=$cache/moto-$MOTO
	mkdir -p "$cache"
	if command -v flock >/dev/null 2>&1; then
		exec 9>"$venv.lock"
		flock 9
	fi
	if [ -e "$venv/complete" ] || bring; then
		export DROVER_TEST_MOTO="$venv/bin/moto_server"
	else
		tail -n 5 "$log" >&2
		missing moto "it could not be fetched (pip install 'moto[server]==$MOTO', then DROVER_TEST_MOTO=<path of moto_server>)"
		export DROVER_TEST_NO_MOTO=1
	fi
	exec 9>&-
fi

rm -f "$log"
exec "$@"
