/* seek_help.h - a check of tp_df_seek that several tests make of their flows. Include tp_input.h first. */
#ifndef SEEK_HELP_H
#define SEEK_HELP_H
#include "tp_test.h"

/* Behind the last datapoint, before its end was read, nothing is left to skip. Frees df. */
TP_TEST__UNUSED static void check_seek_behind_the_last(tp_dataflow *df, int which)
{
    tp_datapoint dp = {0, NULL, 0};
    int64_t n = 0, skipped = -1;
    while (tp_df_next(df, &dp) == TP_OK) n++;
    for (int walks = 0; walks < 2; walks++) {
        CHECK_OK(tp_df_restart(df, 0));
        if (!walks) CHECK_OK(tp_df_seek(df, n, &skipped));
        for (int64_t i = 0; i < n && walks; i++) CHECK_OK(tp_df_next(df, &dp));
        CHECK(walks || skipped == n);
        for (int64_t more = 0; more < 4; more += 3) {
            skipped = -1;
            CHECK_OK(tp_df_seek(df, more, &skipped));
            CHECK_MSG(skipped == 0, "flow %d (%s): %d skipped behind the last one", which, df->name, (int)skipped);
        }
        CHECK_MSG(tp_df_next(df, &dp) == TP_END, "flow %d (%s) goes on", which, df->name);
    }
    tp_df_free(df);
    tp_datapoint_free(&dp);
}

#endif
