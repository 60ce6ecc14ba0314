/* test_lmdb.c - LMDB files as dataflows (tp_input.h, >>readers), looked at with liblmdb itself */
/* needs: lmdb.h -DTP_LMDB -llmdb */
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_input.h"
#include "tp_test.h"

#ifndef TP_LMDB
TEST(lmdb) { TEST_SKIP("lmdb.h or its library was not found (Debian: liblmdb-dev)"); }
#else
#include "ref_readers.h"
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* i as float32 (2): 10 i, 10 i + 1, and as int32. */
static tp_status numbered(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const int64_t two = 2;
    (void)pass;
    if (index >= *(const int *)user) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 2);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_F32, tp_make_shape_n(1, &two));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I32, tp_make_shape_n(0, NULL));
    if (st != TP_OK) return st;
    for (int k = 0; k < 2; k++) ((float *)dp->c[0].data)[k] = (float)(10 * index + k);
    *(int32_t *)dp->c[1].data = (int32_t)index;
    return TP_OK;
}

static const char *saved(int n)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "x.mdb");
    tp_dataflow *df = tp_df_from_generator(numbered, &n);
    CHECK_OK(tp_lmdb_save(df, path));
    tp_df_free(df);
    return path;
}

static bool is_number(const tp_datapoint *dp, int i)
{
    return dp->n == 2 && dp->c[0].dtype == TP_F32 && dp->c[0].shape.ndim == 1 && tp_tensor_size(&dp->c[0]) == 2 &&
           tp_tensor_get(&dp->c[0], 0) == 10 * i && tp_tensor_get(&dp->c[0], 1) == 10 * i + 1 &&
           dp->c[1].dtype == TP_I32 && tp_tensor_get(&dp->c[1], 0) == i;
}

TEST(keys_and_values_are_those_of_the_serializer)
{
    const char *path = saved(3);
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    MDB_dbi dbi = 0;
    MDB_cursor *cursor = NULL;
    MDB_val k, v;
    CHECK(mdb_env_create(&env) == 0 && mdb_env_open(env, path, MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK, 0644) == 0);
    CHECK(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn) == 0 && mdb_dbi_open(txn, NULL, 0, &dbi) == 0);
    CHECK(mdb_cursor_open(txn, dbi, &cursor) == 0);
    for (int i = 0; i < 4 && CHECK(mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == 0); i++) {
        /* two tensors: float32 (2,) of 8 bytes, then int32 scalar of 4 */
        const float x[2] = {(float)(10 * i), (float)(10 * i + 1)};
        const int32_t y = i;
        unsigned char want[64];
        size_t n = 0;
        memcpy(want,
               "\2\0\0\0"
               "\1\0\0\0"
               "\1\0\0\0"
               "\2\0\0\0"
               "\x08\0\0\0\0\0\0\0",
               24),
            n += 24;
        memcpy(want + n, x, 8), n += 8;
        memcpy(want + n,
               "\3\0\0\0"
               "\0\0\0\0"
               "\4\0\0\0\0\0\0\0",
               16),
            n += 16;
        memcpy(want + n, &y, 4), n += 4;
        char key[16];
        snprintf(key, sizeof key, i < 3 ? "%08d" : "__keys__", i);
        CHECK(k.mv_size == 8 && memcmp(k.mv_data, key, 8) == 0);
        if (i < 3) CHECK_MSG(v.mv_size == n && memcmp(v.mv_data, want, n) == 0, "value %d", i);
        else
            CHECK(v.mv_size == sizeof ref_keys &&
                  memcmp(v.mv_data, ref_keys, sizeof ref_keys) == 0); /* Python reads it */
    }
    CHECK(mdb_cursor_get(cursor, &k, &v, MDB_NEXT) == MDB_NOTFOUND);
    mdb_cursor_close(cursor);
    mdb_txn_abort(txn);
    mdb_env_close(env);
}

TEST(what_was_saved_is_read)
{
    const char *path = saved(3000); /* more than one transaction takes */
    tp_dataflow *df = tp_df_lmdb(path, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    CHECK(tp_df_size(df) == 3000);
    int right = 0;
    for (int i = 0; i < 3000 && tp_df_next(df, &dp) == TP_OK; i++) right += is_number(&dp, i);
    CHECK(right == 3000);
    CHECK(tp_df_next(df, &dp) == TP_END);
    tp_df_free(df);
    df = tp_df_lmdb(path); /* shuffled */
    for (int pass = 0; pass < 2; pass++) {
        static unsigned char seen[3000];
        int moved = 0;
        memset(seen, 0, sizeof seen);
        CHECK_OK(tp_df_restart(df, pass));
        for (int i = 0; i < 3000 && CHECK_OK(tp_df_next(df, &dp)); i++) {
            const int k = (int)tp_tensor_get(&dp.c[1], 0);
            CHECK(k >= 0 && k < 3000 && is_number(&dp, k) && !seen[k]++);
            moved += k != i;
        }
        CHECK(moved > 2900);
    }
    double then[10];
    CHECK_OK(tp_df_restart(df, 5));
    for (int i = 0; i < 10 && CHECK_OK(tp_df_next(df, &dp)); i++) then[i] = tp_tensor_get(&dp.c[1], 0);
    CHECK_OK(tp_df_restart(df, 5));
    CHECK_OK(tp_df_seek(df, 7, NULL));
    for (int i = 7; i < 10 && CHECK_OK(tp_df_next(df, &dp)); i++) CHECK(tp_tensor_get(&dp.c[1], 0) == then[i]);
    tp_test_fail_after(1); /* and allocates nothing */
    while (tp_df_next(df, &dp) == TP_OK) continue;
    CHECK(!tp_test_alloc_failed());
    tp_test_alloc_reset();
    tp_df_free(df);
    df = tp_df_lmdb(path, .raw = TP_YES, .shuffle = TP_NO);
    CHECK_OK(tp_df_seek(df, 17, NULL));
    CHECK_OK(tp_df_next(df, &dp));
    CHECK(dp.n == 2 && dp.c[0].dtype == TP_U8 && tp_tensor_size(&dp.c[0]) == 8 &&
          memcmp(dp.c[0].data, "00000017", 8) == 0);
    CHECK(tp_tensor_size(&dp.c[1]) == 52);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

TEST(zero_in_the_options)
{
    const char *path = saved(3);
    tp_dataflow *df = tp_df_lmdb(path, .seed = (uint64_t)TP_NONE);
    CHECK_OK(tp_df_status(df));
    CHECK(df->seed == 0);
    tp_df_free(df);
    df = tp_df_lmdb(path);
    CHECK(df->seed == 42);
    tp_df_free(df);
}

TEST(a_folder_of_another_program)
{
    const char *dir = tp_test_tmpdir();
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    MDB_dbi dbi = 0;
    CHECK(mdb_env_create(&env) == 0 && mdb_env_open(env, dir, 0, 0644) == 0 && mdb_txn_begin(env, NULL, 0, &txn) == 0);
    CHECK(mdb_dbi_open(txn, NULL, 0, &dbi) == 0);
    char good[] = "\1\0\0\0"
                  "\3\0\0\0"
                  "\0\0\0\0"
                  "\4\0\0\0\0\0\0\0"
                  "\7\0\0",
         bad[] = "\1\0\0\0"
                 "\3\0\0";
    MDB_val k, v;
    k.mv_data = (void *)(uintptr_t) "b", k.mv_size = 1, v.mv_data = bad, v.mv_size = 7;
    CHECK(mdb_put(txn, dbi, &k, &v, 0) == 0);
    k.mv_data = (void *)(uintptr_t) "a", v.mv_data = good, v.mv_size = 24;
    CHECK(mdb_put(txn, dbi, &k, &v, 0) == 0 && mdb_txn_commit(txn) == 0);
    mdb_env_close(env);
    tp_dataflow *df = tp_df_lmdb(dir, .shuffle = TP_NO);
    tp_datapoint dp = {0, NULL, 0};
    CHECK(tp_df_size(df) == 2);
    CHECK(CHECK_OK(tp_df_next(df, &dp)) && tp_tensor_get(&dp.c[0], 0) == 7);
    CHECK(tp_df_next(df, &dp) == TP_ERR_FORMAT && strstr(tp_last_error(), "key \"b\""));
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

static void refused(const char *path, tp_status st, const char *part)
{
    tp_dataflow *df = tp_df_lmdb(path);
    CHECK_ERR(tp_df_status(df), st, part);
    tp_df_free(df);
}

TEST(lmdb_files_that_cannot_be_read)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "bad.mdb");
    int three = 3;
    refused(path, TP_ERR_IO, "bad.mdb cannot be opened");
    refused(NULL, TP_ERR_ARG, "the path is NULL");
    CHECK(tp_test_write(path, "no LMDB file at all", 19));
    tp_dataflow *df = tp_df_lmdb(path);
    CHECK(tp_df_status(df) != TP_OK && strstr(tp_last_error(), "bad.mdb cannot be opened"));
    tp_df_free(df);
    CHECK(tp_test_write(path, "", 0));
    refused(path, TP_ERR_FORMAT, "bad.mdb is empty, so it is no LMDB");
    char folder[400];
    snprintf(folder, sizeof folder, "%s/folder.mdb", dir);
    CHECK(mkdir(folder, 0700) == 0);
    refused(folder, TP_ERR_IO, "folder.mdb is a folder without data.mdb");
    const char *good = saved(3000);
    char *data;
    size_t size;
    CHECK_OK(tp_file_read(good, false, 0, &data, &size));
    CHECK(tp_test_write(path, data, size / 2)); /* its header speaks of pages that are not there */
    tp_free(data);
    refused(path, TP_ERR_FORMAT, "bad.mdb is cut short: it has");
    df = tp_df_from_generator(numbered, &three);
    CHECK_ERR(tp_lmdb_save(df, good), TP_ERR_IO, "x.mdb exists");
    CHECK_ERR(tp_lmdb_save(df, tp_test_path(dir, "none/x.mdb")), TP_ERR_IO, "cannot be written");
    tp_df_free(df);
}

static tp_status fails_at_two(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    return index == 2 ? tp_fail(TP_ERR_STATE, "enough") : numbered(user, pass, index, dp);
}
TEST(a_failure_leaves_no_file)
{
    const char *dir = tp_test_tmpdir(), *path = tp_test_path(dir, "x.mdb");
    int three = 3;
    tp_dataflow *df = tp_df_from_generator(fails_at_two, &three);
    CHECK_ERR(tp_lmdb_save(df, path), TP_ERR_STATE, "enough");
    tp_df_free(df);
    CHECK(tp_test_files_in(dir) == 0);
}

static const char *raced, *raced_in;
static tp_status another_was_faster(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    if (index == 1) CHECK(tp_test_write(raced, "the other's", 11));
    if (index == 2) CHECK(tp_test_files_in(raced_in) == 2);
    return numbered(user, pass, index, dp);
}
static tp_status ends_its_process(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    if (index == 2) _exit(3);
    return numbered(user, pass, index, dp);
}
/* Of two processes that write one file the first is done, and the other one says so; what a killed one leaves is removed. */
TEST(a_file_is_not_replaced)
{
    const char *dir = tp_test_tmpdir();
    char *data;
    size_t size;
    int three = 3, status = 0;
    raced_in = dir;
    raced = tp_test_path(dir, "x.mdb");
    tp_dataflow *df = tp_df_from_generator(another_was_faster, &three);
    CHECK_ERR(tp_lmdb_save(df, raced), TP_ERR_IO, "x.mdb was made by another process meanwhile");
    tp_df_free(df);
    CHECK_OK(tp_file_read(raced, true, 0, &data, &size));
    CHECK_STR(data, "the other's");
    tp_free(data);
    CHECK(tp_test_files_in(dir) == 1 && remove(raced) == 0);
    df = tp_df_from_generator(ends_its_process, &three);
    const pid_t pid = fork();
    if (pid == 0) tp_lmdb_save(df, raced), _exit(1);
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 3);
    tp_df_free(df);
    CHECK(tp_test_files_in(dir) == 1);
    df = tp_df_from_generator(numbered, &three);
    CHECK_OK(tp_lmdb_save(df, raced));
    tp_df_free(df);
    CHECK(tp_test_files_in(dir) == 1 && tp_file_exists(raced));
}

/* sanitizers need more addresses than that */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LMDB_IS_SANITIZED
#endif
#endif
#if !defined(LMDB_IS_SANITIZED) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(RLIMIT_AS)
/* With little address space (ulimit -v) a file can still be written and read. */
TEST(lmdb_with_few_addresses)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "few.mdb");
    const pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit few = {(rlim_t)1 << 30, (rlim_t)1 << 30};
        int three = 3, n = 0;
        tp_dataflow *df = tp_df_from_generator(numbered, &three);
        tp_datapoint dp = {0, NULL, 0};
        if (setrlimit(RLIMIT_AS, &few) != 0 || tp_lmdb_save(df, path) != TP_OK) _exit(1);
        tp_df_free(df);
        for (df = tp_df_lmdb(path); tp_df_next(df, &dp) == TP_OK; n++)
            ;
        _exit(n == 3 ? 0 : 2);
    }
    int status = 1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_MSG(status == 0, "status %d", status);
}

static tp_status of_32_megabytes(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const int64_t n = 32 << 20;
    (void)user, (void)pass;
    if (index == 1) return TP_END;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_U8, tp_make_shape_n(1, &n));
    if (st == TP_OK) memset(dp->c[0].data, 1, (size_t)n);
    return st;
}
/* A file that does not fit into the addresses that are left is a flow that says so. */
TEST(lmdb_that_cannot_be_mapped)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "large.mdb");
    tp_dataflow *df = tp_df_from_generator(of_32_megabytes, NULL);
    CHECK_OK(tp_lmdb_save(df, path));
    tp_df_free(df);
    const pid_t pid = fork();
    if (pid == 0) {
        unsigned long pages = 0;
        FILE *f = fopen("/proc/self/statm", "r");
        const bool is_known = f && fscanf(f, "%lu", &pages) == 1;
        const rlim_t few = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)8 << 20);
        const struct rlimit limit = {few, few};
        if (!is_known) _exit(0); /* not Linux */
        if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(1);
        df = tp_df_lmdb(path);
        if (!df || tp_df_status(df) != TP_ERR_IO) _exit(2);
        _exit(strstr(tp_last_error(), "large.mdb: liblmdb cannot map its 33") && strstr(tp_last_error(), "ulimit -v")
                  ? 0
                  : 3);
    }
    int status = 1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_MSG(status == 0, "status %d", status);
}

/* A file that may not become so large fails, and the sentence says what to look at. */
TEST(lmdb_above_a_limit_of_the_file_size)
{
    const char *path = tp_test_path(tp_test_tmpdir(), "limited.mdb");
    const pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit few = {(rlim_t)1 << 20, (rlim_t)1 << 20};
        signal(SIGXFSZ, SIG_IGN);
        if (setrlimit(RLIMIT_FSIZE, &few) != 0) _exit(1);
        if (tp_lmdb_save(tp_df_from_generator(of_32_megabytes, NULL), path) != TP_ERR_IO) _exit(2);
        _exit(strstr(tp_last_error(), "ulimit -f") || strstr(tp_last_error(), "too large") ? 0 : 3);
    }
    int status = 1;
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_MSG(status == 0, "status %d", status);
}
#endif

TEST(lmdb_without_memory)
{
    const char *path = saved(3);
    for (long n = 1, failed = 1; failed && n < 1000; n++) {
        tp_test_fail_after(n);
        tp_dataflow *df = tp_df_lmdb(path);
        tp_datapoint dp = {0, NULL, 0};
        tp_status st = df ? tp_df_status(df) : TP_ERR_NOMEM;
        while (st == TP_OK) st = tp_df_next(df, &dp);
        failed = tp_test_alloc_failed();
        CHECK(st == TP_END || (failed && st == TP_ERR_NOMEM));
        tp_df_free(df);
        tp_datapoint_free(&dp);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    const char *dir = tp_test_tmpdir(), *made = tp_test_path(dir, "x.mdb");
    int three = 3;
    for (long n = 1, failed = 1; failed && n < 1000; n++) {
        tp_test_fail_after(n);
        tp_dataflow *df = tp_df_from_generator(numbered, &three);
        const tp_status st = df ? tp_lmdb_save(df, made) : TP_ERR_NOMEM;
        failed = tp_test_alloc_failed();
        CHECK(failed ? st == TP_ERR_NOMEM : st == TP_OK);
        tp_df_free(df);
        CHECK(tp_test_files_in(dir) == (st == TP_OK));
        remove(made);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
}
#endif

TEST_MAIN()
