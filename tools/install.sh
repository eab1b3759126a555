#!/bin/sh
# Install this checkout in editable form: tools/install.sh VENV EXTRAS. The lab extension is a link to its build, so that a
# later build needs no installation.
set -eu

link=$1/share/jupyter/labextensions/jupyter_dtf
rm -rf "$link" # else pip would remove, through the link, the build itself
SKIP_JUPYTER_BUILDER=1 "$1/bin/python" -m pip install -qq --no-build-isolation -e ".[$2]"
rm -rf "$link"
ln -s "$PWD/jupyter_dtf/labextension" "$link"
