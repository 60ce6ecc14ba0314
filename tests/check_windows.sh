#!/usr/bin/env bash
# Windows: mingw-w64 builds all headers, the README's trainer, the examples, and the tests that need no POSIX; wine runs these.
set -eu
cd "$(dirname "$0")/.."
cc=x86_64-w64-mingw32-gcc
command -v $cc >/dev/null || { echo "$cc is missing (Debian: gcc-mingw-w64-x86-64)"; exit 77; }
dir=build/test/windows
rm -rf "$dir/tmp"
mkdir -p "$dir/tmp"
implemented=""
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; implemented="$implemented -DTP__${h^^}_IMPLEMENTED"; done
{ echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_*.h; } >"$dir/library.c"
$cc -std=c11 -O0 -Wall -Wextra -Wno-type-limits -Werror -I. -c "$dir/library.c" -o "$dir/library.o"
awk '/^```c$/ {on = 1; next} /^```$/ {if (on) exit} on' README.md >"$dir/trainer.c"
$cc -std=c11 -O0 -I. "$dir/trainer.c" -o "$dir/trainer.exe" -lm
for f in examples/*.c; do # linked to the implementation that is there, without the macros that change what the headers declare
    sed -E 's/^#define TP_(STATIC|NO_[A-Z_]*)/#define EXAMPLE_\1/' "$f" |
        $cc -std=c11 -O0 $implemented -I. -Iexamples -x c - -x none "$dir/library.o" -o "$dir/$(basename "$f" .c).exe" -lm || { echo "$f"; exit 1; }
done
tests="test_ops test_gradients2 test_graph test_optim test_predict test_parallel"
for t in $tests; do
    if grep -qE '^#define (TP_STATIC|TP_NAIVE)' "tests/$t.c"; then
        $cc -std=gnu11 -O1 -Itests -I. "tests/$t.c" -o "$dir/$t.exe" -lm
    else
        $cc -std=gnu11 -O1 $implemented -Itests -I. "tests/$t.c" "$dir/library.o" -o "$dir/$t.exe" -lm
    fi
done
# files: written, over themselves, set aside, listed, and what another process left removed
cat >"$dir/files.c" <<'C'
#include "tp_train.h"
#include <direct.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
#define MUST(x_) do { if (!(x_)) { printf("line %d: %s: %s\n", __LINE__, #x_, tp_last_error()); exit(1); } } while (0)
static void folders(void) /* are separated by both characters; a drive and a share are not made */
{
    char drive[600], here[300];
    MUST(tp_make_dirs("made\\by\\both/of\\\\them\\") == TP_OK && tp_file_exists("made/by/both/of/them"));
    MUST(_getcwd(here, sizeof here) && here[1] == ':');
    snprintf(drive, sizeof drive, "%s\\log\\of\\this\\", here);
    for (char *p = drive; *p; p++)
        if (*p == '/') *p = '\\';
    MUST(tp_logger_set_dir(drive, 'k') == TP_OK && tp_file_exists("log/of/this/log.log"));
    drive[strlen(drive) - 1] = 0;
    MUST(strcmp(tp_logger_dir(), drive) == 0 && tp_logger_set_dir(NULL, 0) == TP_OK);
    snprintf(drive, sizeof drive, "%.2s\\", here);
    MUST(tp_make_dirs(drive) == TP_OK && tp_make_dirs("\\") == TP_OK);
    snprintf(drive, sizeof drive, "\\\\?\\%s\\share\\a", here); /* has the form of a server and its share */
    MUST(tp_make_dirs(drive) == TP_OK && tp_file_exists("share/a"));
    MUST(tp_make_dirs("\\\\none.invalid\\share\\a") == TP_ERR_IO);
    MUST(strstr(tp_last_error(), "\\\\none.invalid\\share\\a cannot be made") != NULL);
}
static void odd_names(const tp_dict *d) /* not UTF-8: J\xf6rg.npy and J\xfcrg.npy would be the same file */
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const char *const sentence = "the path is not UTF-8, as every path must be on Windows. Convert";
    tp_checkpoint_entry *e = NULL;
    int n = 0;
    MUST(tp_npy_save("J\xf6rg.npy", &d->item[0].value) == TP_ERR_IO && strstr(tp_last_error(), sentence));
    MUST(tp_npz_save("J\xf6rg.npz", d, false) == TP_ERR_IO && strstr(tp_last_error(), sentence));
    MUST(tp_npy_load("J\xf6rg.npy", &t) == TP_ERR_IO && strstr(tp_last_error(), sentence));
    MUST(tp_make_dirs("J\xf6rg") == TP_ERR_IO && strstr(tp_last_error(), sentence));
    MUST(tp_logger_set_dir("J\xf6rg", 'd') != TP_OK && strstr(tp_last_error(), sentence));
    MUST(tp_get_all_checkpoints("J\xf6rg", "model", &e, &n) != TP_OK && strstr(tp_last_error(), sentence));
    tp_dict none;
    memset(&none, 0, sizeof none);
    MUST(tp_load_checkpoint_vars("J\xf6rg/model-1", &none) != TP_OK && strstr(tp_last_error(), sentence));
    MUST(!tp_file_exists("J\xf6rg.npy") && !tp_file_exists("J\xef\xbf\xbdrg.npy"));
    MUST(tp_npy_save("J\xc3\xb6rg.npy", &d->item[0].value) == TP_OK && !tp_file_exists("J\xc3\xbcrg.npy"));
    char name[241]; /* a long name: with the ending of a temporary file it would be too long */
    memset(name, 'n', 240);
    name[240] = 0;
    MUST(tp_npy_save(name, &d->item[0].value) == TP_OK && tp_npy_load(name, &t) == TP_OK);
    tp_tensor_free(&t);
}
static void home(void) /* HOME or, without it, USERPROFILE, which need not be in the system's code page */
{
    tp_dataflow *df = NULL;
    MUST(SetEnvironmentVariableW(L"HOME", NULL) && SetEnvironmentVariableW(L"USERPROFILE", L"C:\\none\\\x160"));
    MUST(SetEnvironmentVariableW(L"TP_DATA", NULL) && SetEnvironmentVariableW(L"TENSORPACK_DATASET", NULL));
    MUST((df = tp_df_mnist("train")) != NULL && tp_df_status(df) == TP_ERR_IO);
    MUST(strstr(tp_last_error(), "C:\\none\\\xc5\xa0/tensorpack_data/mnist_data/train-images") != NULL);
    tp_df_free(df);
    MUST((df = tp_df_cifar10("train")) != NULL && tp_df_status(df) == TP_ERR_IO);
    MUST(strstr(tp_last_error(), "C:\\none\\\xc5\xa0/tensorpack_data/cifar10_data") != NULL);
    tp_df_free(df);
    MUST(SetEnvironmentVariableW(L"HOME", L"D:\\home"));
    MUST((df = tp_df_mnist("train")) != NULL && tp_df_status(df) == TP_ERR_IO);
    MUST(strstr(tp_last_error(), "D:\\home/tensorpack_data/mnist_data/train-images") != NULL);
    tp_df_free(df);
}
static void run(void *user) { *(int *)user += 1; }
int main(void)
{
    tp_dict d;
    tp_checkpoint_entry *e = NULL;
    tp_thread *thread = NULL;
    char *text = NULL, dir[300];
    size_t size = 0;
    int n = 0, ran = 0;
    memset(&d, 0, sizeof d);
    MUST(tp_logger_auto_set_dir("c:\\x\\files.exe", "name", 'k') == TP_OK); /* no colon in a name */
    MUST(strcmp(tp_logger_dir(), "train_log/files_name") == 0);
    MUST(tp_logger_set_dir("files/\xc3\xa9", 'k') == TP_OK);
    for (int i = 0; i < 3; i++) /* Windows renames no file that is open, and no folder that holds one */
        MUST(tp_logger_set_dir(NULL, 0) == TP_OK &&
             tp_logger_set_dir("files/\xc3\xa9", i < 2 ? 'k' : 'b') == TP_OK);
    snprintf(dir, sizeof dir, "%s", tp_logger_dir());
    tp_tensor *t = tp_dict_add(&d, "x");
    MUST(t && tp_tensor_resize(t, TP_F32, tp_make_shape(3)) == TP_OK);
    static const char *const names[] = {"model-1.npz", "model-2.safetensors", "model-3.index"};
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 3; i++) {
            char path[400];
            snprintf(path, sizeof path, "%s/%s", dir, names[i]);
            ((float *)t->data)[0] = (float)round;
            MUST(tp_save_checkpoint_vars(&d, path) == TP_OK);
            tp_dict back;
            memset(&back, 0, sizeof back);
            MUST(tp_load_checkpoint_vars(path, &back) == TP_OK && tp_tensor_get(&back.item[0].value, 0) == round);
            tp_dict_free(&back);
        }
    MUST(tp_get_all_checkpoints(dir, "model", &e, &n) == TP_OK && n == 3 && e[2].step == 3);
    tp_free(e);
    MUST(tp_file_read("files/none", false, 0, &text, &size) == TP_ERR_IO);
    MUST(tp_thread_start(&thread, run, &ran) == TP_OK);
    tp_thread_join(thread);
    MUST(ran == 1);
    tp_logger_set_dir(NULL, 0);
    MUST(tp_logger_set_dir(dir, 'd') == TP_OK && tp_get_all_checkpoints(dir, "model", &e, &n) == TP_OK && n == 0);
    tp_logger_set_dir(NULL, 0);
    folders();
    odd_names(&d);
    home();
    tp_dict_free(&d);
    puts("files: ok");
    return 0;
}
C
$cc -std=c11 -O1 $implemented -I. "$dir/files.c" "$dir/library.o" -o "$dir/files.exe" -lm
command -v wine >/dev/null || { echo "built, but wine is missing to run it (Debian: wine)"; exit 77; }
export WINEPREFIX=$PWD/$dir/prefix WINEDEBUG=fixme-all WINEDLLOVERRIDES="mscoree,mshtml=" TP_TEST_QUICK=1 TMPDIR=$PWD/$dir/tmp
timeout 300 wine cmd /c exit >/dev/null 2>&1 || { echo "wine does not start here"; exit 77; }
(cd "$dir/tmp" && timeout 120 wine ../files.exe 2>/dev/null | tr -d '\r' | tee ../files.log)
grep -qx 'files: ok' "$dir/files.log"
for t in $tests; do
    for round in 1 2; do # again where wine did not start the program: then there is not even a first test's line
        rc=0
        timeout 300 wine "$dir/$t.exe" 2>"$dir/$t.err" >"$dir/$t.out" || rc=$?
        tr -d '\r' <"$dir/$t.out" >"$dir/$t.log"
        [ ! -s "$dir/$t.log" ] || break
        echo "$t printed nothing under wine, exit code $rc, round $round"
        tail -n 5 "$dir/$t.err"
    done
    grep -E '^FAIL' -B 5 "$dir/$t.log" || true
    grep -E '^[1-9][0-9]* passed, 0 failed' "$dir/$t.log" || { echo "$t failed under wine, exit code $rc"; tail -n 5 "$dir/$t.log"; exit 1; }
done
echo ok
