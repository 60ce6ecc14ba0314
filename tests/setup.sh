#!/usr/bin/env bash
# Everything `make test` needs beyond a C compiler: installed where that is allowed, named where it is not.
set -u
need=""
command -v gcc >/dev/null || need="$need gcc"
command -v g++ >/dev/null || need="$need g++"
command -v clang >/dev/null || need="$need clang"
command -v make >/dev/null || need="$need make"
[ -e /usr/include/stdio.h ] || need="$need libc6-dev"
[ -z "$need" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $need >/dev/null && exit 0
fi
echo "please install:$need   (Debian: apt-get install$need)"
exit 1
