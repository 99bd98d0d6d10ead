#!/bin/sh
# Runs a command with one PostgreSQL server for all of its tests:
#
#   test/with-postgres.sh go test ./...
#
# DROVER_TEST_POSTGRES names a server to use instead. Without one, the server that
# is installed is started on a free loopback port in a temporary directory; if none
# is installed, root installs it. Where there can be none the command runs with
# DROVER_TEST_NO_POSTGRES=1, except with CI=true, which fails.
set -u

say() { echo "with-postgres: $*" >&2; }

if [ -n "${DROVER_TEST_POSTGRES:-}" ] || [ "${DROVER_TEST_NO_POSTGRES:-}" = 1 ]; then
	exec "$@"
fi

find_bin() {
	if command -v initdb >/dev/null 2>&1; then
		real=$(readlink -f "$(command -v initdb)") && dirname "$real" && return
	fi
	if command -v pg_config >/dev/null 2>&1; then
		dir=$(pg_config --bindir)
		[ -x "$dir/initdb" ] && echo "$dir" && return
	fi
	# The newest version that is installed: 9 sorts before 15.
	for dir in /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin; do
		[ -x "$dir/initdb" ] && echo "$dir"
	done | sort -V | tail -n 1
}

bin=$(find_bin)
if [ -z "$bin" ] && "$(dirname "$0")/install.sh" postgresql; then bin=$(find_bin); fi
if [ -z "$bin" ]; then
	reason="it is not installed (apt-get install -y postgresql)"
fi

dir=$(mktemp -d "${TMPDIR:-/tmp}/drover-postgres.XXXXXX") || exit 1

# PostgreSQL refuses to run as root.
as_owner() { "$@"; }
if [ "$(id -u)" = 0 ]; then
	owner=nobody
	id postgres >/dev/null 2>&1 && owner=postgres
	chown "$owner" "$dir"
	if command -v setpriv >/dev/null 2>&1; then
		as_owner() { setpriv --reuid="$owner" --regid="$(id -g "$owner")" --clear-groups "$@"; }
	else
		as_owner() { su -s /bin/sh "$owner" -c 'exec "$0" "$@"' -- "$@"; }
	fi
fi

stop() {
	trap - EXIT INT TERM
	[ -f "$dir/data/postmaster.pid" ] && (cd "$dir" && as_owner "$bin/pg_ctl" -D "$dir/data" -m immediate -w stop) >/dev/null 2>&1
	rm -rf "$dir"
}
trap stop EXIT
trap 'stop; exit 130' INT TERM

start() {
	password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
	(umask 077 && echo "$password" >"$dir/password") && chmod 644 "$dir/password" || return 1
	say "creating a server of $("$bin/postgres" --version)"
	(cd "$dir" && as_owner "$bin/initdb" -D "$dir/data" -U postgres -A scram-sha-256 --pwfile="$dir/password" \
		-E UTF8 --locale=C --no-sync) >"$dir/log" 2>&1 || return 1
	rm -f "$dir/password"
	for try in 1 2 3 4 5; do
		port=$(($(od -An -N2 -tu2 /dev/urandom) % 20000 + 20000))
		# fsync is off: these data end with the tests. Servers that tests crash are their own.
		if (cd "$dir" && as_owner "$bin/pg_ctl" -D "$dir/data" -l "$dir/server.log" -w -t 180 \
			-o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off -c max_connections=300" start) >>"$dir/log" 2>&1; then
			say "listening on 127.0.0.1:$port"
			return 0
		fi
		say "attempt $try failed"
	done
	return 1
}

if [ -n "$bin" ] && start; then
	DROVER_TEST_POSTGRES="postgres://postgres:$password@127.0.0.1:$port/postgres?sslmode=disable"
	export DROVER_TEST_POSTGRES
	"$@"
	exit $?
fi
if [ -n "$bin" ]; then
	reason="it could not be started (output above)"
	tail -n 5 "$dir/log" "$dir/server.log" >&2 2>/dev/null
fi
stop
if [ "${CI:-}" = true ]; then
	say "no PostgreSQL: $reason. CI=true wants every server."
	exit 1
fi
say "no PostgreSQL: $reason. Its tests do not run; the summary says so again."
DROVER_TEST_NO_POSTGRES=1
export DROVER_TEST_NO_POSTGRES
exec "$@"
