#!/bin/sh
# The C tests on other processors, emulated: test_processors.sh BUILD_FOLDER PYTHON [PROCESSOR ...].
#
# s390x is 64-bit and big-endian, powerpc 32-bit and big-endian (no 128-bit product), aarch64 what
# many servers are. The golden vectors must come out alike on all: fingerprints and segments are
# the same on every machine. Needs cmake, ninja, Debian's cross compilers and qemu-user; as root it
# installs the latter two.
set -eu
build=$1 python=$2
shift 2
[ $# -gt 0 ] || set -- s390x powerpc aarch64

libc() { if [ "$1" = aarch64 ]; then echo arm64; else echo "$1"; fi; }
qemu() { if [ "$1" = powerpc ]; then echo qemu-ppc; else echo "qemu-$1"; fi; }

packages=
for processor in "$@"; do
    if ! command -v "$processor-linux-gnu-gcc" >/dev/null || [ ! -d "/usr/$processor-linux-gnu/include" ]; then
        packages="$packages gcc-$processor-linux-gnu libc6-dev-$(libc "$processor")-cross"
    fi
    command -v "$(qemu "$processor")" >/dev/null || packages="$packages qemu-user"
done
if [ -n "$packages" ]; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "missing; on Debian and Ubuntu: sudo apt-get install$packages" >&2
        exit 1
    fi
    echo "installing$packages"
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null
fi

source=$(dirname "$0")/..
tools=$(dirname "$python")
PATH=$tools:$PATH
for processor in "$@"; do
    echo "== $processor"
    cmake -S "$source" -B "$build/$processor" -G Ninja -DNDD_TESTS=ON \
        -DPython_EXECUTABLE="$python" \
        -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$processor" \
        -DCMAKE_C_COMPILER="$processor-linux-gnu-gcc" \
        -DCMAKE_CROSSCOMPILING_EMULATOR="$(qemu "$processor");-L;/usr/$processor-linux-gnu" >/dev/null
    cmake --build "$build/$processor"
    ctest --test-dir "$build/$processor" --output-on-failure
done
