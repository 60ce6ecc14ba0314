/* options.h - the command line of an example: a list says which options there are and where their values go
 *
 *     int epochs = 10;
 *     const option list[] = {option_int("--epochs n", &epochs, 1)};
 *     read_options(argc, argv, list, TP_COUNT(list));
 *
 * What is not in the list, or has a value that is no number, ends the program with a sentence; --help prints the usage. A name
 * without "--" is an argument that has no name of its own, in the order of the list; in brackets if it may be left out. */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum option_kind { OPTION_FLAG, OPTION_TEXT, OPTION_INT, OPTION_SEED, OPTION_FLOAT, OPTION_DOUBLE } option_kind;
typedef struct option {
    const char *name; /* as in the usage: "--epochs n" */
    option_kind kind;
    void *value;
    double min, max; /* the least and the largest number that make sense */
} option;

static inline option option_new(const char *name, option_kind kind, void *value, double min, double max)
{
    const option o = {name, kind, value, min, max};
    return o;
}
static inline option option_flag(const char *name, int *value) { return option_new(name, OPTION_FLAG, value, 0, 1); }
static inline option option_text(const char *name, const char **value)
{
    return option_new(name, OPTION_TEXT, value, 0, 0);
}
static inline option option_int(const char *name, int *value, int min)
{
    return option_new(name, OPTION_INT, value, min, INT_MAX);
}
static inline option option_int_to(const char *name, int *value, int min, int max)
{
    return option_new(name, OPTION_INT, value, min, max);
}
static inline option option_seed(const char *name, uint64_t *value)
{
    return option_new(name, OPTION_SEED, value, 0, (double)UINT64_MAX);
}
static inline option option_float(const char *name, float *value, double min)
{
    return option_new(name, OPTION_FLOAT, value, min, 1e30);
}
static inline option option_float_to(const char *name, float *value, double min, double max)
{
    return option_new(name, OPTION_FLOAT, value, min, max);
}
static inline option option_double(const char *name, double *value, double min)
{
    return option_new(name, OPTION_DOUBLE, value, min, 1e30);
}

static inline bool option_is_named(const option *o) { return o->name[0] == '-'; }

/* The option that the argument names: all of its name up to the blank. */
static inline const option *option_find(const option *list, int n, const char *argument)
{
    const size_t length = strlen(argument);
    for (int i = 0; i < n; i++)
        if (option_is_named(&list[i]) && strncmp(list[i].name, argument, length) == 0 &&
            (list[i].name[length] == ' ' || list[i].name[length] == 0))
            return &list[i];
    return NULL;
}

/* False: the text is not what the option wants. */
static inline bool option_set(const option *o, const char *text)
{
    char *end;
    errno = 0;
    if (o->kind == OPTION_TEXT) {
        *(const char **)o->value = text;
        return text[0] != 0 && strncmp(text, "--", 2) != 0; /* the next option: the value was forgotten */
    }
    if (o->kind == OPTION_SEED) {
        *(uint64_t *)o->value = strtoull(text, &end, 10);
        return text[0] >= '0' && text[0] <= '9' && *end == 0 && !errno;
    }
    if (o->kind == OPTION_INT) {
        const long number = strtol(text, &end, 10);
        if (end == text || *end || errno || (double)number < o->min || (double)number > o->max) return false;
        *(int *)o->value = (int)number;
        return true;
    }
    const double number = strtod(text, &end);
    if (end == text || *end || !(number >= o->min && number <= o->max)) return false;
    if (o->kind == OPTION_FLOAT) *(float *)o->value = (float)number;
    else *(double *)o->value = number;
    return true;
}

static inline void option_usage(const char *program, const option *list, int n)
{
    printf("usage: %s", program);
    for (int i = 0; i < n; i++) printf(option_is_named(&list[i]) ? " [%s]" : " %s", list[i].name);
    printf("\nThe top of %s.c says what they do.\n", program);
    exit(0);
}

static inline void option_refuse(const char *program, const option *o, const char *text)
{
    char wants[100] = "a value";
    const int name = (int)strcspn(o->name, " ");
    if (o->kind == OPTION_INT)
        snprintf(wants, sizeof wants, "a whole number of at least %.0f and at most %.0f", o->min, o->max);
    if (o->kind == OPTION_SEED)
        snprintf(wants, sizeof wants, "a whole number of at least 0 and at most %llu", (unsigned long long)UINT64_MAX);
    if (o->kind >= OPTION_FLOAT)
        snprintf(wants, sizeof wants, "a number of at least %g and at most %g", o->min, o->max);
    fprintf(stderr, "%s: %.*s wants %s, not %s%s%s; %s --help lists the options\n", program, name, o->name, wants,
            text ? "'" : "nothing", text ? text : "", text ? "'" : "", program);
    exit(2);
}

/* Set the values that the command line names. Returns only if it is right. */
static inline void read_options(int argc, char **argv, const option *list, int n)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL, *program = slash ? slash + 1 : argc > 0 ? argv[0] : "";
    int place = 0; /* of the next argument without a name */
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) option_usage(program, list, n);
        const option *o = option_find(list, n, argv[i]);
        while (!o && argv[i][0] != '-' && place < n)
            if (!option_is_named(&list[place++])) o = &list[place - 1];
        if (!o) {
            fprintf(stderr, "%s: unknown option '%s'; %s --help lists those that there are\n", program, argv[i],
                    program);
            exit(2);
        }
        if (o->kind == OPTION_FLAG) {
            *(int *)o->value = 1;
            continue;
        }
        const char *text = option_is_named(o) ? (++i < argc ? argv[i] : NULL) : argv[i];
        if (!text || !option_set(o, text)) option_refuse(program, o, text);
    }
    for (; place < n; place++)
        if (!option_is_named(&list[place]) && list[place].name[0] != '[') option_refuse(program, &list[place], NULL);
}
#endif
