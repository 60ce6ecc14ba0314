/* The switch of mutate.h, read once from $TP_MUTANT. At the end the numbers of the changes that were reached are added to
 * the file $TP_MUTANTS_REACHED; several ranks have one. */
#define _GNU_SOURCE
#include "mutate.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 100000 };

int tp_mutant_on;
static unsigned char before[MOST];
unsigned char *tp_mutants_reached = before;
static pid_t owner;

__attribute__((constructor(101))) static void begin(void)
{
    const char *text = getenv("TP_MUTANT");
    void *p = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) tp_mutants_reached = (unsigned char *)p;
    tp_mutant_on = text ? atoi(text) : 0;
    owner = getpid();
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("TP_MUTANTS_REACHED");
    FILE *f = path && getpid() == owner ? fopen(path, "a") : NULL;
    if (!f) return;
    for (int i = 0; i < MOST; i++)
        if (tp_mutants_reached[i]) fprintf(f, "%d\n", i);
    fclose(f);
}
