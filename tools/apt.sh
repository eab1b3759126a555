#!/bin/sh
# Install Debian packages if this machine has apt-get and the user may run it as root; otherwise report what is missing.
set -eu

if [ "$(id -u)" = 0 ]; then
    sudo=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    sudo="sudo -n"
else
    sudo=no
fi
if [ "$sudo" = no ] || ! command -v apt-get >/dev/null; then
    echo "This machine lacks $*. Without apt-get and root, it cannot be installed automatically: install it manually." >&2
    exit 1
fi

echo "Installing $* with apt-get"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get -o DPkg::Lock::Timeout=600 update -qq </dev/null
$sudo apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
