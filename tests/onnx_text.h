/* The models of ref_onnx.txt with their inputs and outputs, read: ref_onnx.py says how they are written. Include tp_graph.h
 * and op_cases.h before. */
#ifndef ONNX_TEXT_H
#define ONNX_TEXT_H

typedef struct onnx_case {
    char name[128];
    double rtol, atol;
    char refused[128]; /* part of the sentence of a model that has to be refused, or "" */
    uint8_t *model;
    size_t size;
    int n_in, n_out;
    char in_name[8][48], out_name[8][48];
    tp_tensor in[8], out[8];
} onnx_case;

static int hex_digit(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; }

static void free_onnx_cases(onnx_case *list, int n)
{
    for (int i = 0; i < n; i++) {
        free(list[i].model);
        for (int k = 0; k < 8; k++) {
            tp_tensor_free(&list[i].in[k]);
            tp_tensor_free(&list[i].out[k]);
        }
    }
    free(list);
}

/* Line of a case into it; false if it is none. */
static bool read_onnx_line(onnx_case *c, char *line)
{
    char *space = strchr(line, ' '), *rest = space ? space + 1 : line + strlen(line);
    if (strncmp(line, "model ", 6) == 0) {
        const size_t n = strlen(rest);
        if (n % 2 || !(c->model = (uint8_t *)malloc(n / 2 + 1))) return false;
        for (size_t i = 0; i < n; i += 2) {
            const int high = hex_digit(rest[i]), low = hex_digit(rest[i + 1]);
            if (high < 0 || low < 0) return false;
            c->model[i / 2] = (uint8_t)(16 * high + low);
        }
        c->size = n / 2;
        return true;
    }
    if (strncmp(line, "refused ", 8) == 0) {
        snprintf(c->refused, sizeof c->refused, "%s", rest);
        return strlen(rest) < sizeof c->refused;
    }
    const bool in = strncmp(line, "in ", 3) == 0;
    int *n = in ? &c->n_in : &c->n_out;
    space = strchr(rest, ' ');
    if ((!in && strncmp(line, "out ", 4) != 0) || *n == 8 || !space || space - rest >= 48) return false;
    *space = 0;
    memcpy((in ? c->in_name : c->out_name)[*n], rest, (size_t)(space - rest) + 1);
    return parse_tensor(space + 1, &(in ? c->in : c->out)[(*n)++], 0);
}

/* All of them; NULL after a mistake, which a check has reported. */
static onnx_case *read_onnx_cases(int *n)
{
    char path[1024], *text = NULL;
    const char *slash = strrchr(__FILE__, '/');
    size_t size = 0;
    onnx_case *list = NULL;
    bool ok = true;
    *n = 0;
    snprintf(path, sizeof path, "%.*sref_onnx.txt", slash ? (int)(slash - __FILE__) + 1 : 0, __FILE__);
    if (!tp_file_exists(path)) snprintf(path, sizeof path, "tests/ref_onnx.txt");
    if (!CHECK_OK(tp_file_read(path, false, 0, &text, &size))) return NULL;
    int most = 0;
    for (char *p = text; (p = strstr(p, "case ")) != NULL; p += 5) most++; /* or more: names may contain it */
    list = (onnx_case *)calloc((size_t)most + 1, sizeof *list);
    ok = CHECK(list != NULL);
    for (char *p = text; ok && *p;) {
        char *next = strchr(p, '\n');
        if (next) *next++ = 0;
        else next = p + strlen(p);
        if (strncmp(p, "case ", 5) == 0 && *n < most) {
            onnx_case *c = &list[(*n)++];
            ok = sscanf(p + 5, "%127s %lf %lf", c->name, &c->rtol, &c->atol) == 3;
        } else ok = *n > 0 && read_onnx_line(&list[*n - 1], p);
        CHECK_MSG(ok, "ref_onnx.txt: this line is no part of a case: %.60s", p);
        p = next;
    }
    tp_free(text);
    if (ok) return list;
    free_onnx_cases(list, *n);
    return NULL;
}

#endif
