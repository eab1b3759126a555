#!/bin/sh
# What tests on several machines need beside root, in a container. Elsewhere nothing is installed, for a package of sshd
# starts it: those tests are skipped then, and say what is missing.
set -eu

if command -v /usr/sbin/sshd >/dev/null && command -v ip >/dev/null; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && [ ! -d /run/systemd/system ] && grep -qs '^ID=debian' /etc/os-release; then
    RUNLEVEL=1 "$(dirname "$0")/apt.sh" iproute2 openssh-client openssh-server ||
        echo "Tests on several machines are skipped: openssh-server could not be installed" >&2
fi
