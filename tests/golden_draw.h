/* golden_draw.h - random numbers that are a function of `state`, the same with every compiler. Set `state` at the beginning of a case.
 * Draw one number a statement: compilers choose the order in which the arguments of a call are computed. */
#ifndef GOLDEN_DRAW_H
#define GOLDEN_DRAW_H

static uint64_t state;
static uint64_t draw64(void)
{
    const uint64_t x = tp_test_mix(state);
    state += 0x9e3779b97f4a7c15u;
    return x;
}
/* 0 to n - 1; 0 if there is none */
static int draw(int n) { return n > 0 ? (int)((draw64() >> 20) % (uint64_t)n) : 0; }
TP_TEST__UNUSED static bool chance(int percent) { return draw(100) < percent; }
#define DRAW_OF(list_) (list_)[draw(TP_COUNT(list_))]

#endif
