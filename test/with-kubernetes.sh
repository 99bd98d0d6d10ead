#!/bin/sh
# Runs a command for whose tests there are Kubernetes (with etcd) and OpenTofu to start:
#
#   test/with-kubernetes.sh go test -tags e2e ./test/kubernetes
#
# They are compiled once into the cache ($XDG_CACHE_HOME/drover), out of the modules
# in test/servers/built; that takes some minutes, and about 3 GB of memory.
# DROVER_TEST_KUBECONFIG names a running cluster to use where tests can share one,
# DROVER_TEST_TOFU another program. Where there can be none the command runs with
# DROVER_TEST_NO_KUBERNETES=1 or DROVER_TEST_NO_TOFU=1, except with CI=true, which fails.
set -u

say() { echo "with-kubernetes: $*" >&2; }

# lack says that a server is missing, which ends a run that wants them all.
lack() {
	if [ "${CI:-}" = true ]; then
		say "no $1: it cannot be built (output above). CI=true wants every server."
		exit 1
	fi
	say "no $1: it cannot be built (output above). Its tests do not run; the summary says so again."
}

if [ "${DROVER_TEST_NO_KUBERNETES:-}" != 1 ] && ! "${GO:-go}" run ./test/servers/fetch etcd kubernetes; then
	lack Kubernetes
	export DROVER_TEST_NO_KUBERNETES=1
fi
if [ "${DROVER_TEST_NO_TOFU:-}" != 1 ] && [ -z "${DROVER_TEST_TOFU:-}" ] && ! "${GO:-go}" run ./test/servers/fetch opentofu; then
	lack OpenTofu
	export DROVER_TEST_NO_TOFU=1
fi
exec "$@"
