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

# bring builds what its arguments name, and says so where there can be none.
bring() {
	what=$1
	shift
	"${GO:-go}" run ./test/servers/fetch "$@" && return 0
	if [ "${CI:-}" = true ]; then
		say "no $what: it cannot be built (output above). CI=true wants every server."
		exit 1
	fi
	say "no $what: it cannot be built (output above). Its tests do not run; the summary says so again."
	return 1
}

if [ "${DROVER_TEST_NO_TOXIPROXY:-}" != 1 ] && ! bring Toxiproxy toxiproxy; then export DROVER_TEST_NO_TOXIPROXY=1; fi
if [ "${DROVER_TEST_NO_OPENBAO:-}" != 1 ] && ! bring OpenBao openbao; then export DROVER_TEST_NO_OPENBAO=1; fi
if [ "${DROVER_TEST_NO_CONSUL:-}" != 1 ] && ! bring Consul consul; then export DROVER_TEST_NO_CONSUL=1; fi
if [ "${DROVER_TEST_NO_PROVIDERS:-}" != 1 ] && ! bring "providers of OpenTofu" provider-random provider-local provider-time; then export DROVER_TEST_NO_PROVIDERS=1; fi
exec "$@"
