#!/usr/bin/env bash
# Everything `make test` needs beyond a C compiler: installed where that is allowed, named where it is not.
set -u
need=""
command -v gcc >/dev/null || need="$need gcc"
command -v g++ >/dev/null || need="$need g++"
command -v clang >/dev/null || need="$need clang"
command -v make >/dev/null || need="$need make"
[ -e /usr/include/stdio.h ] || need="$need libc6-dev"
# Wanted but not needed: what runs in an emulator (the kernels for 64-bit Arm, files on a big-endian processor, exported models on 32-bit
# Arm); clang's sanitizers; the format.
want=""
command -v aarch64-linux-gnu-gcc >/dev/null || want="gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
command -v arm-linux-gnueabihf-gcc >/dev/null || want="$want gcc-arm-linux-gnueabihf libc6-dev-armhf-cross"
[ "$(uname -m)" != x86_64 ] || command -v i686-linux-gnu-gcc >/dev/null || want="$want gcc-i686-linux-gnu libc6-dev-i386-cross"
command -v s390x-linux-gnu-gcc >/dev/null || want="$want gcc-s390x-linux-gnu libc6-dev-s390x-cross"
command -v qemu-aarch64 >/dev/null || want="$want qemu-user"
command -v x86_64-w64-mingw32-gcc >/dev/null || want="$want gcc-mingw-w64-x86-64"
command -v wine >/dev/null || want="$want wine wine64"
command -v arm-none-eabi-gcc >/dev/null || want="$want gcc-arm-none-eabi libnewlib-arm-none-eabi"
command -v qemu-system-arm >/dev/null || want="$want qemu-system-arm"
[ -e /usr/lib/picolibc/riscv64-unknown-elf ] || want="$want gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"
command -v qemu-system-riscv32 >/dev/null || want="$want qemu-system-misc"
command -v clang-format >/dev/null || want="$want clang-format"
command -v cmake >/dev/null || want="$want cmake"
command -v pkg-config >/dev/null || want="$want pkg-config"
[ -e /usr/share/i18n/locales/de_DE ] || want="$want locales"
[ -e /usr/include/zmq.h ] || want="$want libzmq3-dev"
[ -e /usr/include/lmdb.h ] || want="$want liblmdb-dev"
command -v mpirun >/dev/null && command -v mpicc >/dev/null || want="$want libopenmpi-dev openmpi-bin"
[ -e /usr/include/stb/stb_image.h ] || want="$want libstb-dev"
[ -e /usr/include/jpeglib.h ] || want="$want libjpeg62-turbo-dev"
echo 'int main(void) { return 0; }' | clang -fsanitize=undefined -x c -o /dev/null - 2>/dev/null || want="$want libclang-rt-14-dev"
if [ -n "$want" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $want; } >/dev/null 2>&1 ||
        echo "not installed, so its tests are left out: $want"
fi
[ -z "$need" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq >/dev/null && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $need >/dev/null && exit 0
fi
echo "please install:$need   (Debian: apt-get install$need)"
exit 1
