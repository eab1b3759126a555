#!/bin/sh
# In a container, install the programs that the tests on several machines need (they also need root). Elsewhere, nothing
# is installed, because a package of sshd would start it: the tests are then skipped, and report what is missing.
set -eu

if command -v /usr/sbin/sshd >/dev/null && command -v ip >/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && [ ! -d /run/systemd/system ] && grep -qs '^ID=debian' /etc/os-release; then
    RUNLEVEL=1 "$(dirname "$0")/apt.sh" iproute2 openssh-client openssh-server ||
        echo "Tests on several machines are skipped: openssh-server could not be installed" >&2
fi
