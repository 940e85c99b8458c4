#!/usr/bin/env bash
# Does the project set itself up on a fresh Debian? Makes one in a directory, with no more than git,
# make and Python in it (no pip, no venv, no Java), clones this repository's HEAD into it, and calls
# `make setup` and `make demo` there, and whatever further commands are given.
#
#   tests/fresh/check.sh bookworm            # or trixie, …
#   tests/fresh/check.sh trixie 'make check'
#
# Needs root and debootstrap. Takes the package mirror from apt's configuration, and pip's
# configuration and the certificates from this machine, since they say how it reaches the world.
# KEEP=1 keeps the directory, and a second run reuses it, but for the clone: say where with
# DIRECTORY. Not part of `make test`: it takes minutes and downloads a lot.
set -euo pipefail

release=${1:?"usage: $0 RELEASE [COMMAND...]"}
shift
repository=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)

# In a mount namespace of its own, so that no mount outlives it, however it ends
if [ -z "${FRESH_NAMESPACE:-}" ]; then
    FRESH_NAMESPACE=1 exec unshare --mount --propagation private "$0" "$release" "$@"
fi

directory=${DIRECTORY:-$(mktemp -d)}
root=$directory/$release
cleanup() {
    umount --lazy "$root/proc" 2>/dev/null || true
    [ -n "${KEEP:-}" ] || rm -rf --one-file-system "$root"
    [ -n "${DIRECTORY:-}${KEEP:-}" ] || rm -rf "$directory"
}
trap cleanup EXIT

inside() {
    # Only what a login has: nothing of this machine's Python or Java may be seen
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LANG=C.UTF-8 sh -ec "$1" </dev/null
}

if [ ! -e "$root/fresh" ]; then
    # shellcheck disable=SC2016  # apt replaces it
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Label: Debian" "Created-By: Packages" |
        head -n 1)
    # A release that this debootstrap is too old to know is made like unstable
    script=()
    [ -e "/usr/share/debootstrap/scripts/$release" ] || script=(sid)
    mkdir -p "$root"
    debootstrap --variant=minbase --include=git,make,python3,ca-certificates \
        "$release" "$root" "$mirror" "${script[@]}" >"$directory/debootstrap.log" ||
        { tail -n 5 "$directory/debootstrap.log" >&2; exit 1; }
    cp --dereference /etc/resolv.conf /etc/hosts "$root/etc/"
    cp --dereference /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"
    touch "$root/fresh"
fi
mount -t proc proc "$root/proc"

rm -rf "$root/src"
git clone --quiet --no-local "$repository" "$root/src/wallaroo"
inside '! command -v java && ! command -v pip3 && ! python3 -m ensurepip --version 2>/dev/null' ||
    echo "note: this machine is not as fresh as it should be (reused?)"

for command in "make setup" "make setup" "make demo" "$@"; do
    printf '\n[%s, %s] %s\n' "$release" "$(inside 'python3 --version')" "$command"
    SECONDS=0
    inside "cd /src/wallaroo && $command"
    echo "[took $SECONDS s]"
done
echo "fresh $release: OK"
