#!/usr/bin/env bash
# Writes all headers as one to its output: `make single` keeps it as build/tp.h.
#
# The headers stand in the order in which each includes those that it needs, so that most #include lines between them can go. Two headers
# are included several times: tp_fast.h once for each instruction set, the op pages of tp_graph.h once for each type of number. There
# tp.h includes itself, and TP__ONLY says which header's text it then consists of.
set -eu
cd "$(dirname "$0")/.."
order="tensor fast graph layers optim input callbacks train export import"
[ "$(printf 'tp_%s.h\n' $order | sort)" = "$(ls tp_*.h)" ] || { echo "tests/single.sh: the list of headers is not that of the folder" >&2; exit 1; }
version=$(sed -n 's/^.define TP_VERSION_[A-Z]* *//p' tp_tensor.h | paste -sd.)
cat <<C
/* tp.h - v$version - all headers of tp in one file, written by \`make single\`
 *
 * Do this:
 *     #define TP_IMPLEMENTATION        // in ONE .c file, before any other include
 *     #include "tp.h"
 *
 * Parts of this file: $order; each is a header and begins with its documentation.
 *
 * OPTIONS (define before the include)
 *     TP_FILE                   this file's name, if it is not "tp.h": the file includes itself
 *     TP_NAIVE                  leaves out the fast kernels (part fast)
 *     others                    in each part
 */
C
cat <<'C'
#ifndef TP_FILE
#define TP_FILE "tp.h"
#endif
C
for part in $order; do
    case $part in
        fast) echo "#if defined(TP__ONLY) && TP__ONLY == 1" ;;
        graph) echo "#if !defined(TP__ONLY) || TP__ONLY == 2" ;;
        *) echo "#if !defined(TP__ONLY)" ;;
    esac
    awk -v part="$part" '
        /^#include "tp_fast.h"$/ && part == "fast" {print "#include TP_FILE"; next}
        /^#include "tp_fast.h"$/ {print "#define TP__ONLY 1\n#include TP_FILE\n#undef TP__ONLY"; next}
        /^#include TP_GRAPH_FILE$/ {print "#define TP__ONLY 2\n#include TP_FILE\n#undef TP__ONLY"; next}
        /^#if __has_include\("tp_fast.h"\)$/ {print "#if 1 /* tp_fast.h is in this file */"; next}
        /^#include "tp_[a-z]*.h"/ {next}
        {print}' "tp_$part.h"
    echo "#endif /* part $part */"
done
