#!/bin/sh
# Runs a command for whose tests there is an Argo CD to start, inside of
# test/with-kubernetes.sh, which brings what it runs beside:
#
#   test/with-kubernetes.sh test/with-argocd.sh go test -tags e2e ./test/argocd
#
# Argo CD, Helm and Kustomize are compiled once into the cache
# ($XDG_CACHE_HOME/drover), out of the modules in test/servers/built; that takes some
# minutes. Redis is installed by root where it is missing. Where there can be none the
# command runs with DROVER_TEST_NO_ARGOCD=1, except with CI=true, which fails.
set -u

say() { echo "with-argocd: $*" >&2; }

has_redis() { command -v redis-server >/dev/null 2>&1; }

if [ "${DROVER_TEST_NO_ARGOCD:-}" = 1 ]; then
	exec "$@"
fi
if [ "${DROVER_TEST_NO_KUBERNETES:-}" = 1 ]; then
	reason="there is no Kubernetes"
elif ! has_redis && ! { "$(dirname "$0")/install.sh" redis-server && has_redis; }; then
	reason="there is no Redis (apt-get install -y redis-server)"
elif ! "${GO:-go}" run ./test/servers/fetch argocd helm kustomize; then
	reason="it cannot be built (output above)"
else
	exec "$@"
fi
if [ "${CI:-}" = true ]; then
	say "no Argo CD: $reason. CI=true wants every server."
	exit 1
fi
say "no Argo CD: $reason. Its tests do not run; the summary says so again."
DROVER_TEST_NO_ARGOCD=1
export DROVER_TEST_NO_ARGOCD
exec "$@"
