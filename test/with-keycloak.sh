#!/bin/sh
# Runs a command for whose tests there is a Keycloak to start:
#
#   test/with-keycloak.sh go test -tags e2e ./internal/sso/keycloak
#
# It is fetched once into the cache ($XDG_CACHE_HOME/drover). DROVER_TEST_KEYCLOAK
# names a running one to use instead (http://admin:password@127.0.0.1:8080). Where
# there can be none the command runs with DROVER_TEST_NO_KEYCLOAK=1, except with
# CI=true, which fails.
set -u

say() { echo "with-keycloak: $*" >&2; }

if [ -n "${DROVER_TEST_KEYCLOAK:-}" ] || [ "${DROVER_TEST_NO_KEYCLOAK:-}" = 1 ]; then
	exec "$@"
fi
if [ -z "${JAVA_HOME:-}" ] && ! command -v java >/dev/null 2>&1; then
	reason="there is no Java (apt-get install -y openjdk-17-jre-headless)"
elif ! "${GO:-go}" run ./test/servers/fetch keycloak; then
	reason="it cannot be fetched (output above)"
else
	exec "$@"
fi
if [ "${CI:-}" = true ]; then
	say "no Keycloak: $reason. CI=true wants every server."
	exit 1
fi
say "no Keycloak: $reason. Its tests do not run; the summary says so again."
DROVER_TEST_NO_KEYCLOAK=1
export DROVER_TEST_NO_KEYCLOAK
exec "$@"
