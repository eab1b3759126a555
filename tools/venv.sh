#!/bin/sh
# Create a virtual environment: tools/venv.sh DIRECTORY. PYTHON selects the interpreter; by default, it is the first one
# that is new enough.
set -eu

usable() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }

for python in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 python}; do
    if usable "$python"; then break; fi
    python=
done
if [ -z "$python" ]; then
    echo "jupyter_dtf needs Python 3.10 or newer. Found: $(python3 --version 2>&1 || echo none)." \
        "Set PYTHON to a newer one, as in: make PYTHON=/path/to/python3.12 test" >&2
    exit 1
fi

echo "Creating a virtual environment in $1 with $("$python" --version)"
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then # Debian and Ubuntu have it in a separate package
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    "$(dirname "$0")/apt.sh" "python$version-venv"
fi
"$python" -m venv "$1"
