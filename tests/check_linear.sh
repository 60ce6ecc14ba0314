#!/usr/bin/env bash
# The README's chain and scopes, compiled as they stand there, make the same graph as the plain calls beside them: the names
# and shapes of variables and of all nodes.
set -eu
cd "$(dirname "$0")/.."
dir=build/test/linear
mkdir -p "$dir"
{
    cat <<'C'
#define TP_IMPLEMENTATION
#define TP_STATIC
#include "tp_layers.h"
C
    awk '/^## Layers: scopes of defaults/ {here = 1} /^## After training/ {here = 0} here && /^```c$/ {on = 1; next} /^```$/ {on = 0} here && on' README.md
    cat <<'C'
int main(int argc, char **argv)
{
    tp_graph *g = tp_graph_new(NULL);
    char t[TP_SHAPE_TEXT];
    tp_tower_desc tower = {.is_training = true};
    (void)argv;
    tp_tower_enter(g, &tower);
    tp_node *image = tp_placeholder(g, "image", TP_F32, tp_make_shape(TP_ANY, 28, 28, 1));
    tp_node *nchw = tp_placeholder(g, "nchw", TP_F32, tp_make_shape(TP_ANY, 1, 28, 28));
    if (argc > 1) in_chains(image, nchw);
    else one_by_one(image, nchw);
    tp_tower_leave(g);
    if (tp_graph_status(g) != TP_OK) return puts(tp_graph_error(g)), 1;
    for (int i = 0; i < tp_graph_n_variables(g); i++)
        printf("%s %s\n", tp_graph_variable(g, i)->name, tp_shape_text(&tp_graph_variable(g, i)->shape, t));
    for (int i = 0; i < tp_graph_n_operations(g); i++) {
        const tp_operation *op = tp_graph_operation(g, i);
        printf("%s %s %s", op->row->name, op->name, tp_shape_text(&op->out[0].shape, t));
        for (int k = 0; k < op->n_in; k++) printf(" %s", tp_node_name(op->in[k]));
        printf("\n");
    }
    tp_graph_free(g);
    return 0;
}
C
} >"$dir/linear.c"
gcc -std=c11 -O0 -Wall -Wextra -Wpedantic -Wno-unused-function -Werror -I. "$dir/linear.c" -o "$dir/linear" -lm -lpthread
"$dir/linear" 2>/dev/null >"$dir/one_by_one.txt"
"$dir/linear" chains 2>/dev/null >"$dir/in_chains.txt"
cmp "$dir/one_by_one.txt" "$dir/in_chains.txt"
# and they are what tensorpack calls them
head -n 12 "$dir/in_chains.txt" | diff - <(cat <<'TXT'
conv0/W (3,3,1,32)
conv0/b (32)
conv1/W (3,3,32,32)
conv1/b (32)
conv2/W (5,5,32,32)
conv2/b (32)
fc0/W (6272,512)
fc0/b (512)
fc1/W (512,10)
fc1/b (10)
conv3/W (1,1,1,32)
conv3/b (32)
TXT
)
grep -q '^identity conv3/output (?,32,14,14)' "$dir/in_chains.txt"
grep -q '^identity pool3/output (?,32,7,7)' "$dir/in_chains.txt"
echo ok
