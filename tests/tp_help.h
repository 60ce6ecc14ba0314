/* tp_help.h - numbers that several tests read from a session. Include the headers under test first. */
#ifndef TP_HELP_H
#define TP_HELP_H
#include "tp_graph.h"
#include "tp_test.h"

/* Element i of the node's value, from a run without feeds. Where there is none, the check fails and it is NaN. */
TP_TEST__UNUSED static double value_at(tp_session *s, tp_node *node, int64_t i)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    double v = NAN;
    if (CHECK_OK(tp_session_eval(s, node, &t)) && CHECK(i < tp_tensor_size(&t))) v = tp_tensor_get(&t, i);
    tp_tensor_free(&t);
    return v;
}

/* The first element of the variable of this name. Where there is none, the check fails and it is NaN. */
TP_TEST__UNUSED static double variable(tp_session *s, const char *name)
{
    tp_tensor t;
    memset(&t, 0, sizeof t);
    const tp_variable *v = tp_find_variable(tp_session_graph(s), name);
    double x = NAN;
    if (CHECK_MSG(v != NULL, "there is no variable %s", name) && CHECK_OK(tp_session_read(s, v, &t)))
        x = tp_tensor_get(&t, 0);
    tp_tensor_free(&t);
    return x;
}

#endif
