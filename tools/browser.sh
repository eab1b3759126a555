#!/bin/sh
# Find or install a browser for the tests: tools/browser.sh FILE. The browser's path is written to FILE.
set -eu

find_browser() {
    for name in chromium chromium-browser google-chrome google-chrome-stable \
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" "/Applications/Chromium.app/Contents/MacOS/Chromium"; do
        # Ubuntu's chromium-browser is a script that only points to the snap. A program that prints a version is a browser.
        if command -v "$name" >/dev/null && "$name" --version >/dev/null 2>&1; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

if find_browser >"$1.new"; then
    :
elif grep -qs '^ID=debian' /etc/os-release && "$(dirname "$0")/apt.sh" chromium && find_browser >"$1.new"; then
    :
else
    echo "Installing Playwright's browser"
    deps=
    if [ "$(id -u)" = 0 ]; then deps=--with-deps; fi
    npx playwright install $deps chromium </dev/null
    node -p 'require("@playwright/test").chromium.executablePath()' >"$1.new"
fi
mv "$1.new" "$1"
