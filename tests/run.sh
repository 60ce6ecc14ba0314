#!/usr/bin/env bash
# Build and run every test in every configuration that `make test` promises. Results are printed as they come; the last
# lines say what was skipped and why, and the sum.
#   tests/run.sh [part of configuration/test, as in gcc-c11/test_train]
# As many at a time as there are processors, or TP_TEST_JOBS, and one of the checks that mostly wait. A test's line ends with its seconds: to compile, to run. A
# test that runs longer than TP_TEST_LIMIT seconds (1200) is ended and fails.
#
# Most tests call what the headers declare and nothing else: the implementation of all headers is compiled once for a
# configuration, with its flags, and linked to them. A test that defines TP_STATIC looks inside, and compiles its own.
# Configuration plain has the headers without tp_fast.h.
set -u
cd "$(dirname "$0")/.."
only=${1:-}
out=build/test
mkdir -p "$out"
passed=0 failed=0 skipped=0
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"

jobs=${TP_TEST_JOBS:-$(nproc 2>/dev/null || echo 2)}
limit=${TP_TEST_LIMIT:-1200}
began=$(date +%s)
order=()
left_out=() # "name: why"
command -v timeout >/dev/null || { echo "timeout (Debian package coreutils) is missing"; exit 1; }
within() { timeout -k 10 "$limit" "$@"; } # ends all that the command has started; status 124

# report <name> <command...>: the command's output, but for the last line, "passed failed skipped", is printed when it has ended. What it
# skipped is in <name>.skipped.
report() {
    local name=$1; shift
    rm -f "$out/$name.report" "$out/$name.skipped"
    ("$@"; times >"$out/$name.times") >"$out/$name.report" 2>&1 </dev/null
    { flock 9; head -n -1 "$out/$name.report"; } 9>"$out/lock"
}
# start <name> <command...>: in the background, as soon as fewer than $jobs run
waiting="" # the process that runs the checks that mostly wait, which are not counted
start() {
    while [ "$(jobs -rp | grep -cvx "$waiting")" -ge "$jobs" ]; do wait -n; done
    order+=("$1")
    report "$@" &
}

# seconds since a time that `now` gave, to a tenth
now() { date +%s%N; }
since() { local t=$((($(now) - $1) / 100000000)); echo "$((t / 10)).$((t % 10)) s"; }

# A configuration: its name, its tests, its compiler with flags, the headers' folder (the project's if none is said); then, of the
# last one named, what is asked of it.
configurations=()
declare -A tests_of command_of runner_of quick_in judge_of library_of
configuration() {
    local c
    tests_of[$1]=$2 command_of[$1]="$3 $warn -I${4:-.}" library_of[$1]=$1
    for c in ${configurations[@]+"${configurations[@]}"}; do # what is compiled alike is compiled once
        if [ "${command_of[$c]}" = "${command_of[$1]}" ]; then library_of[$1]=${library_of[$c]}; fi
    done
    configurations+=("$1")
}
quick() { quick_in[${configurations[-1]}]=1; }
judged_with() { judge_of[${configurations[-1]}]=$1; } # flags of a test, beside those of the headers
linked_with() { library_of[${configurations[-1]}]=${library_of[$1]}; } # the headers of another configuration
run_with() { runner_of[${configurations[-1]}]=$1; }

wanted() { case "$1" in *"$only"*) ;; *) false ;; esac; }
source_of() { case "$1" in *.cpp) echo "tests/$1" ;; *) echo "tests/$1.c" ;; esac; }
looks_inside() { grep -qE '^#define (TP_STATIC|TP_NAIVE)' "$(source_of "$1")"; }

# The implementation of all headers for a configuration. An object that is there already is taken when neither its command
# nor a header has changed since. <configuration>.library tells the tests how it went.
{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_[!f]*.h; } >"$out/library.c" # tp_fast.h comes with them
implemented="" # what makes a test's own TP_IMPLEMENTATION implement nothing
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; implemented="$implemented -DTP__${h^^}_IMPLEMENTED"; done
one_library() {
    local config=$1 command=${command_of[$1]} t
    local object=$out/$config-library.o log=$out/$config-library.log
    t=$(now)
    if [ "$(cat "$object.command" 2>/dev/null)" != "$command" ] || [ -n "$(find tp_*.h -newer "$object" 2>&1)" ]; then
        rm -f "$object" "$object.command"
        if ! $command -c "$out/library.c" -o "$object" >"$log" 2>&1; then
            echo "FAIL $config (the headers do not compile)"; head -n 20 "$log"; echo "0 1 0"
            echo failed >"$out/$config.library"
            return
        fi
        echo "$command" >"$object.command"
    fi
    echo "     $config: the headers; $(since "$t")"; echo "0 0 0"
    echo compiled >"$out/$config.library"
}

# what a test prints and counts: one_test <configuration> <test>
one_test() {
    local config=$1 name=$2 t rc compile library=""
    local exe=$out/$config-${name##*/} log=$out/$config-${name##*/}.log
    compile=${command_of[$config]}
    if ! looks_inside "$name"; then
        local library_name=${library_of[$config]}
        until [ -s "$out/$library_name.library" ]; do sleep 0.1; done # its job was started before this one
        if ! grep -q compiled "$out/$library_name.library"; then echo "FAIL $config/$name (without the headers)"; echo "0 1 0"; return; fi
        compile="$compile ${judge_of[$config]:-} $implemented" library="-x none $out/$library_name-library.o"
    fi
    # "/* needs: lmdb.h -DTP_LMDB -llmdb */" in a test's source: a header, and flags where it and its library are there. The test
    # skips without them.
    local needs flags=""
    needs=$(sed -n 's|^/\* needs: \(.*\) \*/$|\1|p' "$(source_of "$name")")
    if [ -n "$needs" ] && printf '#include <%s>\nint main(void) { return 0; }\n' "${needs%% *}" |
        $compile -x c - -o "$exe" ${needs#* } >/dev/null 2>&1; then flags=${needs#* }; fi
    t=$(now)
    if ! $compile -Itests "$(source_of "$name")" $library -o "$exe" $flags -lm -lpthread >"$log" 2>&1; then
        echo "FAIL $config/$name (does not compile)"; head -n 20 "$log"; echo "0 1 0"; return
    fi
    compile=$(since "$t") t=$(now)
    [ -z "${quick_in[$config]:-}" ] || export TP_TEST_QUICK=1
    within ${runner_of[$config]:-} "$exe" >"$log" 2>&1 </dev/null
    rc=$?
    grep '^skip ' "$log" >"$out/$config-${name##*/}.skipped"
    counted "$config/$name" "$log" $rc "$compile + $(since "$t")"
}
# the sum that a test printed last: counted <name> <log> <status> <seconds>
counted() {
    local name=$1 log=$2 rc=$3 seconds=$4 line
    line=$(tail -n 1 "$log" | grep -E '^[0-9]+ passed, [0-9]+ failed')
    if [ -z "$line" ]; then
        case $rc in
            124 | 137) echo "FAIL $name (was ended after $limit s)" ;;
            *) echo "FAIL $name (ended with status $rc; $seconds)" ;;
        esac
        tail -n 15 "$log"; echo "0 1 0"; return
    fi
    local p f s
    p=$(echo "$line" | sed -E 's/^([0-9]+) passed.*/\1/')
    f=$(echo "$line" | sed -E 's/.* ([0-9]+) failed.*/\1/')
    s=$(echo "$line" | sed -nE 's/.* ([0-9]+) skipped.*/\1/p')
    echo "     $name: $line; $seconds"
    if [ "$f" != 0 ] || [ "$rc" != 0 ]; then
        [ "$f" = 0 ] && f=1
        grep -vE '^ok ' "$log" | tail -n 40
    fi
    echo "$p $f ${s:-0}"
}

one_check() { # status 77: it cannot be made here, and says why; a line "skip <what>: <why>": a part of it
    local name log rc t
    name=$(basename "$1" .sh)
    log=$out/$name.sh.log
    t=$(now)
    within bash "$1" >"$log" 2>&1
    rc=$?
    if [ $rc = 0 ]; then
        grep '^skip ' "$log" >"$out/$name.skipped"
        echo "ok   $name; $(since "$t")"; echo "1 0 $(wc -l <"$out/$name.skipped")"
    elif [ $rc = 77 ]; then
        echo "     $name: skipped"; echo "0 0 1"
        tail -n 1 "$log" | sed 's/^skip //; s/^/skip /' >"$out/$name.skipped"
    elif [ $rc = 124 ] || [ $rc = 137 ]; then echo "FAIL $name (was ended after $limit s)"; tail -n 20 "$log"; echo "0 1 0"
    else echo "FAIL $name; $(since "$t")"; tail -n 20 "$log"; echo "0 1 0"; fi
}

# the GPU's code on the CPU
one_shim() {
    local log=$out/shim-$1.log t rc
    t=$(now)
    within bash tests/gpu/shim.sh "$1" >"$log" 2>&1
    rc=$?
    grep '^skip ' "$log" >"$out/shim-$1.skipped"
    counted "shim/$1" "$log" $rc "$(since "$t")"
}

# with the environment that `make interop` makes, the tests that read and write with numpy run too
[ -n "${TP_TEST_PYTHON:-}" ] || { [ -x build/venv/bin/python ] && export TP_TEST_PYTHON=$PWD/build/venv/bin/python; }

tests=$(cd tests && printf '%s ' test_*.c | sed 's/\.c / /g')
# what looks inside compiles the headers itself, which takes an optimizer with sanitizers half a minute; test_engine computes so much
# that it gains by it, and test_amx is optimized where there are no sanitizers
computing=" test_engine test_amx" inside="" linked=""
for t in $tests; do
    case "$computing " in *" $t "*) continue ;; esac
    if looks_inside "$t"; then inside="$inside $t"; else linked="$linked $t"; fi
done
# clang's UBSan finds all that gcc's finds and more: arithmetic on NULL, floats that do not fit the integer they become
sanitizers="-g1 -fno-omit-frame-pointer -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=undefined,float-cast-overflow"
sanitized=gcc
if echo 'int main(void) { return 0; }' | clang -fsanitize=address,undefined -x c -o "$out/sanitized.runs" - 2>/dev/null; then
    sanitized=clang
    # Half the time to compile: accesses are checked by calls in all functions but small ones, and the sizes of objects by ASan alone.
    sanitizers="$sanitizers -fno-sanitize=object-size -mllvm -asan-instrumentation-with-call-threshold=100"
else
    left_out+=("clang's sanitizers: Debian packages clang, libclang-rt-14-dev are missing; gcc's are taken")
fi
configuration asan "$linked test_engine" "$sanitized -std=gnu11 -O1 $sanitizers"
judged_with -O0
quick
configuration asan-o0 "$inside test_amx" "$sanitized -std=gnu11 -O0 $sanitizers"
quick
# A test that is linked to the headers gains less by an optimizer than the optimizer takes.
configuration gcc-c11 "$tests" "gcc -std=c11 -O2"
judged_with -O1
configuration clang-c99 "$linked$computing" "clang -std=c99 -O2"
judged_with -O0
quick # gcc-c11 runs the long forms
configuration clang-c99-o0 "$inside" "clang -std=c99 -O0"
quick
configuration tsan "test_tensor test_engine test_input test_parallel test_train test_graph test_predict test_devices test_towers test_sources" \
    "gcc -std=gnu11 -O1 -g1 -fsanitize=thread"
judged_with -O0
run_with "env TSAN_OPTIONS=die_after_fork=0:atexit_sleep_ms=0" # processes that are forked by a thread begin threads, and end at once
quick
configuration g++-17 "test_ops test_graph test_places test_train" "g++ -x c++ -std=c++17 -O0" # AMX's products: check_amx.sh
quick
configuration g++-20 test_named "g++ -x c++ -std=c++20 -O0" # check_cpp.sh compiles the headers so
linked_with g++-17
# NEON, run by an emulator where there is one
if command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null; then
    configuration neon "test_engine test_ops" "aarch64-linux-gnu-gcc -std=c11 -O2"
    run_with "qemu-aarch64 -L /usr/aarch64-linux-gnu"
    quick
else
    left_out+=("neon: Debian packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user are missing")
fi
# the lowest byte last: what is written and read in files. (gnu11, because c11 has floats computed as doubles there)
if command -v s390x-linux-gnu-gcc >/dev/null && command -v qemu-s390x >/dev/null; then
    configuration big-endian "test_files test_checkpoint test_readers test_import test_numbers test_zmq" "s390x-linux-gnu-gcc -std=gnu11 -O1"
    judged_with -O0
    run_with "qemu-s390x -L /usr/s390x-linux-gnu"
    quick
else
    left_out+=("big-endian: Debian packages gcc-s390x-linux-gnu, libc6-dev-s390x-cross, qemu-user are missing")
fi
# CUDA on the CPU, which the GPU's code is tested with; the thread sanitizer sees races between the threads of a kernel
shim="-std=c++17 -DTP_CUDA_SHIM -Itests/gpu/shim tests/gpu/shim/shim.cpp tests/gpu/shim/libraries.cpp"
if command -v clang++ >/dev/null; then
    configuration shim-asan gpu/test_shim.cpp "clang++ -O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined $shim"
    quick
    configuration shim-tsan gpu/test_shim.cpp "clang++ -O0 -g1 -fsanitize=thread $shim"
    quick
elif command -v g++ >/dev/null; then
    configuration shim gpu/test_shim.cpp "g++ -O1 -g1 $shim"
    quick
else
    left_out+=("shim: no C++ compiler")
fi
# arithmetic as its users bend it (tests/check_numbers.sh compares the bits): the headers so, the tests that judge them plainly
numeric="test_ops test_ops_nn test_tensor test_optim test_train"
configuration ofast "$numeric" "gcc -std=c11 -Ofast -ffp-contract=fast"
judged_with "-O1 -fno-fast-math"
quick
configuration clang-ofast "$numeric" "clang -std=c99 -Ofast -fno-finite-math-only"
judged_with "-O1 -fno-fast-math"
quick
# 32-bit x86 without options: x87
if command -v i686-linux-gnu-gcc >/dev/null && [ "$(uname -m)" = x86_64 ]; then
    configuration i686 "$numeric test_graph test_files" "i686-linux-gnu-gcc -std=c11 -O2 -static"
    quick
else
    left_out+=("i686: Debian packages gcc-i686-linux-gnu, libc6-dev-i386-cross are missing, or the processor is no x86-64")
fi
# a program that has asked for a locale with a decimal comma
rm -rf "$out/locale"
if mkdir -p "$out/locale" && localedef -i de_DE -f UTF-8 "$out/locale/de_DE.UTF-8" 2>/dev/null; then
    configuration locale "test_numbers test_train test_export test_files test_checkpoint test_import" "gcc -std=c11 -O2"
    judged_with -O0
    run_with "env LOCPATH=$PWD/$out/locale TP_TEST_LOCALE=de_DE.UTF-8"
    quick
else
    left_out+=("locale: Debian package locales is missing")
fi
configuration zip64 test_files "gcc -std=c11 -O0 -DTP__ZIP64_FROM=200u"
quick
if grep -qw amx_bf16 /proc/cpuinfo 2>/dev/null; then
    configuration processor test_amx "gcc -std=c11 -O2 -DAMX_REAL" # with the processor's own instructions
    quick
else
    left_out+=("processor: it has no AMX instructions")
fi
mkdir -p "$out/plain"
cp -p tp_[!f]*.h "$out/plain/"
configuration plain "test_ops test_ops_nn test_plans test_graph test_layers test_optim test_train" "gcc -std=c11 -O2" "$out/plain"
judged_with -O0
quick
configuration no-threads "test_train test_towers test_sources" "gcc -std=c11 -O0 -DTP_NO_THREADS"
quick
configuration no-formats "test_train test_graph" "gcc -std=c11 -O0 -DTP_NO_SAFETENSORS -DTP_NO_TF_CHECKPOINT"
quick

# In an order that leaves the short ones for last, so that all processors end together: the headers, what compiles much
# by itself, the tests that wait for a configuration's headers.
rm -f "$out"/*.library
declare -A begun
for c in "${configurations[@]}"; do
    l=${library_of[$c]}
    for t in ${tests_of[$c]}; do
        if [ -z "${begun[$l]:-}" ] && wanted "$c/$t" && ! looks_inside "$t"; then
            begun[$l]=1
            start "$l-library" one_library "$l"
        fi
    done
done
# the ranks of a job wait for each other, and for a time limit where one of them is killed
for s in tests/check_mpi*.sh; do wanted "$s" && order+=("$(basename "$s" .sh)"); done
{ for s in tests/check_mpi*.sh; do wanted "$s" && report "$(basename "$s" .sh)" one_check "$s"; done; } &
waiting=$!
for t in test_cuda test_shim; do wanted "shim/$t" && start "shim-$t" one_shim "$t"; done
for s in tests/check_*.sh; do
    case "$s" in tests/check_mpi*) continue ;; esac # they run already
    wanted "$s" && start "$(basename "$s" .sh)" one_check "$s"
done
for inside in yes no; do
    for c in "${configurations[@]}"; do
        for t in ${tests_of[$c]}; do
            if wanted "$c/$t" && [ $inside = "$(looks_inside "$t" && echo yes || echo no)" ]; then
                start "$c-${t##*/}" one_test "$c" "$t"
            fi
        done
    done
done

wait
for name in ${order[@]+"${order[@]}"}; do
    read -r p f s <<<"$(tail -n 1 "$out/$name.report")"
    case "$p/$f/$s" in *[!0-9/]* | //) echo "FAIL $name (no result)"; p=0 f=1 s=0 ;; esac
    [ "$f" = 0 ] || failures="${failures:-} $name"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    [ ! -s "$out/$name.skipped" ] || sed "s|^skip |skip $name: |" "$out/$name.skipped"
done
for why in ${left_out[@]+"${left_out[@]}"}; do
    if [ -z "$only" ]; then echo "skip $why"; skipped=$((skipped + 1)); fi
done
[ -z "${failures:-}" ] || echo "failed:$failures"
# the commands that took the most processor time, user and system together
for name in ${order[@]+"${order[@]}"}; do
    sed -E "2!d; s/([0-9]+)m([0-9.]+)s ([0-9]+)m([0-9.]+)s/\1 \2 \3 \4 $name/" "$out/$name.times"
done | awk '{printf "%.0f %s\n", $1 * 60 + $2 + $3 * 60 + $4, $5}' | sort -rn |
    awk '{sum += $1; if (NR <= 12) list = list (NR > 1 ? ", " : "") $2 " " $1} END {print "processor time " sum " s: " list}'
echo "$(($(date +%s) - began)) s with $jobs at a time"
line="$passed passed, $failed failed"
[ "$skipped" = 0 ] || line="$line, $skipped skipped"
echo "$line"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
