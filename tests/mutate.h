/* mutate.h - included before everything in the builds of tests/mutate.py: each small change that the headers hold there
 * asks here whether it is the one that is switched on. */
#ifndef TP_MUTATE_H
#define TP_MUTATE_H

#ifdef __cplusplus
extern "C" {
#endif
extern int tp_mutant_on;                  /* $TP_MUTANT, 0: none */
extern unsigned char *tp_mutants_reached; /* by this process and those that it forked */
#ifdef __cplusplus
}
#endif

#define TP_MUTANT(n_) (__atomic_store_n(&tp_mutants_reached[n_], 1, __ATOMIC_RELAXED), tp_mutant_on == (n_))

#endif
