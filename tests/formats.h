/* formats.h - the three formats of checkpoints by number: 0 npz, 1 safetensors, 2 TensorFlow. Include tp_tensor.h and tp_test.h first. */
#ifndef FORMATS_H
#define FORMATS_H

static const char *const format_ends[3] = {".npz", ".safetensors", ".index"};
static tp_status save_as(int format, const char *path, const tp_dict *d)
{
    return format == 0   ? tp_npz_save(path, d, false)
           : format == 1 ? tp_safetensors_save(path, d)
                         : tp_tf_checkpoint_save(path, d);
}
static tp_status load_as(int format, const char *path, tp_dict *d)
{
    return format == 0   ? tp_npz_load(path, d)
           : format == 1 ? tp_safetensors_load(path, d)
                         : tp_tf_checkpoint_load(path, d);
}
/* the path of a checkpoint in dir, with the end of its format */
static const char *file_of(const char *dir, const char *name, int format)
{
    char file[100];
    snprintf(file, sizeof file, "%s%s", name, format_ends[format]);
    return tp_test_path(dir, file);
}

#endif
