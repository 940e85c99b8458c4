#!/bin/sh
# Installs an application's own requirements, if it has any; with their hashes, if they have any.
#
# Usage: requirements.sh REQUIREMENTS CONSTRAINTS TARGET PIP…
set -eu

requirements=$1 constraints=$2 target=$3
shift 3
[ -f "$requirements" ] || exit 0
set -- "$@" install --no-cache-dir --target "$target" -c "$constraints" -r "$requirements"
if grep -q -e '--hash=' "$requirements"; then
    echo "installing $requirements with hashes"
    set -- "$@" --require-hashes
else
    echo "installing $requirements, which has no hashes (pip-compile --generate-hashes adds them)"
fi
exec "$@"
