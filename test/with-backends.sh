#!/bin/sh
# Runs a command for whose tests there are Consul, OpenBao, providers of OpenTofu and
# Toxiproxy to start:
#
#   test/with-backends.sh go test -tags e2e ./test/consul
#
# They are compiled once into the cache ($XDG_CACHE_HOME/drover), out of the modules
# in test/servers/built; that takes some minutes. Where there can be none the command
# runs with DROVER_TEST_NO_CONSUL=1 and so on, except with CI=true, which fails.
set -u

say() { echo "with-backends: $*" >&2; }

# bring builds a server, and says so where there can be none.
bring() {
	"${GO:-go}" run ./test/servers/fetch "$1" && return 0
	if [ "${CI:-}" = true ]; then
		say "no $2: it cannot be built (output above). CI=true wants every server."
		exit 1
	fi
	say "no $2: it cannot be built (output above). Its tests do not run; the summary says so again."
	return 1
}

if [ "${DROVER_TEST_NO_TOXIPROXY:-}" != 1 ] && ! bring toxiproxy Toxiproxy; then export DROVER_TEST_NO_TOXIPROXY=1; fi
if [ "${DROVER_TEST_NO_OPENBAO:-}" != 1 ] && ! bring openbao OpenBao; then export DROVER_TEST_NO_OPENBAO=1; fi
if [ "${DROVER_TEST_NO_CONSUL:-}" != 1 ] && ! bring consul Consul; then export DROVER_TEST_NO_CONSUL=1; fi
if [ "${DROVER_TEST_NO_PROVIDERS:-}" != 1 ] && ! bring providers "providers of OpenTofu"; then export DROVER_TEST_NO_PROVIDERS=1; fi
exec "$@"
