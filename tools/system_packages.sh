#!/bin/sh
# vLLM's CPU build links libnuma, which no Python package carries. Bring it where we may, name it where we may not.
set -eu
if ldconfig -p 2>/dev/null | grep -q 'libnuma\.so\.1' || ls /usr/lib/*/libnuma.so.1 >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    apt-get update -qq && apt-get install -y -qq --no-install-recommends libnuma1
    exit 0
fi
echo "kunport: libnuma.so.1 is missing. Install it with your system's package manager (Debian: libnuma1)." >&2
exit 2
