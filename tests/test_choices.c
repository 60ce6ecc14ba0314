/* test_choices.c - what the library chooses where no result depends on it: blocks and kernels of products and convolutions, and the
 * plans of random networks. choices.txt has the choices; a change to one is seen there, with all others that change with it.
 *
 *     TP_TEST_WRITE=1 build/test/gcc-c11-test_choices    writes choices.txt anew, after a change that was meant and measured
 *     TP_TEST_PRINT=avx2:7 ...                            prints the plan of network 7, to compare it with that of another commit
 *
 * Choices depend on shapes, the instruction set and the number of threads, never on the machine. */
#define TP_IMPLEMENTATION
#define TP_STATIC /* private functions are tested */
#include "tp_layers.h"
#include "tp_optim.h"
#include "tp_test.h"
#include "bench/networks.h"
#include "golden.h"

static const char *const isa_names[] = {"sse2", "avx2", "avx512"};

enum { PRODUCTS = 160, CONVOLUTIONS = 120, NETWORKS = 48, THREADS = 2 };

static uint32_t n_rnd;
static int64_t rnd(int64_t n) { return (int64_t)(tp_random_u32(41, 0, n_rnd++) % (uint32_t)n); }
#define RND_OF(list_) (list_)[rnd(TP_COUNT(list_))]

static bool lacks_isa(const char *line)
{
    char isa[16] = "";
    if (sscanf(line, "%15s", isa) != 1) return false;
    tp_device *d = tp_cpu_device_new(1, isa);
    if (d) d->close(d);
    return d == NULL;
}

/* Calls `say` for each instruction set that the machine has. */
static void for_each_isa(const char *section, void (*say)(tp_device *d))
{
    int n = 0;
    for (int i = 0; i < TP_COUNT(isa_names); i++) {
        tp_device *d = tp_cpu_device_new(THREADS, isa_names[i]);
        if (!d) continue;
        n_rnd = 0;
        say(d);
        d->close(d);
        n++;
    }
    if (n == 0) TEST_SKIP("needs an instruction set of x86");
    golden_compare_but("choices.txt", section, lacks_isa);
}

/* -- matrix products */

static void say_gemm_plan(tp_device *d, const tp__gemm_args *a)
{
    tp__gemm_plan p;
    tp__gemm_plan_make(&p, d, a, false, NULL);
    golden_say(" blocks %lldx%lld of %lldx%lld panels, k %lld of %lld in %d;%s%s%s%s%s%s from %lld, pack %lldx%lld",
               (long long)p.m_blocks, (long long)p.n_blocks, (long long)p.mb, (long long)p.pb, (long long)p.kc,
               (long long)p.k_part, p.parts, p.pack_a ? " pack_a" : "", p.b_in_place ? " in_place" : "",
               p.even ? " even" : "", p.stream ? " stream" : "", p.row ? " row" : "", p.pack_here ? " pack_here" : "",
               (long long)p.packed_from, (long long)p.pack_k, (long long)p.pack_panels);
}

static void say_products(tp_device *d)
{
    static const int64_t sizes[] = {1, 2, 3, 10, 16, 32, 64, 100, 128, 256, 300, 512, 784, 1024, 2048, 4096};
    static const char *const along[] = {"n", "m", "k"};
    for (int i = 0; i < PRODUCTS; i++) {
        tp__gemm_args a;
        memset(&a, 0, sizeof a);
        const bool odd = rnd(2) == 0;
        a.M = odd ? 1 + rnd(300) : RND_OF(sizes);
        a.N = odd ? 1 + rnd(300) : RND_OF(sizes);
        a.K = odd ? 1 + rnd(300) : RND_OF(sizes);
        a.ta = rnd(3) == 0, a.tb = rnd(3) == 0, a.accumulate = rnd(4) == 0;
        const float rate = 0.1f;
        if (rnd(8) == 0) a.descend = &rate;
        a.lda = a.ta ? a.M : a.K, a.ldb = a.tb ? a.K : a.N, a.ldc = a.N;
        tp__gemm_untranspose(&a);
        const tp__along way = tp__gemm_along(&a, d->isa);
        golden_say("%s %lldx%lldx%lld%s%s%s%s: along %s,", tp_device_isa(d), (long long)a.M, (long long)a.N,
                   (long long)a.K, a.ta ? " ta" : "", a.tb ? " tb" : "", a.accumulate ? " add" : "",
                   a.descend ? " descend" : "", along[way]);
        tp__gemm_args t = way == TP__ALONG_M ? tp__gemm_turn(&a) : a;
        if (t.tb && t.N == 1) t.tb = false, t.ldb = 1; /* as tp__gemm_along_n does */
        if (way == TP__ALONG_K || tp__gemm_is_small(&t, d->isa)) golden_say(" small");
        else say_gemm_plan(d, &t);
        golden_say(", %zu bytes\n", tp__gemm_scratch(d, &a));
    }
}

/* The hash of what is chosen for a product. */
static uint64_t hash_of_product(tp_device *d, const tp__gemm_args *product, uint64_t h)
{
    char text[320];
    tp__gemm_args a = *product;
    tp__gemm_plan p;
    tp__gemm_untranspose(&a);
    const tp__along way = tp__gemm_along(&a, d->isa);
    tp__gemm_args t = way == TP__ALONG_M ? tp__gemm_turn(&a) : a;
    if (t.tb && t.N == 1) t.tb = false, t.ldb = 1;
    const bool small = way == TP__ALONG_K || tp__gemm_is_small(&t, d->isa);
    memset(&p, 0, sizeof p);
    if (!small) tp__gemm_plan_make(&p, d, &t, false, NULL);
    snprintf(text, sizeof text, "%d%d %lldx%lld %lldx%lld %lld %lld %d %d%d%d%d%d%d %lld %lldx%lld %zu", (int)way,
             small, (long long)p.m_blocks, (long long)p.n_blocks, (long long)p.mb, (long long)p.pb, (long long)p.kc,
             (long long)p.k_part, p.parts, p.pack_a, p.b_in_place, p.even, p.stream, p.row, p.pack_here,
             (long long)p.packed_from, (long long)p.pack_k, (long long)p.pack_panels, tp__gemm_scratch(d, &a));
    return golden_hash(h, text);
}

/* Products at the limits of the choices: few rows, one panel of columns, sums that are cut. A line has all with so many rows. */
static void say_products_at_limits(tp_device *d)
{
    static const int64_t rows[] = {1, 2, 5, 7, 8, 13, 24, 25, 28, 29, 48, 56, 57, 90, 200, 1000};
    static const int64_t columns[] = {1, 8, 9, 16, 17, 31, 32, 33, 48, 64, 65, 96, 128, 200, 1000};
    static const int64_t sums[] = {1, 64, 511, 512, 513, 700, 1024, 1025, 1200, 2048, 4000, 20000};
    for (int m = 0; m < TP_COUNT(rows); m++)
        for (int n = 0; n < TP_COUNT(columns); n++) {
            uint64_t h = 0;
            for (int i = 0; i < 8 * TP_COUNT(sums); i++) {
                const float rate = 0.1f;
                tp__gemm_args a;
                memset(&a, 0, sizeof a);
                a.M = rows[m], a.N = columns[n], a.K = sums[i / 8], a.ta = i & 1, a.tb = (i & 2) != 0;
                a.descend = i & 4 ? &rate : NULL;
                a.lda = a.ta ? a.M : a.K, a.ldb = a.tb ? a.K : a.N, a.ldc = a.N;
                h = hash_of_product(d, &a, h);
            }
            golden_say("%s %lldx%lld: %08x\n", tp_device_isa(d), (long long)rows[m], (long long)columns[n],
                       (unsigned)h);
        }
}

/* Products whose K times N is about that of a limit: at which B misses a cache, or is packed by the block that reads it. */
static void say_products_by_size_of_b(tp_device *d)
{
    static const int64_t rows[] = {1, 2, 7, 8, 13, 29, 90, 200, 1000, 3000};
    static const int64_t sizes[] = {65536, 131072, 262144, 400000, 524288, 1000000, 2000000, 4194304};
    for (int i = 0; i < TP_COUNT(sizes); i++)
        for (int m = 0; m < TP_COUNT(rows); m++) {
            uint64_t h = 0;
            for (int64_t k = 100; k < 3000; k = k * 3 / 2)
                for (int64_t beside = -1; beside <= 1; beside++) {
                    tp__gemm_args a;
                    memset(&a, 0, sizeof a);
                    a.M = rows[m], a.K = k, a.N = sizes[i] / k + beside;
                    a.lda = a.K, a.ldb = a.ldc = a.N;
                    h = hash_of_product(d, &a, h);
                }
            golden_say("%s %lld rows, B has %lld: %08x\n", tp_device_isa(d), (long long)rows[m], (long long)sizes[i],
                       (unsigned)h);
        }
}

TEST(products_choose_what_they_chose) { for_each_isa("products", say_products); }
TEST(products_at_limits_choose_what_they_chose) { for_each_isa("products at limits", say_products_at_limits); }
TEST(products_by_size_choose_what_they_chose) { for_each_isa("products by size", say_products_by_size_of_b); }

/* -- reductions */

/* Which reductions the fast functions compute, rather than the plain loops. */
TEST(fast_reductions_are_taken)
{
    static const int64_t dims[][3] = {{1, 1, 7},    {2, 3, 5}, {1, 40, 8}, {3, 64, 33}, {1, 300, 1},
                                      {1, 5000, 3}, {2, 1, 9}, {0, 2, 3},  {2, 0, 3}};
    static float x[16384], y[16384];
    for (int i = 0; i < TP_COUNT(x); i++) x[i] = (float)(i % 7);
    tp_device *d = tp_cpu_device_new(THREADS, NULL);
    if (!d || !d->isa) TEST_SKIP("needs a fast device");
    for (int i = 0; i < TP_COUNT(dims); i++)
        for (unsigned axes = 1; axes < 8; axes++)
            for (int kind = 0; kind < 3; kind++)
                for (int dtype = 0; dtype < 2; dtype++) {
                    static const tp__reduce_kind kinds[] = {TP__REDUCE_SUM, TP__REDUCE_MEAN, TP__REDUCE_MAX};
                    tp_operand operand[2];
                    tp__reduce_attrs a;
                    tp__reduction r;
                    tp_call k;
                    memset(&k, 0, sizeof k);
                    memset(&a, 0, sizeof a);
                    memset(operand, 0, sizeof operand);
                    for (int axis = 0; axis < 3; axis++)
                        if (axes >> axis & 1) a.axes[a.n_axes++] = axis;
                    k.device = d, k.attrs = &a, k.in = operand, k.out = operand + 1, k.n_in = k.n_out = 1;
                    operand[0].data = x, operand[1].data = y;
                    operand[0].dtype = operand[1].dtype = dtype ? TP_F64 : TP_F32;
                    operand[0].shape = tp_make_shape_n(3, dims[i]);
                    tp__reduction_of(&r, &k);
                    k.scratch = calloc(1, tp__reduce_scratch(&k) + 1);
                    const bool taken = tp__reduce_fast(&k, &r, kinds[kind]);
                    free(k.scratch);
                    golden_say("%s", taken ? "1" : "0");
                    if (dtype == 1 && kind == 2) golden_say("%s", axes == 7 ? "\n" : " ");
                }
    d->close(d);
    golden_compare("choices.txt", "fast reductions");
}

/* -- convolutions */

static void say_grid(const tp__grid *g)
{
    golden_say("%s pieces %lld of %lldx%lld, %lld floats", g->in_place ? " in_place" : "", (long long)g->pieces,
               (long long)g->piece_images, (long long)g->piece_rows, (long long)g->buffer_floats);
}

static void say_gather(tp_device *d, const tp__conv_args *a, bool input_grad)
{
    for (int64_t y = 0; y < (input_grad ? a->g.stride_h : 1); y++) {
        tp__gather g;
        const size_t size = tp__gather_make(&g, d, a, input_grad, y, y % a->g.stride_w, NULL);
        if (size == 0) continue;
        void *scratch = calloc(1, size);
        if (!CHECK(scratch != NULL)) return;
        tp__gather_make(&g, d, a, input_grad, y, y % a->g.stride_w, scratch);
        tp__gather_runs(&g);
        golden_say(" gather%s%s%s panels %lld, runs %d in %d", g.even ? " even" : "", g.dots ? " dots" : "",
                   g.by_image ? " by_image" : "", (long long)g.panels, g.runs, g.k_blocks);
        if (g.column_parts > 1) golden_say(", %lld chunks a piece", (long long)g.column_parts);
        if (g.planes) golden_say(" planes of %lld, sums of %lld", (long long)g.plane, (long long)g.columns);
        say_grid(&g.grid);
        free(scratch);
    }
}

static void say_filter_grad(tp_device *d, const tp__conv_args *a)
{
    tp__filter_grad f;
    tp__filter_grad_make(&f, d, a, NULL);
    if (f.turned) golden_say(" %lld columns together,", (long long)f.unit);
    golden_say(" filter%s%s%s%s panels %lld, %d parts, %lld blocks of %lld", f.even ? " even" : "",
               f.turned ? " turned" : "", f.by_row ? " by_row" : "", f.pack ? " pack" : "", (long long)f.panels,
               f.parts, (long long)f.blocks, (long long)f.mb);
    say_grid(&f.grid);
}

static void say_convolution(tp_device *d, const tp__conv_args *a, tp__conv_pass pass)
{
    if (tp__conv_is_gemm(&a->g)) {
        const tp__gemm_args product = tp__conv_as_gemm(a, pass);
        golden_say(" product %lldx%lldx%lld", (long long)product.M, (long long)product.N, (long long)product.K);
    } else if (tp__conv_is_depthwise(d->isa, &a->g, pass)) {
        tp__depthwise w;
        tp__depthwise_make(&w, d, a, pass, NULL);
        golden_say(" depthwise %d parts, rows %lld of %lld", w.parts, (long long)w.block, (long long)w.rows);
    } else if (tp__conv_is_wino(d->isa, &a->g)) {
        tp__wino w;
        tp__wino_make(&w, d, a, pass, 0, 0, NULL);
        golden_say(" winograd F(%d,%d), %d parts, blocks %lld, rows %lld, planes %lld, %lld", w.form.edge, w.form.taps,
                   w.parts, (long long)w.blocks, (long long)w.block_rows, (long long)w.v_plane, (long long)w.m_plane);
        if (w.together > 1) golden_say(", %d pieces a block", w.together);
        say_grid(&w.grid);
    } else if (pass == TP__CONV_FILTER_GRAD) say_filter_grad(d, a);
    else say_gather(d, a, pass == TP__CONV_INPUT_GRAD);
}

static void say_convolutions(tp_device *d)
{
    static const int64_t batches[] = {1, 2, 8, 13, 32, 64, 128}, sides[] = {4, 5, 7, 8, 14, 16, 28, 32, 56},
                         channels[] = {1, 3, 8, 16, 24, 32, 40, 64, 97, 128, 256, 512},
                         kernels[] = {1, 2, 3, 3, 3, 5, 7};
    static const char *const pass_names[] = {"forward", "input", "filter"};
    for (int i = 0; i < CONVOLUTIONS; i++) {
        tp__conv_args a;
        tp__conv *g = &a.g;
        memset(&a, 0, sizeof a);
        g->B = RND_OF(batches), g->H = RND_OF(sides), g->W = rnd(4) ? g->H : RND_OF(sides);
        g->C = RND_OF(channels), g->O = RND_OF(channels), g->KH = RND_OF(kernels), g->KW = rnd(8) ? g->KH : 1;
        g->stride_h = 1 + rnd(3) / 2, g->stride_w = rnd(8) ? g->stride_h : 1;
        g->dilation_h = g->dilation_w = 1 + rnd(4) / 3;
        const int64_t kind = rnd(6);
        g->groups = kind == 0 && g->C % 4 == 0 && g->O % 4 == 0 ? 4 : 1;
        if (kind == 1) g->groups = g->O = g->C;
        const bool same = rnd(4) > 0;
        g->top = same ? (g->KH - 1) * g->dilation_h / 2 : 0, g->left = same ? (g->KW - 1) * g->dilation_w / 2 : 0;
        g->OH = (g->H + 2 * g->top - (g->KH - 1) * g->dilation_h - 1) / g->stride_h + 1;
        g->OW = (g->W + 2 * g->left - (g->KW - 1) * g->dilation_w - 1) / g->stride_w + 1;
        if (tp__conv_is_empty(g)) continue;
        for (int pass = 0; pass < TP_COUNT(pass_names); pass++) {
            golden_say("%s %lldx%lldx%lldx%lld %lldx%lldx%lld", tp_device_isa(d), (long long)g->B, (long long)g->H,
                       (long long)g->W, (long long)g->C, (long long)g->KH, (long long)g->KW, (long long)g->O);
            golden_say(" / %lldx%lld d%lld g%lld%s %s:", (long long)g->stride_h, (long long)g->stride_w,
                       (long long)g->dilation_h, (long long)g->groups, same ? "" : " valid", pass_names[pass]);
            say_convolution(d, &a, (tp__conv_pass)pass);
            golden_say(", %zu bytes\n", tp__convolve_scratch(d, &a, (tp__conv_pass)pass));
        }
    }
}

TEST(convolutions_choose_what_they_chose) { for_each_isa("convolutions", say_convolutions); }

/* Convolutions with few output channels whose sums are about as long as a limit: shorter ones are not cut by images. */
static void say_convolutions_at_limits(tp_device *d)
{
    static const int64_t channels[] = {31, 32, 33, 127, 128, 129};
    for (int i = 0; i < TP_COUNT(channels); i++)
        for (int64_t images = 4; images <= 64; images *= 2) {
            tp__conv_args a;
            tp__conv *g = &a.g;
            memset(&a, 0, sizeof a);
            g->B = images, g->C = channels[i], g->O = d->isa->vw, g->KH = g->KW = i < 3 ? 2 : 1;
            g->H = g->W = 16, g->stride_h = g->stride_w = 2, g->dilation_h = g->dilation_w = g->groups = 1;
            g->OH = g->OW = 8;
            golden_say("%s %lldx16x16x%lld %lldx%lldx%lld / 2:", tp_device_isa(d), (long long)g->B, (long long)g->C,
                       (long long)g->KH, (long long)g->KW, (long long)g->O);
            say_convolution(d, &a, TP__CONV_FORWARD);
            golden_say("\n");
        }
}

TEST(convolutions_at_limits_choose_what_they_chose)
{
    for_each_isa("convolutions at limits", say_convolutions_at_limits);
}

/* -- products and convolutions in AMX's tiles */

#if TP__AMX
static void say_amx_blocks(const tp__amx *p, size_t scratch)
{
    golden_say(" steps %lld, k %lld of %lld in %d, blocks %lldx%lld of %lldx%lld, panels %lld%s, %zu bytes\n",
               (long long)p->steps, (long long)p->kc, (long long)p->k_part, p->parts, (long long)p->m_blocks,
               (long long)p->n_blocks, (long long)p->mb, (long long)p->nb, (long long)p->panels,
               p->b_once ? " b_once" : "", scratch);
}

static void say_amx_product(tp_device *d, int64_t M, int64_t N, int64_t K, bool descend)
{
    tp__amx p;
    tp__gemm_args a;
    const float rate = 0.1f;
    memset(&a, 0, sizeof a);
    a.M = M, a.N = N, a.K = K, a.lda = K, a.ldb = a.ldc = N, a.descend = descend ? &rate : NULL;
    golden_say("avx512 with amx: %lldx%lldx%lld%s:", (long long)M, (long long)N, (long long)K,
               descend ? " descend" : "");
    if (!tp__amx_takes_gemm(d, &a)) golden_say(" no\n");
    else say_amx_blocks(&p, tp__amx_gemm_make(&p, d, &a, NULL));
}

static void say_amx_convolution(tp_device *d, const tp__conv_args *a, tp__conv_pass pass)
{
    tp__amx p;
    const tp__conv *g = &a->g;
    golden_say("avx512 with amx: %lldx%lldx%lld %lldx%lldx%lld / %lld g%lld, %d:", (long long)g->B, (long long)g->H,
               (long long)g->C, (long long)g->KH, (long long)g->KW, (long long)g->O, (long long)g->stride_h,
               (long long)g->groups, (int)pass);
    if (!tp__amx_takes_conv(d, a, pass)) golden_say(" no\n");
    else say_amx_blocks(&p, tp__amx_conv_make(&p, d, a, pass, 0, 0, NULL));
}

/* Plans are made as if the processor had AMX; nothing is computed. */
static void say_amx(tp_device *d)
{
    static const int64_t sizes[] = {15,  16,  17,  31,   32,   33,   64,   100,  255,
                                    256, 257, 512, 1024, 2047, 2048, 2049, 4096, 9000};
    static const int64_t channels[] = {16, 32, 48, 64, 127, 128, 256}, sides[] = {4, 7, 8, 14, 28};
    d->amx = true;
    for (int i = 0; i < PRODUCTS; i++) {
        const int64_t M = RND_OF(sizes), N = RND_OF(sizes), K = RND_OF(sizes);
        say_amx_product(d, M, N, K, rnd(4) == 0);
    }
    for (int i = 0; i < CONVOLUTIONS; i++) {
        tp__conv_args a;
        tp__conv *g = &a.g;
        memset(&a, 0, sizeof a);
        g->B = 1 + rnd(64), g->H = g->W = RND_OF(sides), g->C = RND_OF(channels), g->O = RND_OF(channels);
        g->KH = g->KW = 1 + 2 * rnd(3), g->stride_h = g->stride_w = 1 + rnd(2), g->dilation_h = g->dilation_w = 1;
        g->groups = rnd(5) == 0 && g->C % 4 == 0 && g->O % 4 == 0 ? 4 : 1;
        g->top = g->left = g->KH / 2;
        g->OH = g->OW = (g->H + 2 * g->top - g->KH) / g->stride_h + 1;
        for (int pass = 0; pass < 3; pass++) say_amx_convolution(d, &a, (tp__conv_pass)pass);
    }
    d->amx = false;
}

TEST(amx_chooses_what_it_chose)
{
    tp_device *d = tp_cpu_device_new(THREADS, "avx512");
    if (!d) TEST_SKIP("needs AVX-512");
    n_rnd = 0;
    say_amx(d);
    d->close(d);
    golden_compare("choices.txt", "amx");
}
#endif

/* -- plans of networks */

/* A hash of the printed plan without the names of nodes. It depends neither on the order of lines nor on that of a kernel's parts:
 * which of two arguments is made first is the compiler's choice. */
static uint64_t hash_of_plan(char *text)
{
    uint64_t h = 0;
    for (char *next; *text; text = next) {
        next = strchr(text, '\n');
        if (next) *next++ = 0;
        else next = text + strlen(text);
        uint64_t line = 0;
        const char *rules = strstr(text, " [");
        char *name = strstr(text, " -  "); /* no time was measured: "-" */
        for (const char *p = rules; p && *p; p++) line += tp_test_mix((uint64_t)*p);
        if (name) *name = 0;
        for (const char *p = text + strspn(text, " 0123456789"); *p; p++) line += tp_test_mix((uint64_t)*p);
        h += tp_test_mix(line);
    }
    return h;
}

/* The plan of a training step or of a prediction; nothing is run. */
static void say_plan(tp_device *d, const drawing *net_, const tp_feed *feed, int n_feed, tp_node *const *fetch,
                     int n_fetch, const char *what)
{
    tp_status st = TP_OK;
    tp_plan_info info;
    tp_buf text;
    char wanted[32];
    memset(&info, 0, sizeof info);
    memset(&text, 0, sizeof text);
    tp_exec *e = tp_session_exec(net_->s);
    if (!CHECK_MSG(tp__find_plan(e, feed, n_feed, fetch, n_fetch, &st) != NULL, "%s", tp_last_error())) return;
    CHECK_OK(tp_exec_plan_info(e, fetch, n_fetch, &info));
    CHECK_OK(tp_exec_print_plan(e, fetch, n_fetch, &text));
    snprintf(wanted, sizeof wanted, "%s:%d", tp_device_isa(d), (int)seed);
    if (getenv("TP_TEST_PRINT") && strcmp(getenv("TP_TEST_PRINT"), wanted) == 0) puts(text.data);
    golden_say("%s network %d, %s: %d kernels, %d fused, %d folded, arena %zu, constants %zu, %.0f bytes, "
               "%.0f flops, text %016llx\n",
               tp_device_isa(d), (int)seed, what, info.n_steps, info.n_fused, info.n_folded, info.arena_bytes,
               info.constant_bytes, info.bytes, info.flops, (unsigned long long)hash_of_plan(text.data));
    tp_buf_free(&text);
}

static void say_networks(tp_device *d)
{
    for (seed = 1; seed <= NETWORKS; seed++)
        for (int training = 0; training < 2; training++) {
            drawing n;
            memset(&n, 0, sizeof n);
            tp_node *cost = draw(&n, 0, training == 1);
            if (training) add_training(&n, cost);
            tp_session_config c = tp_default_session_config();
            c.threads = THREADS;
            c.isa = tp_device_isa(d);
            n.s = tp_session_new(n.g, &c);
            if (CHECK_MSG(n.s != NULL, "%s", tp_last_error()) && CHECK_OK(make_feeds(&n))) {
                if (training) say_plan(d, &n, n.feed, 2, n.fetch, 2, "a step");
                else say_plan(d, &n, n.feed, 1, &n.y, 1, "a prediction");
            }
            for (int i = 0; i < 2; i++) tp_tensor_free(&n.feed[i].value);
            tp_session_free(n.s);
            tp_graph_free(n.g);
        }
}

TEST(networks_have_the_plans_that_they_had)
{
    tp_set_log(tp_test_drop_log, NULL);
    for_each_isa("networks", say_networks);
    tp_set_log(NULL, NULL);
}

TEST_MAIN()
