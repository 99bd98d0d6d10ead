#!/bin/sh
# From a clone of this repository to `drover bootstrap`: brings what that needs and this
# repository can make, or the system's packages have. `make bootstrap` calls it, and has
# built the binary.
#
#   deploy/bootstrap.sh [ARGUMENTS OF drover bootstrap]
set -eu

GO=${GO:-go} DROVER=${DROVER:-bin/drover} VERSION=${VERSION:-dev} ENGINE=${ENGINE-}
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/drover LIB=${DROVER_TEST_LIB:-/usr/lib} TOOLS=${DROVER_TEST_TOOLS:-test}
REGISTRY=${REGISTRY-} IMAGE=localhost/drover:$VERSION # as podman and buildah would call it anyway
[ $# -gt 0 ] || set -- --location local

say() { echo "bootstrap: $*" >&2; }

case $1 in -*) ;; *) exec "$DROVER" bootstrap "$@" ;; esac # status, destroy

location=local image= look=
before=
for argument; do
	if [ "$before" = --location ]; then location=$argument; fi
	case $argument in
	--location=*) location=${argument#*=} ;;
	--image | --image=*) image=given ;;
	--dry-run | --dry-run=[1tT]* | --help | -h) look=only ;;
	esac
	before=$argument
done

# missing tells whether a program is neither in one of these directories nor on PATH.
missing() {
	program=$1
	shift
	for dir; do
		if [ -x "$dir/$program" ]; then return 1; fi
	done
	! command -v "$program" >/dev/null
}

packages() {
	wanted=
	if missing postgres "$LIB"/postgresql/*/bin /opt/homebrew/bin; then wanted=postgresql; fi
	if missing rabbitmq-server "$LIB"/rabbitmq/lib/rabbitmq_server-*/sbin /opt/homebrew/sbin; then wanted="$wanted rabbitmq-server"; fi
	if [ -n "$wanted" ]; then
		say "there is no" $wanted "on this machine: installed, where this is root and there is apt-get"
		# shellcheck disable=SC2086 # words
		"$TOOLS/install.sh" $wanted || {
			say "not installed. Do so (apt-get install -y --no-install-recommends" $wanted"), and run this again"
			exit 1
		}
	fi
	if missing prometheus "$CACHE"/prometheus-* && command -v apt-get >/dev/null; then
		say "there is no prometheus on this machine: Debian's is put into the cache of servers"
		"$TOOLS/with-promtool.sh" true || true
		if missing prometheus "$CACHE"/prometheus-*; then say "it could not be had (output above): it is left out"; fi
	fi
}

servers() {
	wanted=
	if missing consul "$CACHE"/consul-*; then wanted=consul; fi
	if missing bao "$CACHE"/openbao-*; then wanted="$wanted openbao"; fi
	[ -n "$wanted" ] || return 0
	say "there is no" $wanted "on this machine: built into the cache of servers, which takes some minutes, once"
	# shellcheck disable=SC2086 # words
	$GO run ./test/servers/fetch $wanted || {
		say "cannot build" $wanted "(output above): put the programs consul and bao on PATH, and run this again"
		exit 1
	}
}

build() {
	if [ -z "$ENGINE" ]; then
		say "the image $IMAGE was not built: none of docker, podman and buildah works here"
		return 1
	fi
	if ! $ENGINE build -f deploy/Containerfile -t "$IMAGE" --build-arg "VERSION=$VERSION" .; then
		say "the image $IMAGE could not be built (output above)"
		return 1
	fi
	say "the image $IMAGE is on this machine"
}

# archive writes the image into a file.
archive() {
	case ${ENGINE##*/} in
	buildah) $ENGINE push --quiet "$IMAGE" "docker-archive:$1:$IMAGE" ;;
	*) $ENGINE save -o "$1" "$IMAGE" ;;
	esac
}

# deliver brings the image to where the cluster finds it, by the name in $image.
deliver() {
	if [ -n "$REGISTRY" ]; then
		image=$REGISTRY/drover:$VERSION
		$ENGINE tag "$IMAGE" "$image" && $ENGINE push "$image" && say "the image is $image" && return
		say "$image could not be pushed (output above): is this machine logged in to that registry?"
		return 1
	fi
	image=$IMAGE dir=$(mktemp -d)
	archive "$dir/image.tar" && microk8s ctr image import - <"$dir/image.tar" && rm -r "$dir" && return
	rm -r "$dir"
	say "microk8s has not got the image (output above): REGISTRY=registry.example.org/you has it pushed there instead"
	return 1
}

if [ -z "$look" ]; then
	if [ "$location" = local ]; then
		packages
		servers
		if [ -n "$ENGINE" ]; then build || say "on this machine nothing needs it"; fi
	elif [ -z "$image" ]; then
		if [ "$location" != microk8s ] && [ -z "$REGISTRY" ]; then
			say "on Kubernetes Drover runs from an image that the cluster can pull: REGISTRY=registry.example.org/you has it built and pushed there, --image names one that is there"
			exit 1
		elif ! build; then
			say "on Kubernetes Drover runs from it: build and push it where there is an engine, and name it with --image"
			exit 1
		fi
		deliver || exit 1
		set -- "$@" --image "$image"
	fi
fi >&2 # standard output is drover's alone
exec "$DROVER" bootstrap "$@"
