#!/usr/bin/env bash
# The harness and run.sh notice what they are there for: an error in the log that no test announced (of the process itself,
# of one that it forks, behind a sink of the test's own), an announced one that does not come, a test that hangs.
set -eu
cd "$(dirname "$0")/.."
dir=build/test/harness
rm -rf "$dir"
mkdir -p "$dir/tests"
cp tp_tensor.h "$dir"
cp tests/tp_test.h tests/run.sh "$dir/tests"
cat >"$dir/tests/test_errors.c" <<'C'
#define TP_IMPLEMENTATION
#include "tp_tensor.h"
#include "tp_test.h"
#include <sys/wait.h>
static void own_sink(void *user, tp_log_level level, const char *message) { (void)user, (void)level, (void)message; }
static void in_a_child(void)
{
    const pid_t pid = fork();
    if (pid == 0) {
        tp_log(TP_LOG_ERROR, "the disk is full");
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}
TEST(good_nothing) { tp_log(TP_LOG_WARN, "the disk is full"); }
TEST(good_announced) { TEST_EXPECT_ERROR("is full"); tp_log(TP_LOG_ERROR, "the disk is full"); }
TEST(good_announced_child) { TEST_EXPECT_ERROR("is full"); in_a_child(); }
TEST(good_may) { TEST_MAY_ERROR("is full"); }
TEST(bad_unannounced) { tp_log(TP_LOG_ERROR, "the disk is full"); }
TEST(bad_other) { TEST_MAY_ERROR("is empty"); tp_log(TP_LOG_ERROR, "the disk is full"); }
TEST(bad_own_sink) { tp_set_log(own_sink, NULL); tp_log(TP_LOG_ERROR, "the disk is full"); }
TEST(bad_child) { in_a_child(); }
TEST(bad_never) { TEST_EXPECT_ERROR("is full"); }
TEST(good_last) { CHECK(1 + 1 == 2); }
TEST(good_in_part) { tp_test_left_out("no lens here"), tp_test_left_out("no lens here"); }
TEST_MAIN()
C
cat >"$dir/tests/test_hangs.c" <<'C'
#define TP_IMPLEMENTATION
#include "tp_tensor.h"
#include "tp_test.h"
TEST(before) { CHECK(1 + 1 == 2); }
TEST(hanging) { for (;;) pause(); }
TEST_MAIN()
C
gcc -std=c11 -O0 -I"$dir" -I"$dir/tests" "$dir/tests/test_errors.c" -o "$dir/errors" -lm -lpthread
"$dir/errors" >"$dir/errors.log" 2>/dev/null && { echo "unexpected errors pass"; exit 1; }
if grep -E '^(FAIL good|ok +bad)' "$dir/errors.log"; then cat "$dir/errors.log"; exit 1; fi
tail -n 1 "$dir/errors.log" | grep -qx '6 passed, 5 failed, 1 skipped'
"$dir/errors" =good_may | tail -n 1 | grep -qx '1 passed, 0 failed'
"$dir/errors" =good 2>&1 | tail -n 1 | grep -qx '0 passed, 0 failed' # not a part of a name
# the test that hangs is ended, named, and its output is shown; the others are counted
(cd "$dir" && TP_TEST_LIMIT=2 TP_TEST_JOBS=2 bash tests/run.sh gcc-c11/ >run.log 2>&1) && { echo "a test that hangs passes"; exit 1; }
grep -q '^FAIL gcc-c11/test_hangs (was ended after 2 s)' "$dir/run.log"
grep -q '^FAIL hanging (ended by SIGTERM)' "$dir/run.log"
grep -q '^ok   before' "$dir/run.log"
grep -q '^failed: .*gcc-c11-test_hangs' "$dir/run.log"
tail -n 1 "$dir/run.log" | grep -qx '6 passed, 6 failed, 1 skipped'
echo ok
