/* For tests/interop.py: write arrays for others to read, and read those that they wrote, writing them back. */
#define TP_IMPLEMENTATION
#include "tp_train.h"
#include <math.h>
#include <string.h>

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tp_last_error());
    return 1;
}

/* -- events: values that tests/interop.py knows */

static tp_node *product(tp_graph *g, void *user)
{
    (void)user;
    tp_node *w = tp_get_variable_as(g, "w", TP_F32, tp_make_shape(8, 8), tp_init_constant(0.5f));
    return tp_matmul(w, w);
}

/* step / 8, 0 to 99 as a histogram, two pictures of 3x2. */
static tp_status report(tp_callback *cb)
{
    static float hundred[100];
    static unsigned char pixels[2 * 3 * 2 * 3];
    const int64_t step = cb->train->global_step;
    tp_tensor numbers, picture;
    memset(&numbers, 0, sizeof numbers);
    memset(&picture, 0, sizeof picture);
    for (int i = 0; i < 100; i++) hundred[i] = (float)i;
    for (int i = 0; i < 36; i++) pixels[i] = (unsigned char)(7 * i);
    tp_tensor_view(&numbers, TP_F32, tp_make_shape(10, 10), hundred);
    tp_tensor_view(&picture, TP_U8, tp_make_shape(2, 3, 2, 3), pixels);
    const tp_summary_value value = {"hundred", TP_SUMMARY_HISTOGRAM, 0, false, &numbers};
    const tp_summary summary = {&value, 1};
    tp_status st = tp_monitors_put_scalar(cb->train->monitors, "an/eighth", (double)step / 8);
    if (st == TP_OK && step == 2) st = tp_monitors_put_scalar(cb->train->monitors, "bad", NAN);
    if (st == TP_OK) st = tp_monitors_put_summary(cb->train->monitors, &summary);
    return st == TP_OK ? tp_monitors_put_image(cb->train->monitors, "picture", &picture) : st;
}

static int events(const char *dir)
{
    char path[1024];
    tp_train_desc d;
    tp_cb_run_op_desc run;
    tp_cb_graph_profiler_desc profile;
    tp_monitor_tf_event_writer_desc writer;
    memset(&d, 0, sizeof d), memset(&run, 0, sizeof run), memset(&profile, 0, sizeof profile);
    memset(&writer, 0, sizeof writer);
    snprintf(path, sizeof path, "%s/events", dir);
    if (tp_logger_set_dir(path, 'd') != TP_OK) return fail(path);
    run.fn = product, run.run_before = run.run_as_trigger = TP_NO, run.run_step = TP_YES;
    profile.dump_event = profile.dump_metadata = TP_YES;
    tp_callback *cb[] = {tp_cb_run_op_(&run), tp_callback_new("Report", 0), tp_cb_graph_profiler_(&profile)};
    tp_monitor *m[] = {tp_monitor_tf_event_writer_(&writer)};
    cb[1]->trigger_step = report;
    d.callbacks = cb, d.n_callbacks = 3;
    d.monitors = m, d.n_monitors = 1;
    d.steps_per_epoch = 3, d.max_epoch = 1;
    tp_trainer *t = tp_noop_trainer();
    const tp_status st = tp_train(t, &d);
    tp_trainer_free(t);
    return st == TP_OK ? 0 : fail("events");
}

int main(int argc, char **argv)
{
    char path[1024];
    const char *dir = argc > 1 ? argv[1] : ".";
    tp_dict d, back;
    memset(&d, 0, sizeof d);
    memset(&back, 0, sizeof back);
    for (int t = TP_F32; t < TP_DTYPE_COUNT; t++) { /* element i of every array is i - 3, or a truth value */
        snprintf(path, sizeof path, "scope/%s:0", tp_dtype_name((tp_dtype)t));
        tp_tensor *x = tp_dict_add(&d, path);
        if (!x || tp_tensor_resize(x, (tp_dtype)t, tp_make_shape(2, 3, 4)) != TP_OK) return fail("resize");
        for (int i = 0; i < 24; i++) tp_tensor_set(x, i, t == TP_BOOL ? i % 2 : t == TP_U8 ? i : i - 3);
    }
    tp_tensor *s = tp_dict_add(&d, "scalar");
    if (!s || tp_tensor_resize(s, TP_I64, tp_make_shape_n(0, NULL)) != TP_OK) return fail("scalar");
    tp_tensor_set(s, 0, 12345);
    tp_tensor *e = tp_dict_add(&d, "empty");
    if (!e || tp_tensor_resize(e, TP_F32, tp_make_shape(0, 5)) != TP_OK) return fail("empty");
    snprintf(path, sizeof path, "%s/ours.safetensors", dir);
    if (tp_safetensors_save(path, &d) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/ours_tf", dir);
    if (tp_tf_checkpoint_save(path, &d) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/tf_state", dir);
    const char *const names[] = {"model-3", "model-7"};
    if (tp_make_dirs(path) != TP_OK || tp_checkpoint_state_write(path, names, 2) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/tf_state/model-7", dir);
    if (tp_tf_checkpoint_save(path, &d) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/stored.npz", dir);
    if (tp_npz_save(path, &d, false) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/deflated.npz", dir);
    if (tp_npz_save(path, &d, true) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/one.npy", dir);
    if (tp_npy_save(path, &d.item[0].value) != TP_OK) return fail(path);
    static const char *const from[] = {"numpy_stored.npz", "numpy_compressed.npz"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, from[i]);
        tp_dict_free(&back);
        if (tp_npz_load(path, &back) != TP_OK) return fail(path);
        snprintf(path, sizeof path, "%s/again_%s", dir, from[i]);
        if (tp_npz_save(path, &back, i == 1) != TP_OK) return fail(path);
    }
    snprintf(path, sizeof path, "%s/theirs.safetensors", dir);
    if (tp_safetensors_load(path, &back) != TP_OK) return fail(path);
    snprintf(path, sizeof path, "%s/again_theirs.safetensors", dir);
    if (tp_safetensors_save(path, &back) != TP_OK) return fail(path);
    static const char *const tf[] = {"tf_saver-1000", "tf_objects-1", "tf_many"};
    for (int i = 0; i < 3; i++) { /* there where TensorFlow is */
        snprintf(path, sizeof path, "%s/%s.index", dir, tf[i]);
        if (!tp_file_exists(path)) continue;
        if (tp_load_checkpoint_vars(path, &back) != TP_OK) return fail(path);
        snprintf(path, sizeof path, "%s/again_%s%s", dir, tf[i], i < 2 ? ".safetensors" : ".index");
        if (tp_save_checkpoint_vars(&back, path) != TP_OK) return fail(path);
    }
    tp_dict_free(&back);
    tp_dict_free(&d);
    return events(dir);
}
