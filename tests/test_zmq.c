/* needs: zmq.h -DTP_ZMQ -lzmq */
/* test_zmq.c - datapoints as messages of zmq_ops, and what sends and receives them (tp_input.h, >>zmq)
 *
 * Where zmq.h is there, sockets too. tests/zmq_vectors.h comes from
 * numpy (tests/gen_zmq.py). tests/zmq_peer.py speaks ZeroMQ's protocol without its library: it is the other end. Where the Python
 * that TP_TEST_PYTHON names (or python3) has pyzmq and numpy, they are the other end too (tests/zmq_pyzmq.py).
 * TP_TEST_ZMQ_SECONDS=300: so long run the tests whose sender is killed and begins anew, twice; 0.3 by default. */
#define TP_IMPLEMENTATION
#define TP_STATIC
#define TP__ZMQ_SILENCE   0.3  /* seconds until a ZMQ source that has heard nothing logs that */
#define TP__STOP_SILENCE  0.3  /* ... and an input whose flow does not return */
#define TP__INPUT_SILENCE 0.3  /* ... and a run that waits for its data */
#define TP__EXAMPLE_MOST  1000 /* bytes of a tf.train.Example */
#include "tp_input.h"
#include "tp_test.h"
#include "zmq_vectors.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <netinet/in.h>

/* ==== >>messages ====================================================================================== */

static tp_datapoint none(void)
{
    tp_datapoint dp = {0, NULL, 0};
    return dp;
}
static tp_buf no_bytes(void)
{
    tp_buf b = {NULL, 0, 0, false};
    return b;
}

static void check_equals(const tp_datapoint *dp, const zmq_vector *v)
{
    if (!CHECK_MSG(dp->n == v->n, "%s: %d components, expected %d", v->name, dp->n, v->n)) return;
    for (int i = 0; i < v->n; i++) {
        const tp_tensor *t = &dp->c[i];
        const zmq_component *c = &v->c[i];
        bool same = t->dtype == c->dtype && t->shape.ndim == c->ndim && tp_tensor_bytes(t) == c->size;
        for (int k = 0; k < c->ndim && same; k++) same = t->shape.dim[k] == c->dim[k];
        const size_t width = tp_dtype_size(t->dtype);
        for (size_t k = 0; k < c->size && same; k++) /* numpy's bytes have the lowest of an element first */
            same = ((const unsigned char *)t->data)[tp__little_endian() ? k : k - 2 * (k % width) + width - 1] ==
                   c->data[k];
        CHECK_MSG(same, "%s: component %d", v->name, i);
    }
}

/* A copy that ends where the message does, so that a sanitizer sees a byte read behind it. */
static unsigned char *exact_copy(const unsigned char *bytes, size_t size)
{
    unsigned char *p = (unsigned char *)malloc(size ? size : 1);
    if (!p) abort();
    if (size) memcpy(p, bytes, size);
    return p;
}

TEST(messages_of_numpy_are_read_and_written)
{
    tp_datapoint dp = none();
    tp_buf out = no_bytes();
    int written = 0;
    for (int i = 0; i < TP_COUNT(zmq_vectors); i++) {
        const zmq_vector *v = &zmq_vectors[i];
        unsigned char *p = exact_copy(v->bytes, v->size);
        if (CHECK_OK(tp_datapoint_unpack(&dp, p, v->size, v->name))) check_equals(&dp, v);
        free(p);
        out.len = 0;
        if (v->writes && CHECK_OK(tp_datapoint_pack(&dp, &out))) {
            written++;
            CHECK_MSG(out.len == v->size && memcmp(out.data, v->bytes, v->size) == 0, "%s is written otherwise",
                      v->name);
        }
    }
    CHECK(written >= 15);
    tp_buf_free(&out);
    tp_datapoint_free(&dp);
}

/* The examples of the specification, byte for byte. */
TEST(golden_messages)
{
    static const unsigned char first[] =
        "\2\0\0\0\1\0\0\0\2\0\0\0\2\0\0\0\2\0\0\0\x10\0\0\0\0\0\0\0\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40"
        "\4\0\0\0\1\0\0\0\3\0\0\0\3\0\0\0\0\0\0\0\7\x08\x09";
    static const unsigned char five[] = "\1\0\0\0\3\0\0\0\0\0\0\0\4\0\0\0\0\0\0\0\5\0\0\0";
    static const unsigned char empty[] = "\1\0\0\0\1\0\0\0\2\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    float f[4] = {1, 2, 3, 4};
    unsigned char u[3] = {7, 8, 9};
    int32_t i = 5;
    tp_tensor c[2];
    tp_datapoint dp = {2, c, 2};
    tp_buf out = no_bytes();
    memset(c, 0, sizeof c);
    tp_tensor_view(&c[0], TP_F32, tp_make_shape(2, 2), f);
    tp_tensor_view(&c[1], TP_U8, tp_make_shape(3), u);
    CHECK_OK(tp_datapoint_pack(&dp, &out));
    CHECK(out.len == 67 && memcmp(out.data, first, 67) == 0);
    dp.n = 1;
    tp_tensor_view(&c[0], TP_I32, tp_make_shape_n(0, NULL), &i);
    CHECK_OK(tp_datapoint_pack(&dp, &out)); /* it is appended */
    CHECK(out.len == 91 && memcmp(out.data, first, 67) == 0 && memcmp(out.data + 67, five, 24) == 0);
    tp_tensor_view(&c[0], TP_F32, tp_make_shape(2, 0), NULL);
    out.len = 0;
    CHECK_OK(tp_datapoint_pack(&dp, &out));
    CHECK(out.len == 28 && memcmp(out.data, empty, 28) == 0);
    tp_buf_free(&out);
}

TEST(damaged_messages_are_refused)
{
    tp_datapoint dp = none();
    for (int i = 0; i < TP_COUNT(zmq_refusals); i++) {
        const zmq_refused *r = &zmq_refusals[i];
        unsigned char *p = exact_copy(r->bytes, r->size);
        const tp_status st = tp_datapoint_unpack(&dp, p, r->size, "letter.msg");
        CHECK_MSG(st == TP_ERR_FORMAT || st == TP_ERR_UNSUPPORTED, "%s: %s", r->name, tp_status_name(st));
        CHECK_MSG(strstr(tp_last_error(), r->sentence) && strncmp(tp_last_error(), "letter.msg", 10) == 0, "%s: \"%s\"",
                  r->name, tp_last_error());
        CHECK(dp.n == 0);
        free(p);
    }
    CHECK_OK(tp_datapoint_unpack(&dp, zmq_vectors[0].bytes, zmq_vectors[0].size, "a good one"));
    check_equals(&dp, &zmq_vectors[0]);
    tp_datapoint_free(&dp);
}

/* tensorpack's sender pickles by default; 640 components begin with the same two bytes. */
TEST(pickled_messages_are_told)
{
    static const unsigned char pickled[] = "\x80\x05\x95\x0a\0\0\0\0\0\0\0]\x94(K\1K\2e.";
    tp_datapoint dp = none();
    for (unsigned char protocol = 1; protocol <= 6; protocol++) {
        unsigned char *p = exact_copy(pickled, sizeof pickled - 1);
        p[1] = protocol;
        const char *sentence =
            protocol > 1 && protocol < 6 ? "m is pickled: its sender must use format='zmq_ops'" : "m says";
        CHECK_ERR(tp_datapoint_unpack(&dp, p, sizeof pickled - 1, "m"), TP_ERR_FORMAT, sentence);
        free(p);
    }
    tp_buf out = no_bytes();
    CHECK_OK(tp_datapoint_resize(&dp, 640));
    for (int i = 0; i < dp.n; i++) CHECK_OK(tp_tensor_resize(&dp.c[i], TP_U8, tp_make_shape(0)));
    CHECK_OK(tp_datapoint_pack(&dp, &out));
    CHECK(out.data[0] == (char)0x80 && out.data[1] == 2);
    CHECK_OK(tp_datapoint_unpack(&dp, out.data, out.len, "m"));
    CHECK(dp.n == 640);
    tp_buf_free(&out);
    tp_datapoint_free(&dp);
}

/* Each message cut short at each byte is refused; with any byte changed it is refused or read, without harm. */
TEST(hostile_messages)
{
    tp_datapoint dp = none();
    uint64_t key = 1;
    for (int i = 0; i < TP_COUNT(zmq_vectors); i++) {
        const zmq_vector *v = &zmq_vectors[i];
        if (v->size > 200) continue;
        for (size_t n = 0; n < v->size; n++) {
            unsigned char *p = exact_copy(v->bytes, n);
            CHECK_MSG(tp_datapoint_unpack(&dp, p, n, "m") == TP_ERR_FORMAT, "%s: %zu bytes of it", v->name, n);
            free(p);
        }
        for (size_t at = 0; at < v->size; at++)
            for (int k = 0; k < 4; k++) {
                unsigned char *p = exact_copy(v->bytes, v->size);
                p[at] = k == 0 ? 0xff : k == 1 ? 0x7f : (unsigned char)tp_random_u32(7, key++, 0);
                const tp_status st = tp_datapoint_unpack(&dp, p, v->size, "m");
                CHECK(st == TP_OK || st == TP_ERR_FORMAT || st == TP_ERR_UNSUPPORTED);
                free(p);
            }
    }
    tp_datapoint_free(&dp);
}

TEST(what_a_message_cannot_hold)
{
    tp_buf out = no_bytes();
    tp_tensor c[1];
    tp_datapoint dp = {1, c, 1};
    memset(c, 0, sizeof c);
    CHECK_ERR(tp_datapoint_pack(&dp, &out), TP_ERR_ARG, "component 0 cannot be saved: the tensor has no element type");
    c[0].dtype = TP_F32;
    c[0].shape = tp_make_shape(3);
    CHECK_ERR(tp_datapoint_pack(&dp, &out), TP_ERR_ARG, "no data");
    tp_device far;
    memset(&far, 0, sizeof far);
    snprintf(far.name, sizeof far.name, "card 0");
    c[0].device = &far;
    CHECK_ERR(tp_datapoint_pack(&dp, &out), TP_ERR_ARG, "component 0 is in the memory of card 0: bring it to the host");
    c[0].device = NULL;
    c[0].shape.dim[0] = TP_ANY;
    CHECK_ERR(tp_datapoint_pack(&dp, &out), TP_ERR_SHAPE, "component 0");
    c[0].shape = tp_make_shape(0, (int64_t)INT32_MAX + 1);
    CHECK_ERR(tp_datapoint_pack(&dp, &out), TP_ERR_SHAPE, "(0,2147483648)");
    c[0].shape = tp_make_shape(0, INT32_MAX);
    CHECK_OK(tp_datapoint_pack(&dp, &out));
    CHECK(out.len == 28);
    dp.n = -1;
    CHECK(tp_datapoint_pack(&dp, &out) == TP_ERR_ARG);
    CHECK(out.len == 28);
    CHECK(tp_datapoint_pack(NULL, &out) == TP_ERR_ARG && tp_datapoint_pack(&dp, NULL) == TP_ERR_ARG);
    CHECK(tp_datapoint_unpack(NULL, "", 0, "m") == TP_ERR_ARG && tp_datapoint_unpack(&dp, NULL, 9, "m") == TP_ERR_ARG);
    CHECK(tp_datapoint_unpack(&dp, "", 0, NULL) == TP_ERR_ARG);
    dp = none();
    CHECK_ERR(tp_datapoint_unpack(&dp, NULL, 0, "m"), TP_ERR_FORMAT, "truncated");
    tp_buf_free(&out);
}

/* protobuf parses no message of 2 GiB; here one of 1000 bytes is the longest. */
TEST(examples_that_are_too_large)
{
    static const char *const names[2] = {"a", "b"};
    static unsigned char bytes[1000];
    int64_t numbers[150];
    tp_buf out = no_bytes();
    tp_tensor c[2];
    tp_datapoint dp = {1, c, 2};
    memset(c, 0, sizeof c);
    memset(numbers, -1, sizeof numbers); /* ten bytes each */
    int64_t most = 900;
    for (size_t len = 0;; len = out.len, most++) {
        out.len = 0;
        tp_tensor_view(&c[0], TP_U8, tp_make_shape(most), bytes);
        if (tp_example_write(&dp, names, &out) == TP_OK) continue;
        CHECK_MSG(len >= 990 && len <= 1000, "the longest has %zu bytes", len);
        break;
    }
    CHECK_ERR(
        tp_example_write(&dp, names, &out), TP_ERR_SHAPE,
        "with component 0, 'a', the tf.train.Example is larger than 2 GiB, which protobuf cannot parse: make several");
    CHECK(out.len == 0 && !out.failed);
    const char *path = tp_test_path(tp_test_tmpdir(), "large");
    tp_dataflow *df = tp_df_from_list(&dp, 1);
    CHECK_ERR(tp_df_save_tfrecord(df, path, names, 1), TP_ERR_SHAPE, "larger than 2 GiB");
    CHECK(!tp_file_exists(path));
    tp_df_free(df);
    tp_tensor_view(&c[0], TP_U8, tp_make_shape(most - 1), bytes);
    df = tp_df_from_list(&dp, 1);
    CHECK_OK(tp_df_save_tfrecord(df, path, names, 1));
    tp_df_free(df);

    tp_tensor_view(&c[0], TP_U8, tp_make_shape(500), bytes); /* each component fits alone */
    tp_tensor_view(&c[1], TP_F32, tp_make_shape(125), bytes);
    CHECK_OK(tp_example_write(&dp, names, &out));
    out.len = 0;
    dp.n = 2;
    CHECK_ERR(tp_example_write(&dp, names, &out), TP_ERR_SHAPE, "with component 1, 'b'");
    dp.n = 1;
    tp_tensor_view(&c[0], TP_I64, tp_make_shape(150), numbers);
    CHECK_ERR(tp_example_write(&dp, names, &out), TP_ERR_SHAPE, "with component 0, 'a'");
    memset(numbers, 0, sizeof numbers);
    CHECK_OK(tp_example_write(&dp, names, &out));
    c[0].shape = tp_make_shape(INT64_MAX / 8); /* not read, not copied */
    CHECK_ERR(tp_example_write(&dp, names, &out), TP_ERR_SHAPE, "with component 0, 'a'");
    tp_buf_free(&out);
}

TEST(messages_without_memory)
{
    const zmq_vector *v = &zmq_vectors[20];
    for (long n = 1, failed = 1; failed; n++) {
        tp_datapoint dp = none();
        tp_buf out = no_bytes();
        tp_test_fail_after(n);
        tp_status st = tp_datapoint_unpack(&dp, v->bytes, v->size, "m");
        if (st == TP_OK) st = tp_datapoint_pack(&dp, &out);
        failed = tp_test_alloc_failed();
        CHECK(failed ? st == TP_ERR_NOMEM && dp.n == (out.failed ? v->n : 0) : st == TP_OK);
        tp_buf_free(&out);
        tp_datapoint_free(&dp);
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    tp_datapoint dp = none(); /* what is there is used again */
    tp_buf out = no_bytes();
    for (int i = 0; i < 3; i++) {
        if (i == 1) tp_test_fail_after(0);
        out.len = 0;
        CHECK_OK(tp_datapoint_unpack(&dp, v->bytes, v->size, "m"));
        CHECK_OK(tp_datapoint_pack(&dp, &out));
    }
    CHECK(tp_test_alloc_count() == 0);
    tp_test_alloc_reset();
    tp_buf_free(&out);
    tp_datapoint_free(&dp);
}

#ifndef TP_ZMQ

TEST(without_the_library_a_sentence)
{
    tp_datapoint dp = none();
    tp_dataflow *df = tp_df_remote_zmq("tcp://127.0.0.1:5555");
    CHECK_ERR(tp_df_status(df), TP_ERR_UNSUPPORTED, "define TP_ZMQ");
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_UNSUPPORTED, "test_zmq.c:");
    CHECK(tp_df_remote_zmq_received(df, 1) == 0);
    CHECK_ERR(tp_df_send_zmq(df, "tcp://127.0.0.1:5555"), TP_ERR_UNSUPPORTED, "-lzmq");
    tp_df_free(df);
    const tp_spec spec = {"x", TP_I32, {0, {0}}};
    tp_graph *g = tp_graph_new(NULL);
    tp_input_source *s = tp_zmq_input("tcp://127.0.0.1:5555");
    CHECK_ERR(tp_input_setup(s, g, &spec, 1), TP_ERR_UNSUPPORTED, "libzmq3-dev");
    df = tp_zmq_input_to_dataset(s, &spec, 1);
    CHECK_ERR(tp_df_status(df), TP_ERR_UNSUPPORTED, "define TP_ZMQ");
    CHECK(!tp_df_stopping());
    tp_df_free(df);
    tp_input_free(s);
    tp_graph_free(g);
    tp_df_free(tp_df_remote_zmq_(NULL));
    CHECK(tp_zmq_input_(NULL) == NULL && tp_df_send_zmq_(NULL) == TP_ERR_ARG);
    TEST_SKIP("sockets: zmq.h (Debian package libzmq3-dev) was not there when this was compiled");
}

#else

/* ==== >>helpers ======================================================================================= */

static void nap(double seconds)
{
    const double end = tp_time() + seconds;
    do {
        struct timespec t = {0, 500000};
        nanosleep(&t, NULL);
    } while (tp_time() < end);
}

/* "ipc://@..." of this process, another one each time; good for the next 7 calls. */
static const char *fresh_ipc(void)
{
    static char ring[8][64];
    static int n;
    char *text = ring[n % 8];
    snprintf(text, sizeof ring[0], "ipc://@tp-test-%ld-%d", (long)getpid(), n++);
    return text;
}

/* "tcp://127.0.0.1:port" of a port that is free now. */
static const char *fresh_tcp(void)
{
    static char text[64];
    struct sockaddr_in a;
    socklen_t n = sizeof a;
    memset(&a, 0, sizeof a);
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(s, (struct sockaddr *)&a, n) == 0 && getsockname(s, (struct sockaddr *)&a, &n) == 0);
    close(s);
    snprintf(text, sizeof text, "tcp://127.0.0.1:%d", (int)ntohs(a.sin_port));
    return text;
}

/* The datapoints [first], [first+1], ... as int32 scalars. */
static tp_status count_from(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)pass;
    tp_status st = tp_datapoint_resize(dp, 1);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) *(int32_t *)dp->c[0].data = *(const int *)user + (int32_t)index;
    return st;
}

/* A thread that sends. */
typedef struct sender {
    const char *addr;
    int first, hwm;
    int64_t n;
    int bind, stop;
    tp_thread *thread;
    tp_status st;
} sender;

static void sender_main(void *user)
{
    sender *s = (sender *)user;
    tp_dataflow *df = tp_df_from_generator(count_from, &s->first);
    s->st = tp_df_send_zmq(df, s->addr, .hwm = s->hwm, .bind = s->bind, .n = s->n, .stop = &s->stop);
    tp_df_free(df);
}
static void sender_start(sender *s, const char *addr, int first, int64_t n)
{
    memset(s, 0, sizeof *s);
    s->addr = addr;
    s->first = first;
    s->n = n;
    CHECK_OK(tp_thread_start(&s->thread, sender_main, s));
}
static tp_status sender_end(sender *s)
{
    __atomic_store_n(&s->stop, 1, __ATOMIC_RELEASE);
    tp_thread_join(s->thread);
    return s->st;
}
static tp_status sender_wait(sender *s) /* until all are sent */
{
    tp_thread_join(s->thread);
    return s->st;
}

/* Who is at the other end: a program in Python, started with these arguments; NULL: left out. */
static const char *const by_itself = "tests/zmq_peer.py", *const by_pyzmq = "tests/zmq_pyzmq.py";
static const char *python(void)
{
    const char *name = getenv("TP_TEST_PYTHON");
    return name ? name : "python3";
}
static pid_t peer(const char *program, const char *what, const char *addr, const char *c, const char *d, const char *e)
{
    const pid_t child = fork();
    if (child != 0) return child;
    execlp(python(), python(), program, what, addr, c, d, e, (char *)NULL);
    _exit(99);
}
static bool peer_is_there(const char *program)
{
    char command[1200];
    snprintf(command, sizeof command, "'%s' -c 'import %s' 2>/dev/null", python(),
             program == by_pyzmq ? "zmq, numpy" : "socket");
    return access(program, R_OK) == 0 && system(command) == 0;
}
#define NEEDS_PEER(program_) \
    if (!peer_is_there(program_)) TEST_SKIP("no Python that could run it, or not run in the repository's root")
static int peer_status(pid_t child)
{
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void put_message(tp_buf *b, const void *data, size_t size)
{
    uint8_t head[8];
    tp__put_le(head, size, 8);
    tp_buf_put(b, head, 8);
    if (size) tp_buf_put(b, data, size);
}

/* A little program: an input source of one int32, y = 2 x for each tower, a hooked session. */
typedef struct machine {
    tp_graph *g;
    tp_input_source *s;
    tp_session *session;
    tp_hooked_session *hooked;
    tp_node *y[4];
    int towers;
} machine;

static bool machine_open(machine *m, tp_input_source *s, int towers)
{
    const tp_spec spec = {"x", TP_I32, {0, {0}}};
    memset(m, 0, sizeof *m);
    m->s = s;
    m->towers = towers;
    m->g = tp_graph_new(NULL);
    if (!CHECK_OK(tp_input_setup(s, m->g, &spec, 1))) return false;
    for (int t = 0; t < towers; t++) {
        tp_node *x = NULL;
        if (!CHECK_OK(tp_input_get_tensors(s, &x))) return false;
        m->y[t] = tp_add(x, x);
    }
    int n = 0;
    tp_hook *const *hooks = tp_input_hooks(s, &n);
    m->session = tp_session_new(m->g, NULL);
    for (int i = 0; i < n; i++)
        if (hooks[i]->after_create_session) CHECK_OK(hooks[i]->after_create_session(hooks[i], m->session));
    m->hooked = tp_hooked_session_new(m->session, hooks, n);
    return CHECK(m->hooked != NULL) && CHECK_OK(tp_input_reset_state(s));
}
static tp_status machine_run(machine *m, int *got)
{
    const tp_tensor *value[4];
    const tp_status st = tp_hooked_run(m->hooked, m->y, m->towers, value);
    for (int t = 0; t < m->towers && st == TP_OK; t++) got[t] = (int)tp_tensor_get(value[t], 0) / 2;
    return st;
}
static void machine_close(machine *m)
{
    tp_hooked_session_free(m->hooked);
    tp_session_free(m->session);
    tp_input_free(m->s);
    tp_graph_free(m->g);
}

/* ==== >>another implementation ======================================================================== */

/* All messages, good and damaged ones, from Python. */
static void receives_from_peer(const char *program, const char *addr, bool bind)
{
    const char *file = tp_test_path(tp_test_tmpdir(), "messages");
    tp_buf b = no_bytes();
    tp_datapoint dp = none();
    for (int i = 0; i < TP_COUNT(zmq_vectors); i++) {
        put_message(&b, zmq_vectors[i].bytes, zmq_vectors[i].size);
        if (i < TP_COUNT(zmq_refusals)) put_message(&b, zmq_refusals[i].bytes, zmq_refusals[i].size);
    }
    tp_test_write(file, b.data, b.len);
    tp_buf_free(&b);
    tp_dataflow *df = tp_df_remote_zmq(addr, .bind = bind, .timeout_ms = 20000);
    const pid_t child = peer(program, "push", addr, file, bind ? NULL : "bind", NULL);
    int64_t message = 0;
    for (int i = 0; i < TP_COUNT(zmq_vectors); i++) {
        message++;
        if (!CHECK_OK(tp_df_next(df, &dp))) break;
        check_equals(&dp, &zmq_vectors[i]);
        if (i >= TP_COUNT(zmq_refusals)) continue;
        char name[128];
        snprintf(name, sizeof name, "tp_df_remote_zmq: message %lld from %s", (long long)++message, addr);
        const tp_status st = tp_df_next(df, &dp);
        CHECK_MSG((st == TP_ERR_FORMAT || st == TP_ERR_UNSUPPORTED) &&
                      strncmp(tp_last_error(), name, strlen(name)) == 0 &&
                      strstr(tp_last_error(), zmq_refusals[i].sentence),
                  "%s: %s: %s", zmq_refusals[i].name, tp_status_name(st), tp_last_error());
    }
    CHECK(tp_df_remote_zmq_received(df, 1) == TP_COUNT(zmq_vectors) && tp_df_remote_zmq_received(df, 2) == 0);
    tp_df_free(df);
    CHECK(peer_status(child) == 0);
    tp_datapoint_free(&dp);
}

TEST(receives_from_python_by_ipc)
{
    NEEDS_PEER(by_itself);
    char path[1100];
    receives_from_peer(by_itself, fresh_ipc(), true);
    snprintf(path, sizeof path, "ipc://%s", tp_test_path(tp_test_tmpdir(), "s"));
    receives_from_peer(by_itself, path, true);
}

TEST(receives_from_python_by_tcp)
{
    NEEDS_PEER(by_itself);
    receives_from_peer(by_itself, fresh_tcp(), true);
    receives_from_peer(by_itself, fresh_tcp(), false);
}

TEST(receives_from_pyzmq)
{
    NEEDS_PEER(by_pyzmq);
    receives_from_peer(by_pyzmq, fresh_ipc(), true);
    receives_from_peer(by_pyzmq, fresh_tcp(), true);
    receives_from_peer(by_pyzmq, fresh_tcp(), false);
}

/* What we send is what numpy's bytes are, and nothing else. */
static void sends_to_peer(const char *program, const char *addr, bool bind)
{
    const char *file = tp_test_path(tp_test_tmpdir(), "messages");
    tp_datapoint point[TP_COUNT(zmq_vectors)];
    tp_buf want = no_bytes();
    int n = 0;
    memset(point, 0, sizeof point);
    for (int i = 0; i < TP_COUNT(zmq_vectors); i++) {
        if (!zmq_vectors[i].writes) continue;
        CHECK_OK(tp_datapoint_unpack(&point[n++], zmq_vectors[i].bytes, zmq_vectors[i].size, "vector"));
        put_message(&want, zmq_vectors[i].bytes, zmq_vectors[i].size);
    }
    char text[16];
    snprintf(text, sizeof text, "%d", n);
    const pid_t child = peer(program, "pull", addr, file, text, bind ? NULL : "bind");
    tp_dataflow *df = tp_df_from_list(point, n, .shuffle = TP_NO);
    CHECK_OK(tp_df_send_zmq(df, addr, .bind = bind, .n = n));
    CHECK(peer_status(child) == 0);
    CHECK(tp_test_file_equals(file, want.data, want.len));
    tp_df_free(df);
    for (int i = 0; i < n; i++) tp_datapoint_free(&point[i]);
    tp_buf_free(&want);
}

TEST(sends_to_python_by_ipc)
{
    NEEDS_PEER(by_itself);
    char path[1100];
    sends_to_peer(by_itself, fresh_ipc(), false);
    snprintf(path, sizeof path, "ipc://%s", tp_test_path(tp_test_tmpdir(), "s"));
    sends_to_peer(by_itself, path, false);
}

TEST(sends_to_python_by_tcp)
{
    NEEDS_PEER(by_itself);
    sends_to_peer(by_itself, fresh_tcp(), true);
    sends_to_peer(by_itself, fresh_tcp(), false);
}

TEST(sends_to_pyzmq)
{
    NEEDS_PEER(by_pyzmq);
    sends_to_peer(by_pyzmq, fresh_ipc(), false);
    sends_to_peer(by_pyzmq, fresh_tcp(), true);
    sends_to_peer(by_pyzmq, fresh_tcp(), false);
}

/* ==== >>flows ========================================================================================= */

TEST(a_remote_flow_is_live)
{
    tp_datapoint dp = none();
    sender a;
    const char *addr = fresh_ipc();
    tp_dataflow *df = tp_df_remote_zmq(addr, .timeout_ms = 5000);
    CHECK(tp_df_size(df) == -1);
    sender_start(&a, addr, 0, 8);
    for (int i = 0; i < 3; i++) CHECK(tp_df_next(df, &dp) == TP_OK && *(int32_t *)dp.c[0].data == i);
    CHECK_OK(tp_df_restart(df, 5)); /* it goes on */
    CHECK(tp_df_next(df, &dp) == TP_OK && *(int32_t *)dp.c[0].data == 3);
    int64_t skipped = 0;
    CHECK_OK(tp_df_seek(df, 1000, &skipped)); /* takes none */
    CHECK(skipped == 1000);
    for (int i = 4; i < 8; i++) CHECK(tp_df_next(df, &dp) == TP_OK && *(int32_t *)dp.c[0].data == i);
    CHECK_OK(sender_wait(&a));
    tp_df_free(df);
    df = tp_df_remote_zmq(addr, .timeout_ms = 20); /* a socket of its own: nobody sends to it */
    const double began = tp_time();
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_TIMEOUT, "within 20 ms");
    CHECK(tp_time() - began < 30);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

static char warned[400];
static int warnings;
static void count_warnings(void *user, tp_log_level level, const char *message)
{
    (void)user;
    if (level != TP_LOG_WARN) return;
    warnings++;
    snprintf(warned, sizeof warned, "%s", message);
}

TEST(resume_is_given_up_in_the_log)
{
    sender a;
    machine m;
    const char *addr = fresh_ipc();
    int got[1];
    warnings = 0;
    tp_set_log(count_warnings, NULL);
    tp_dataflow *df = tp_df_remote_zmq(addr);
    CHECK(tp_df_seek(df, 7, NULL) == TP_OK && tp_df_seek(df, 9, NULL) == TP_OK);
    CHECK(warnings == 1);
    CHECK_HAS(warned, "has no position");
    tp_df_free(df);
    tp_set_log(NULL, NULL);
    sender_start(&a, addr, 40, 2);
    if (machine_open(&m, tp_zmq_input(addr), 1)) {
        CHECK_ERR(tp_input_seek(m.s, 5), TP_ERR_UNSUPPORTED, "ZMQInput cannot go back to datapoint 5");
        CHECK_OK(tp_input_seek(m.s, 0));
        CHECK(machine_run(&m, got) == TP_OK && got[0] == 40);
        CHECK(m.s->consumed == 1 && tp_input_size(m.s) == -1);
    }
    machine_close(&m);
    sender_end(&a);
}

TEST(two_addresses)
{
    tp_datapoint dp = none();
    sender a, b;
    const char *one = fresh_ipc(), *two = fresh_tcp();
    int next[2] = {0, 1000}, seen[2] = {0, 0};
    tp_dataflow *df = tp_df_remote_zmq(one, .addr2 = two, .timeout_ms = 5000);
    sender_start(&a, one, next[0], 30);
    sender_start(&b, two, next[1], 20);
    for (int i = 0; i < 50 && CHECK_OK(tp_df_next(df, &dp)); i++) {
        const int v = *(int32_t *)dp.c[0].data, which = v >= 1000;
        CHECK(v == next[which]++);
        seen[which]++;
    }
    CHECK(seen[0] == 30 && seen[1] == 20);
    CHECK(tp_df_remote_zmq_received(df, 1) == 30 && tp_df_remote_zmq_received(df, 2) == 20);
    CHECK(sender_wait(&a) == TP_OK && sender_wait(&b) == TP_OK);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

TEST(a_sender_stops)
{
    sender a;
    sender_start(&a, fresh_ipc(), 0, 0); /* nobody is there, and never will be */
    nap(0.03);
    const double began = tp_time();
    CHECK(sender_end(&a) == TP_STOP);
    CHECK(tp_time() - began < 8);
    int first = 0;
    tp_dataflow *df = tp_df_from_generator(count_from, &first);
    CHECK_ERR(tp_df_send_zmq(df, fresh_ipc(), .n = 3, .linger_ms = 20), TP_ERR_TIMEOUT,
              "no receiver took the last datapoints from ipc://"); /* as long as it may wait for somebody */
    CHECK_OK(tp_df_send_zmq(df, fresh_ipc(), .n = 3, .linger_ms = 0));
    CHECK(tp_time() - began < 8);
    tp_df_free(df);
}

static int times_in_log(const char *part)
{
    int n = 0;
    for (const char *at = tp_test_logged; (at = strstr(at, part)) != NULL; at++) n++;
    return n;
}

/* An end without another one says once that it waits; ends that have spoken to each other wait without a word. */
TEST(waiting_for_nobody_is_told_once)
{
    tp_datapoint dp = none();
    sender a;
    char want[300];
    const char *addr = fresh_ipc();
    tp_test_keep_log();
    sender_start(&a, addr, 0, 0);
    nap(1);
    CHECK(sender_end(&a) == TP_STOP);
    snprintf(want, sizeof want, "no receiver has taken a message yet from %s. Does the other end run", addr);
    CHECK_MSG(times_in_log(want) == 1, "%s", tp_test_logged);
    addr = fresh_ipc();
    tp_dataflow *df = tp_df_remote_zmq(addr, .timeout_ms = 500);
    for (int i = 0; i < 2; i++) CHECK_ERR(tp_df_next(df, &dp), TP_ERR_TIMEOUT, "no datapoint came");
    snprintf(want, sizeof want, "no message has come yet to %s. Does the other end run", addr);
    CHECK_MSG(times_in_log(want) == 1, "%s", tp_test_logged);
    tp_test_keep_log();
    sender_start(&a, addr, 0, 0);
    CHECK_OK(tp_df_next(df, &dp));
    nap(0.7); /* this end's queue is full: the sender waits for it */
    CHECK(sender_end(&a) == TP_STOP);
    while (tp_df_next(df, &dp) == TP_OK) {}
    CHECK_MSG(times_in_log("Does the other end run") == 0, "%s", tp_test_logged);
    tp_set_log(NULL, NULL);
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

static tp_status fails_at_2(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    return index == 2 ? tp_fail(TP_ERR_IO, "the disk is gone") : count_from(user, pass, index, dp);
}

TEST(a_flow_that_fails_ends_the_sending)
{
    int first = 0;
    tp_datapoint dp = none();
    const char *addr = fresh_ipc();
    tp_dataflow *df = tp_df_from_generator(fails_at_2, &first), *in = tp_df_remote_zmq(addr, .timeout_ms = 5000);
    CHECK_ERR(tp_df_next(in, NULL), TP_ERR_ARG, "");
    CHECK_ERR(tp_df_send_zmq(df, addr, .linger_ms = 1), TP_ERR_IO, "the disk is gone");
    tp_df_free(in);
    tp_df_free(df);
    tp_datapoint empty = none(); /* numbers that a message cannot hold */
    df = tp_df_from_list(&empty, 0);
    CHECK_ERR(tp_df_send_zmq(df, addr), TP_ERR_STATE, "a whole pass gave no datapoint");
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

/* ==== >>ZMQInput ====================================================================================== */

TEST(each_tower_gets_the_next_datapoint)
{
    machine m;
    sender a;
    const char *addr = fresh_tcp();
    int got[2];
    tp_input_source *s = tp_zmq_input(addr, .hwm = 3);
    CHECK_STR(s->name, "ZMQInput");
    CHECK(s->feedfree);
    sender_start(&a, addr, 0, 0);
    if (machine_open(&m, s, 2)) {
        for (int i = 0; i < 20; i++) {
            CHECK_OK(machine_run(&m, got));
            CHECK(got[0] == 2 * i && got[1] == 2 * i + 1);
            if (i == 10) CHECK_OK(tp_input_reset_state(s)); /* it goes on */
        }
        CHECK(s->consumed == 40);
        tp_hooked_session_set_datapoints(m.hooked, 1); /* the first tower alone: the other gets what comes next */
        const tp_tensor *value;
        CHECK_OK(tp_hooked_run(m.hooked, m.y, 1, &value));
        CHECK(tp_tensor_get(value, 0) == 80 && s->consumed == 41);
    }
    machine_close(&m);
    CHECK(sender_end(&a) == TP_STOP);
}

static void cancel_soon(void *user)
{
    nap(0.02);
    while (tp_session_cancel((tp_session *)user) == 0) nap(0.001);
}

TEST(a_run_stops_waiting)
{
    machine m;
    sender a;
    tp_thread *t = NULL;
    const char *addr = fresh_ipc();
    int got[2];
    if (machine_open(&m, tp_zmq_input(addr), 2)) {
        tp_hooked_session_set_timeout(m.hooked, 30);
        CHECK_ERR(machine_run(&m, got), TP_ERR_TIMEOUT, "ZMQInput waited for data");
        sender_start(&a, addr, 7, 1); /* one datapoint for two towers: it is kept */
        CHECK_OK(sender_wait(&a));
        CHECK_ERR(machine_run(&m, got), TP_ERR_TIMEOUT, "ZMQInput waited for data");
        tp_hooked_session_set_timeout(m.hooked, 0);
        CHECK_OK(tp_thread_start(&t, cancel_soon, m.session));
        CHECK_ERR(machine_run(&m, got), TP_ERR_CANCELLED, "ZMQInput waited for data");
        tp_thread_join(t);
        CHECK(m.s->consumed == 0);
        sender_start(&a, addr, 8, 1);
        CHECK_OK(machine_run(&m, got));
        CHECK(got[0] == 7 && got[1] == 8 && m.s->consumed == 2);
        CHECK_OK(sender_wait(&a));
    }
    machine_close(&m);
}

static void interrupt_soon(void *user)
{
    nap(0.02);
    kill(*(const pid_t *)user, SIGINT);
}

/* Counts the messages with this part. */
static int heard; /* atomic */
static void hear(void *part, tp_log_level level, const char *message)
{
    if (level == TP_LOG_WARN && strstr(message, (const char *)part)) __atomic_add_fetch(&heard, 1, __ATOMIC_RELEASE);
}
/* Gives 0. Before it gives 1 and 2 it waits until the expected message is logged, and before 2 half a second more. It never looks at
 * tp_df_stopping. */
static tp_status give_when_heard(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    int first = 0;
    (void)user;
    for (const double until = tp_time() + 20; index > 0 && tp_time() < until;) {
        if (__atomic_load_n(&heard, __ATOMIC_ACQUIRE)) break;
        nap(1e-3);
    }
    if (index == 2) nap(0.5);
    return count_from(&first, pass, index, dp);
}

/* A run that waits for its data says once of which flow. */
TEST(a_run_that_waits_is_told_once)
{
    static const char *const part[] = {"waited some seconds for a datapoint of tp_df_repeated of tp_df_from_generator.",
                                       "waited some seconds for a datapoint of the queue."};
    for (int shared = 0; shared < 2; shared++) {
        tp_queue *q = tp_queue_new(3);
        machine m;
        int got[1] = {-1};
        heard = 0;
        tp_set_log(hear, (void *)(uintptr_t)part[shared]);
        tp_dataflow *df = tp_df_repeated(tp_df_from_generator(give_when_heard), 2);
        if (machine_open(&m, tp_queue_input(df, .queue = shared ? q : NULL), 1))
            for (int i = 0; i < 3; i++) CHECK(machine_run(&m, got) == TP_OK && got[0] == i);
        CHECK_MSG(__atomic_load_n(&heard, __ATOMIC_ACQUIRE) == 1, "kind %d: %d times", shared, heard);
        machine_close(&m);
        tp_queue_free(q);
    }
    tp_set_log(NULL, NULL);
}

/* An input that waits for a flow of the program's that does not look whether it must stop says so. */
TEST(a_flow_that_does_not_stop_is_told)
{
    for (int shared = 0; shared < 2; shared++) {
        tp_queue *q = tp_queue_new(3);
        machine m;
        int got[1] = {-1};
        heard = 0;
        tp_set_log(hear,
                   (void *)(uintptr_t) "QueueInput waits for its flow tp_df_from_generator, which was told to stop");
        tp_input_source *s = tp_queue_input(tp_df_from_generator(give_when_heard), .queue = shared ? q : NULL);
        if (machine_open(&m, s, 1)) CHECK(machine_run(&m, got) == TP_OK && got[0] == 0);
        machine_close(&m);
        CHECK_MSG(__atomic_load_n(&heard, __ATOMIC_ACQUIRE) == 1, "kind %d: %d times", shared, heard);
        tp_queue_free(q);
    }
    tp_set_log(NULL, NULL);
}

TEST(ctrl_c_ends_the_waiting)
{
    for (int kind = 0; kind < 5; kind++) {
        machine m;
        tp_thread *t = NULL;
        pid_t self = getpid();
        int got[1];
        tp_dataflow *df = kind == 0 ? NULL : tp_df_remote_zmq(fresh_ipc());
        if (kind == 2) df = tp_df_prefetch(df, 2);
        tp_input_source *s = kind == 0   ? tp_zmq_input(fresh_ipc())
                             : kind <= 2 ? tp_feed_input(df)
                             : kind == 3 ? tp_queue_input(df)
                                         : tp_staging_input(tp_queue_input(df));
        if (machine_open(&m, s, 1)) {
            tp__os_interrupt_listen(); /* as a training does */
            CHECK_OK(tp_thread_start(&t, interrupt_soon, &self));
            tp_hooked_session_set_timeout(m.hooked, 5000);
            CHECK_MSG(machine_run(&m, got) == TP_INTR, "kind %d", kind);
            tp_thread_join(t);
            tp__os_interrupt_ignore();
            tp_hooked_session_set_timeout(m.hooked, 20); /* after the training a run waits again */
            if (kind != 1 && kind != 2) CHECK_MSG(machine_run(&m, got) == TP_ERR_TIMEOUT, "kind %d", kind);
        }
        machine_close(&m);
    }
}

/* What does not fit the signature, or is damaged, fails its run and is gone. */
TEST(bad_messages_fail_their_run)
{
    machine m;
    const char *addr = fresh_ipc();
    int got[1];
    void *context = zmq_ctx_new(), *push = zmq_socket(context, ZMQ_PUSH);
    CHECK(zmq_connect(push, addr) == 0);
    if (machine_open(&m, tp_zmq_input(addr), 1)) {
        const zmq_vector *five = &zmq_vectors[1];
        CHECK(zmq_send(push, zmq_vectors[0].bytes, zmq_vectors[0].size, 0) > 0);   /* two components */
        CHECK(zmq_send(push, zmq_vectors[2].bytes, zmq_vectors[2].size, 0) > 0);   /* float32 */
        CHECK(zmq_send(push, zmq_vectors[12].bytes, zmq_vectors[12].size, 0) > 0); /* int32, of another shape */
        CHECK(zmq_send(push, "abc", 3, 0) == 3);
        CHECK(zmq_send(push, "", 0, 0) == 0);
        CHECK(zmq_send(push, five->bytes, five->size, ZMQ_SNDMORE) > 0);
        CHECK(zmq_send(push, five->bytes, five->size, ZMQ_SNDMORE) > 0);
        CHECK(zmq_send(push, five->bytes, five->size, 0) > 0);
        CHECK(zmq_send(push, five->bytes, five->size, 0) > 0);
        CHECK_ERR(machine_run(&m, got), TP_ERR_SHAPE, "ZMQInput: datapoint 0 of ipc://@tp-test-");
        CHECK_HAS(tp_last_error(), " has 2 components, the input signature has 1");
        CHECK_ERR(machine_run(&m, got), TP_ERR_DTYPE, "component 0 ('x') of datapoint 1 of ipc://@tp-test-");
        CHECK_HAS(tp_last_error(), " is float32");
        CHECK_ERR(machine_run(&m, got), TP_ERR_SHAPE, "('x') of datapoint 2 of ipc://@tp-test-");
        CHECK_HAS(tp_last_error(), " has shape (6)");
        CHECK_ERR(machine_run(&m, got), TP_ERR_FORMAT, "ZMQInput: message 4 from ipc://@tp-test-");
        CHECK_ERR(machine_run(&m, got), TP_ERR_FORMAT, "it has 0 bytes");
        CHECK_ERR(machine_run(&m, got), TP_ERR_FORMAT, "message 6 from");
        CHECK_HAS(tp_last_error(), "several parts");
        CHECK(machine_run(&m, got) == TP_OK && got[0] == 5);
        CHECK(m.s->consumed == 1);
    }
    machine_close(&m);
    const int no = 0;
    zmq_setsockopt(push, ZMQ_LINGER, &no, sizeof no);
    zmq_close(push);
    zmq_ctx_term(context);
}

TEST(wrong_arguments)
{
    const tp_spec spec = {"x", TP_I32, {0, {0}}};
    tp_datapoint dp = none();
    struct {
        const char *addr;
        int hwm;
        tp_status st;
        const char *sentence;
    } wrong[] = {{NULL, 0, TP_ERR_ARG, "an address is missing"},
                 {"", 0, TP_ERR_ARG, "an address is missing"},
                 {"tcp://127.0.0.1:1", -1, TP_ERR_ARG, ".hwm is negative"},
                 {"inproc://a", 0, TP_ERR_ARG, "has no other end"},
                 {"tcp://*:70000", 0, TP_ERR_ARG, "a port, a number from 1 to 65535"},
                 {"tcp://127.0.0.1:0", 0, TP_ERR_ARG, "a port, a number from 1 to 65535"},
                 {"tcp://127.0.0.1", 0, TP_ERR_ARG, "a port, a number from 1 to 65535"},
                 {"tcp://127.0.0.1:55x", 0, TP_ERR_ARG, "a port, a number from 1 to 65535"},
                 {"tcp://[::1]:-5", 0, TP_ERR_ARG, "a port, a number from 1 to 65535"},
                 {"nonsense", 0, TP_ERR_ARG, "an address has a protocol: \"tcp://127.0.0.1:5555\""},
                 {"smoke://signals", 0, TP_ERR_IO, "cannot bind to smoke://signals: Protocol not supported"},
                 {"tcp://192.0.2.1:5555", 0, TP_ERR_IO, "An end that binds has an address of this machine"},
                 {"tcp://no.such.name.invalid:5555", 0, TP_ERR_IO, "another machine set .bind = TP_NO"},
                 {"ipc:///no/such/folder/s", 0, TP_ERR_IO, "cannot bind to ipc:///no/such/folder/s"}};
    for (int i = 0; i < TP_COUNT(wrong); i++) {
        tp_graph *g = tp_graph_new(NULL);
        tp_input_source *s = tp_zmq_input(wrong[i].addr, .hwm = wrong[i].hwm);
        CHECK_ERR(tp_input_setup(s, g, &spec, 1), wrong[i].st, wrong[i].sentence);
        CHECK_HAS(tp_last_error(), "ZMQInput: ");
        tp_input_free(s);
        tp_graph_free(g);
        tp_dataflow *df = tp_df_remote_zmq(wrong[i].addr, .hwm = wrong[i].hwm);
        CHECK_ERR(tp_df_next(df, &dp), wrong[i].st, wrong[i].sentence);
        CHECK_HAS(tp_last_error(), "tp_df_remote_zmq: ");
        tp_df_free(df);
        int first = 0;
        df = tp_df_from_generator(count_from, &first);
        CHECK_ERR(tp_df_send_zmq(df, wrong[i].addr, .hwm = wrong[i].hwm, .bind = TP_YES), wrong[i].st,
                  wrong[i].sentence);
        tp_df_free(df);
    }
    tp_dataflow *df = tp_df_remote_zmq("ipc://@a", .addr2 = "");
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "address is missing");
    CHECK_ERR(tp_df_send_zmq(df, "ipc://@a"), TP_ERR_ARG, "test_zmq.c:"); /* a poison flow says what it is */
    tp_df_free(df);
    df = tp_df_remote_zmq("ipc://@a", .timeout_ms = -1);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "timeout_ms");
    tp_df_free(df);
    df = tp_df_remote_zmq("ipc://@a");
    CHECK_ERR(tp_df_send_zmq(df, "ipc://@b", .n = -1), TP_ERR_ARG, "negative number");
    CHECK_ERR(tp_df_send_zmq(df, "ipc://@b", .linger_ms = -2), TP_ERR_ARG, "linger_ms");
    CHECK(tp_df_remote_zmq_received(df, 0) == 0 && tp_df_remote_zmq_received(df, 3) == 0);
    tp_df_free(df);
    CHECK(tp_df_remote_zmq_received(NULL, 1) == 0);
    tp_df_free(tp_df_remote_zmq_(NULL));
    CHECK(tp_zmq_input_(NULL) == NULL && tp_df_send_zmq_(NULL) == TP_ERR_ARG);
    CHECK(tp_df_send_zmq(NULL, "ipc://@b") == TP_ERR_ARG);
}

/* What tests/zero_options.tsv says of options whose zero is not their default; in a struct, where 0 is unset. */
#define ZERO(struct_, field_) TEST(struct_##__##field_)

/* Only one can bind to an address. */
ZERO(tp_df_remote_zmq_desc, bind)
{
    const char *addr = fresh_tcp();
    tp_datapoint dp = none();
    tp_df_remote_zmq_desc d;
    memset(&d, 0, sizeof d);
    d.addr1 = addr;
    d.timeout_ms = 1;
    tp_dataflow *df[3];
    for (int i = 0; i < 3; i++) {
        d.bind = i == 2 ? TP_NO : TP_UNSET; /* what unset does: it binds */
        df[i] = tp_df_remote_zmq_(&d);
        CHECK(tp_df_next(df[i], &dp) == (i == 1 ? TP_ERR_IO : TP_ERR_TIMEOUT));
    }
    for (int i = 0; i < 3; i++) tp_df_free(df[i]);
}
ZERO(tp_zmq_input_desc, bind)
{
    const tp_spec spec = {"x", TP_I32, {0, {0}}};
    tp_zmq_input_desc d;
    memset(&d, 0, sizeof d);
    d.end_point = fresh_tcp();
    tp_graph *g = tp_graph_new(NULL);
    tp_input_source *s[3];
    for (int i = 0; i < 3; i++) {
        d.bind = i == 2 ? TP_NO : 0;
        s[i] = tp_zmq_input_(&d);
        CHECK(tp_input_setup(s[i], g, &spec, 1) == (i == 1 ? TP_ERR_IO : TP_OK));
    }
    for (int i = 0; i < 3; i++) tp_input_free(s[i]);
    tp_graph_free(g);
}
/* Nobody takes what is sent: unset would wait 10 seconds for somebody. */
ZERO(tp_df_send_zmq_desc, linger_ms)
{
    int first = 0;
    tp_df_send_zmq_desc d;
    memset(&d, 0, sizeof d);
    d.df = tp_df_from_generator(count_from, &first);
    d.addr = fresh_ipc();
    d.n = 1;
    d.linger_ms = TP_NONE;
    const double began = tp_time();
    CHECK_OK(tp_df_send_zmq_(&d));
    CHECK(tp_time() - began < 8);
    tp_df_free(d.df);
}

TEST(one_address_has_one_receiver)
{
    const tp_spec spec = {"x", TP_I32, {0, {0}}};
    char file[300];
    snprintf(file, sizeof file, "ipc://%s", tp_test_path(tp_test_tmpdir(), "socket"));
    for (int kind = 0; kind < 3; kind++) {
        const char *addr = kind == 0 ? fresh_tcp() : kind == 1 ? fresh_ipc() : file;
        for (int again = 0; again < 2; again++) { /* an address whose receiver has ended may be taken */
            machine m;
            sender a;
            int got[1];
            if (machine_open(&m, tp_zmq_input(addr), 1)) {
                tp_graph *g = tp_graph_new(NULL);
                tp_input_source *s = tp_zmq_input(addr);
                CHECK_ERR(tp_input_setup(s, g, &spec, 1), TP_ERR_IO,
                          kind < 2 ? "Address already in use" : "another end is bound to it");
                tp_input_free(s);
                tp_graph_free(g);
                sender_start(&a, addr, 3, 1);
                CHECK(machine_run(&m, got) == TP_OK && got[0] == 3);
                CHECK_OK(sender_wait(&a));
            }
            machine_close(&m);
        }
    }
}

TEST(to_dataset)
{
    const tp_spec spec = {"x", TP_I32, {0, {0}}}, other = {NULL, TP_F32, {1, {TP_ANY}}};
    const char *addr = fresh_ipc();
    tp_datapoint dp = none();
    sender a;
    machine m;
    int got[2];
    tp_input_source *s = tp_zmq_input(addr, .hwm = 9);
    sender_start(&a, addr, 0, 9);
    tp_dataflow *df = tp_zmq_input_to_dataset(s, &spec, 1);
    for (int i = 0; i < 3; i++) CHECK(tp_df_next(df, &dp) == TP_OK && *(int32_t *)dp.c[0].data == i);
    if (machine_open(&m, tp_dataset_input(df), 2))
        for (int i = 0; i < 3; i++) CHECK(machine_run(&m, got) == TP_OK && got[0] == 3 + 2 * i && got[1] == 4 + 2 * i);
    CHECK_OK(sender_wait(&a));
    machine_close(&m);
    df = tp_zmq_input_to_dataset(s, &other, 1);
    sender_start(&a, addr, 0, 1);
    CHECK_ERR(tp_df_next(df, &dp), TP_ERR_DTYPE, "component 0 ('') of datapoint 0 of ipc://@tp-test-");
    CHECK_HAS(tp_last_error(), " is int32");
    CHECK_OK(sender_wait(&a));
    tp_df_free(df);
    df = tp_zmq_input_to_dataset(s, NULL, 1);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "signature");
    tp_df_free(df);
    tp_graph *g = tp_graph_new(NULL);
    CHECK_OK(tp_input_setup(s, g, &spec, 1));
    df = tp_zmq_input_to_dataset(s, &spec, 1);
    CHECK_ERR(tp_df_status(df), TP_ERR_STATE, "is set up and receives the data");
    tp_df_free(df);
    tp_input_free(s);
    tp_graph_free(g);
    s = tp_placeholder_input();
    df = tp_zmq_input_to_dataset(s, &spec, 1);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "PlaceholderInput is no ZMQInput");
    tp_df_free(df);
    tp_input_free(s);
    s = tp_zmq_input("");
    df = tp_zmq_input_to_dataset(s, &spec, 1);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "address is missing");
    tp_df_free(df);
    df = tp_zmq_input_to_dataset(NULL, &spec, 1);
    CHECK_ERR(tp_df_status(df), TP_ERR_ARG, "NULL is no ZMQInput");
    tp_df_free(df);
    tp_input_free(s);
    tp_datapoint_free(&dp);
}

/* ==== >>nothing hangs ================================================================================= */

static tp_status as_it_is(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call)
{
    (void)in, (void)out, (void)call;
    return TP_OK;
}
static tp_status from_queue(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    (void)pass, (void)index;
    return tp_queue_get((tp_queue *)user, dp);
}

/* Sources whose threads wait for data that never come are reset and freed at once. */
TEST(sources_that_wait_are_freed)
{
    machine m;
    int got[1];
    const double began = tp_time();
    tp_queue *empty = tp_queue_new(3);
    for (int kind = 0; kind < 7; kind++) {
        tp_queue *q = tp_queue_new(3);
        tp_dataflow *df = kind < 5 ? tp_df_remote_zmq(fresh_ipc()) : NULL;
        if (kind == 2) df = tp_df_prefetch(df, 2);
        if (kind == 3) df = tp_df_parallel_map(df, as_it_is, .num_thread = 3);
        if (kind == 4) df = tp_df_prefetch(tp_df_parallel_map(df, as_it_is, .num_thread = 2, .ordered = TP_YES), 2);
        if (kind == 5) df = tp_df_from_generator(from_queue, empty);
        tp_input_source *s = kind == 1   ? tp_queue_input(df, .queue = q)
                             : kind == 6 ? tp_staging_input(tp_zmq_input(fresh_ipc()))
                                         : tp_queue_input(df);
        if (machine_open(&m, s, 1)) {
            tp_hooked_session_set_timeout(m.hooked, 20);
            CHECK(machine_run(&m, got) == TP_ERR_TIMEOUT);
            CHECK_OK(tp_input_reset_state(s));
            CHECK(machine_run(&m, got) == TP_ERR_TIMEOUT);
        }
        machine_close(&m);
        if (kind == 1) CHECK(tp_queue_size(q) == 0 && !q->closed); /* one who stops does not close it for others */
        tp_queue_free(q);
    }
    tp_queue_free(empty);
    CHECK_MSG(tp_time() - began < 30, "it took %.1f s", tp_time() - began);
    CHECK(!tp_df_stopping()); /* this thread walks for nobody */
}

/* Threads that were told to wait no longer go on where they were. */
TEST(what_was_stopped_goes_on)
{
    machine m;
    sender a;
    const char *addr = fresh_ipc();
    int got[1];
    if (machine_open(&m, tp_queue_input(tp_df_prefetch(tp_df_remote_zmq(addr), 2)), 1)) {
        tp_hooked_session_set_timeout(m.hooked, 20);
        CHECK(machine_run(&m, got) == TP_ERR_TIMEOUT);
        CHECK_OK(tp_input_reset_state(m.s));
        sender_start(&a, addr, 0, 20);
        tp_hooked_session_set_timeout(m.hooked, 5000);
        for (int i = 0; i < 20; i++) CHECK(machine_run(&m, got) == TP_OK && got[0] == i);
        CHECK_OK(sender_wait(&a));
    }
    machine_close(&m);
}

TEST(a_queue_reads_ahead_of_what_arrives)
{
    machine m;
    sender a;
    const char *addr = fresh_ipc();
    int got[1];
    sender_start(&a, addr, 0, 30);
    if (machine_open(&m, tp_queue_input(tp_df_remote_zmq(addr), 5), 1))
        for (int i = 0; i < 30; i++) CHECK(machine_run(&m, got) == TP_OK && got[0] == i);
    CHECK_OK(sender_wait(&a));
    machine_close(&m);
}

TEST(staged_from_zmq)
{
    machine m;
    sender a;
    const char *addr = fresh_ipc();
    int got[2];
    sender_start(&a, addr, 0, 0);
    if (machine_open(&m, tp_staging_input(tp_zmq_input(addr)), 2))
        for (int i = 0; i < 10; i++) CHECK(machine_run(&m, got) == TP_OK && got[0] == 2 * i && got[1] == 2 * i + 1);
    machine_close(&m);
    CHECK(sender_end(&a) == TP_STOP);
}

static void on_alarm(int number) { (void)number; }

/* Signals at any moment, without SA_RESTART: every call is made again. */
TEST(interrupted_system_calls)
{
    struct sigaction action, before;
    struct itimerval often, never;
    memset(&action, 0, sizeof action);
    memset(&often, 0, sizeof often);
    memset(&never, 0, sizeof never);
    action.sa_handler = on_alarm;
    sigemptyset(&action.sa_mask);
    often.it_interval.tv_usec = often.it_value.tv_usec = 300;
    sigaction(SIGALRM, &action, &before);
    tp_datapoint dp = none();
    sender a;
    const char *addr = fresh_tcp();
    tp_dataflow *df = tp_df_remote_zmq(addr, .hwm = 2, .timeout_ms = 5000);
    setitimer(ITIMER_REAL, &often, NULL);
    sender_start(&a, addr, 0, 500);
    for (int i = 0; i < 500; i++)
        if (!CHECK_OK(tp_df_next(df, &dp)) ||
            !CHECK_MSG(*(int32_t *)dp.c[0].data == i, "%d came, expected %d", *(int32_t *)dp.c[0].data, i))
            break;
    tp_df_free(df);
    CHECK_OK(sender_wait(&a));
    int first = 0; /* and in the thread that gets the signals, while it sends */
    tp_dataflow *numbers = tp_df_from_generator(count_from, &first);
    CHECK_ERR(tp_df_send_zmq(numbers, fresh_ipc(), .n = 40, .linger_ms = 30), TP_ERR_TIMEOUT, "within 30 ms");
    tp_df_free(numbers);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    tp_datapoint_free(&dp);
}

/* ==== >>memory ======================================================================================== */

TEST(receiving_allocates_nothing)
{
    tp_datapoint dp = none();
    machine m;
    sender a;
    const char *addr = fresh_ipc();
    int got[2];
    tp_dataflow *df = tp_df_remote_zmq(addr, .timeout_ms = 5000);
    sender_start(&a, addr, 0, 0);
    for (int i = 0; i < 50; i++) CHECK_OK(tp_df_next(df, &dp));
    tp_test_fail_after(0); /* nor does sending */
    for (int i = 50; i < 100; i++) CHECK_OK(tp_df_next(df, &dp));
    CHECK(tp_test_alloc_count() == 0);
    tp_test_alloc_reset();
    CHECK(sender_end(&a) == TP_STOP);
    tp_df_free(df);
    addr = fresh_ipc();
    sender_start(&a, addr, 0, 0);
    if (machine_open(&m, tp_zmq_input(addr), 2)) {
        for (int i = 0; i < 5; i++) CHECK_OK(machine_run(&m, got));
        tp_test_fail_after(0);
        for (int i = 5; i < 20; i++) CHECK_OK(machine_run(&m, got));
        CHECK(tp_test_alloc_count() == 0 && got[1] == 39);
        tp_test_alloc_reset();
    }
    CHECK(sender_end(&a) == TP_STOP);
    machine_close(&m);
    tp_datapoint_free(&dp);
}

TEST(sockets_without_memory)
{
    const tp_spec spec = {"x", TP_I32, {0, {0}}};
    const char *addr = fresh_ipc(), *addr2 = fresh_ipc(); /* two test programs may run at a time */
    for (long n = 1, failed = 1; failed; n++) {           /* a flow, alone and of a ZMQInput */
        tp_datapoint dp = none();
        tp_test_fail_after(n);
        tp_dataflow *df = tp_df_remote_zmq(addr, .addr2 = addr2, .timeout_ms = 1);
        tp_status st = df ? tp_df_next(df, &dp) : TP_ERR_NOMEM;
        tp_df_free(df);
        tp_input_source *s = tp_zmq_input(addr);
        df = tp_zmq_input_to_dataset(s, &spec, 1);
        if (!s || !df) st = TP_ERR_NOMEM;
        tp_df_free(df);
        tp_input_free(s);
        failed = tp_test_alloc_failed();
        CHECK(st == (failed ? TP_ERR_NOMEM : TP_ERR_TIMEOUT));
        CHECK(tp_test_live_blocks() == 0);
        tp_datapoint_free(&dp);
    }
    for (long n = 1, failed = 1; failed; n++) { /* sending */
        int first = 0;
        tp_test_fail_after(n);
        tp_dataflow *df = tp_df_from_generator(count_from, &first);
        tp_status st = df ? tp_df_send_zmq(df, addr, .n = 2, .linger_ms = 0) : TP_ERR_NOMEM;
        tp_df_free(df);
        failed = tp_test_alloc_failed();
        CHECK(st == (failed ? TP_ERR_NOMEM : TP_OK));
        CHECK(tp_test_live_blocks() == 0);
    }
    tp_test_alloc_reset();
    sender a; /* a run of a ZMQInput: what had arrived is not lost when memory comes back */
    machine m;
    int got[2] = {0, 0}, fails = 0;
    if (machine_open(&m, tp_zmq_input(addr), 2)) {
        sender_start(&a, addr, 0, 2);
        CHECK_OK(sender_wait(&a));
        for (long n = 1; n < 100; n++) {
            tp_test_fail_after(n);
            const tp_status st = machine_run(&m, got);
            if (!tp_test_alloc_failed()) CHECK_OK(st);
            tp_test_alloc_reset();
            if (st == TP_OK) break;
            CHECK(st == TP_ERR_NOMEM);
            fails++;
        }
        CHECK(fails > 0 && got[0] == 0 && got[1] == 1);
    }
    machine_close(&m);
}

/* ==== >>killed ======================================================================================== */
/* Senders are processes, forked before anything of ZeroMQ's is there, and told by a pipe when to begin. */

enum { PAYLOAD = 3000 };

/* Number, index, and floats that are a function of both. */
static tp_status numbered(void *user, int64_t pass, int64_t index, tp_datapoint *dp)
{
    const int32_t who = *(const int *)user;
    (void)pass;
    tp_status st = tp_datapoint_resize(dp, 3);
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[0], TP_I32, tp_make_shape_n(0, NULL));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[1], TP_I64, tp_make_shape_n(0, NULL));
    if (st == TP_OK) st = tp_tensor_resize(&dp->c[2], TP_F32, tp_make_shape(PAYLOAD));
    if (st != TP_OK) return st;
    *(int32_t *)dp->c[0].data = who;
    *(int64_t *)dp->c[1].data = index;
    for (int i = 0; i < PAYLOAD; i++) ((float *)dp->c[2].data)[i] = (float)((index * 7 + who * 1000 + i) % 65536);
    return TP_OK;
}

typedef struct process {
    pid_t pid;
    int go; /* a byte here begins it */
} process;

static process process_start(const char *addr, int who, int64_t n)
{
    int pipes[2];
    process p;
    CHECK(pipe(pipes) == 0);
    p.pid = fork();
    p.go = pipes[1];
    if (p.pid != 0) {
        close(pipes[0]);
        return p;
    }
    char byte;
    close(pipes[1]);
    if (read(pipes[0], &byte, 1) != 1) _exit(1);
    tp_dataflow *df = tp_df_from_generator(numbered, &who);
    if (tp_df_send_zmq(df, addr, .n = n) != TP_OK) _exit(2);
    raise(SIGKILL); /* all are on their way: dead without a farewell */
    _exit(3);
}
static void process_go(process *p) { CHECK(write(p->go, "g", 1) == 1); }
static bool was_killed(pid_t pid)
{
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}
static bool process_died(process *p)
{
    close(p->go);
    return was_killed(p->pid);
}

/* A machine that fetches its three inputs. */
typedef struct trainer {
    tp_graph *g;
    tp_input_source *s;
    tp_session *session;
    tp_hooked_session *hooked;
    tp_node *in[3];
    int64_t next[8];
} trainer;

static bool trainer_open(trainer *t, tp_input_source *s)
{
    const tp_spec specs[3] = {{"who", TP_I32, {0, {0}}}, {"index", TP_I64, {0, {0}}}, {"data", TP_F32, {1, {PAYLOAD}}}};
    memset(t, 0, sizeof *t);
    t->s = s;
    t->g = tp_graph_new(NULL);
    if (!CHECK_OK(tp_input_setup(s, t->g, specs, 3)) || !CHECK_OK(tp_input_get_tensors(s, t->in))) return false;
    for (int i = 0; i < 3; i++) t->in[i] = tp_identity(t->in[i]);
    int n = 0;
    tp_hook *const *hooks = tp_input_hooks(s, &n);
    t->session = tp_session_new(t->g, NULL);
    t->hooked = tp_hooked_session_new(t->session, hooks, n);
    return CHECK(t->hooked != NULL);
}
/* One run; each sender's datapoints come without a gap, whole. */
static tp_status trainer_run(trainer *t)
{
    const tp_tensor *value[3];
    const tp_status st = tp_hooked_run(t->hooked, t->in, 3, value);
    if (st != TP_OK) return st;
    const int who = (int)*(const int32_t *)value[0]->data;
    const int64_t index = *(const int64_t *)value[1]->data;
    if (!CHECK(who >= 0 && who < 8)) return TP_ERR_STATE;
    CHECK_MSG(index == t->next[who], "sender %d: datapoint %lld came, expected %lld", who, (long long)index,
              (long long)t->next[who]);
    t->next[who] = index + 1;
    int wrong = 0;
    for (int i = 0; i < PAYLOAD; i++)
        wrong += ((const float *)value[2]->data)[i] != (float)((index * 7 + who * 1000 + i) % 65536);
    CHECK(wrong == 0);
    return TP_OK;
}
static void trainer_close(trainer *t)
{
    tp_hooked_session_free(t->hooked);
    tp_session_free(t->session);
    tp_input_free(t->s);
    tp_graph_free(t->g);
}

/* What has arrived is there after its sender is dead. */
static void reads_after_death(const char *addr, int n, int hwm)
{
    trainer t;
    process p = process_start(addr, 0, n);
    if (trainer_open(&t, tp_zmq_input(addr, .hwm = hwm))) {
        process_go(&p);
        CHECK(process_died(&p)); /* all were sent, and nothing was asked for yet */
        tp_hooked_session_set_timeout(t.hooked, 5000);
        for (int i = 0; i < n; i++)
            if (!CHECK_OK(trainer_run(&t))) break;
        CHECK(t.next[0] == n && t.s->consumed == n);
        tp_hooked_session_set_timeout(t.hooked, 20);
        CHECK(trainer_run(&t) == TP_ERR_TIMEOUT);
    }
    trainer_close(&t);
}

TEST(what_has_arrived_stays)
{
    reads_after_death(fresh_ipc(), 10, 10);
    reads_after_death(fresh_tcp(), 10, 10);
    reads_after_death(fresh_tcp(), 10, 2); /* the rest waits in the system */
}

/* Three senders, one after the other, each killed somewhere; runs go on with whoever is there. pyzmq: they are not ours. */
static void survives_kills(const char *addr, double seconds, bool pyzmq)
{
    trainer t;
    process p[3];
    int64_t runs = 0, waits = 0;
    for (int i = 0; i < 3 && !pyzmq; i++) p[i] = process_start(addr, i, 0);
    if (!trainer_open(&t, tp_zmq_input(addr))) return;
    tp_hooked_session_set_timeout(t.hooked, 100);
    for (int i = 0; i < 3; i++) {
        char who[8], size[16];
        snprintf(who, sizeof who, "%d", i);
        snprintf(size, sizeof size, "%d", PAYLOAD);
        if (pyzmq) p[i].pid = peer(by_pyzmq, "numbered", addr, who, size, NULL);
        else process_go(&p[i]);
        const double end = tp_time() + seconds / 3;
        while (tp_time() < end || (t.next[i] == 0 && tp_time() < end + 20)) {
            const tp_status st = trainer_run(&t);
            runs += st == TP_OK;
            waits += st == TP_ERR_TIMEOUT;
            if (!CHECK(st == TP_OK || st == TP_ERR_TIMEOUT)) break;
        }
        CHECK(kill(p[i].pid, SIGKILL) == 0 && (pyzmq ? was_killed(p[i].pid) : process_died(&p[i])));
        CHECK_MSG(t.next[i] > 0, "nothing came from sender %d", i);
    }
    tp_status st;
    while ((st = trainer_run(&t)) == TP_OK) runs++; /* what had arrived */
    CHECK(st == TP_ERR_TIMEOUT);
    CHECK(t.next[0] + t.next[1] + t.next[2] == runs && t.s->consumed == runs);
    if (seconds > 1)
        printf("     %s%s: %.0f s, %lld + %lld + %lld datapoints of %d bytes, %lld runs waited in vain\n", addr,
               pyzmq ? ", pyzmq" : "", seconds, (long long)t.next[0], (long long)t.next[1], (long long)t.next[2],
               4 * PAYLOAD + 72, (long long)waits);
    trainer_close(&t);
}

static double seconds_each(void)
{
    const char *seconds = getenv("TP_TEST_ZMQ_SECONDS");
    return seconds ? atof(seconds) / 2 : 0.15;
}
TEST(senders_are_killed_and_begin_anew)
{
    survives_kills(fresh_ipc(), seconds_each(), false);
    survives_kills(fresh_tcp(), seconds_each(), false);
}
TEST(pyzmq_senders_are_killed_and_begin_anew)
{
    NEEDS_PEER(by_pyzmq);
    survives_kills(fresh_ipc(), seconds_each(), true);
    survives_kills(fresh_tcp(), seconds_each(), true);
}

/* The receiver is killed and begins anew: the sender goes on with it, and never notices. */
TEST(a_receiver_begins_anew)
{
    const char *addr = fresh_ipc();
    sender a;
    tp_datapoint dp = none();
    int last = -1;
    sender_start(&a, addr, 0, 0);
    for (int round = 0; round < 2; round++) {
        tp_dataflow *df = tp_df_remote_zmq(addr, .timeout_ms = 5000);
        for (int i = 0; i < 50 && CHECK_OK(tp_df_next(df, &dp)); i++) {
            const int v = *(int32_t *)dp.c[0].data;
            CHECK(i == 0 ? v > last : v == last + 1);
            last = v;
        }
        tp_df_free(df);
    }
    CHECK(sender_end(&a) == TP_STOP);
    tp_datapoint_free(&dp);
}

#endif

TEST_MAIN()
