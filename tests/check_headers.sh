#!/usr/bin/env bash
# Each header alone, declarations and implementation, with every front end, without a warning; two units linked; what a
# static build exports; the documentation's programs compiled,
# and those of the headers run.
set -eu
cd "$(dirname "$0")/.."
dir=build/test/headers
rm -rf "$dir"; mkdir -p "$dir"
warn="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
fronts=("gcc -x c -std=c99" "gcc -x c -std=c11" "clang -x c -std=c99" "g++ -x c++ -std=c++17" "clang++ -x c++ -std=c++17")
accept() { $1 $warn -fsyntax-only -I. "$2" || { echo "$1 $(grep include "$2")"; exit 1; }; }
for h in tp_*.h; do # what one lacks without the others, any compiler says
    printf '#include "%s"\nint main(void) { return 0; }\n' "$h" >"$dir/alone.c"
    for cc in "${fronts[@]}"; do accept "$cc" "$dir/alone.c"; done
    accept "${fronts[0]} -DTP_IMPLEMENTATION" "$dir/alone.c"
done
# all of them in one unit, and in the opposite order
all_of_them() { echo '#define TP_IMPLEMENTATION'; ls tp_*.h | "$1" | sed 's/.*/#include "&"/'; echo 'int main(void) { return 0; }'; }
all_of_them cat >"$dir/all.c"
for cc in "${fronts[@]}"; do accept "$cc" "$dir/all.c"; done
all_of_them tac >"$dir/all.c"
for cc in "${fronts[0]}" "${fronts[4]}"; do accept "$cc" "$dir/all.c"; done
# behind <complex.h>, which defines the name I; and for processors where a double is slow, no float becomes one unasked
sed '1i #define _POSIX_C_SOURCE 200809L\n#include <complex.h>' "$dir/all.c" >"$dir/complex.c"
accept "${fronts[1]} -Wdouble-promotion" "$dir/complex.c"
# as where stb_image.h is not installed: no function is left that nobody uses, which only a whole compilation sees
gcc -std=c11 -O0 $warn -DTP_NO_STB_IMAGE -I. -c "$dir/all.c" -o "$dir/no_stb.o"
# two units, one implementation, which includes a header twice
library() { echo '#define TP_IMPLEMENTATION'; printf '#include "%s"\n' tp_*.h tp_train.h; }
library >"$dir/library.c"
printf '#include "tp_layers.h"\n#include "tp_train.h"\nint main(void) { return tp_version()[0] == 0; }\n' >"$dir/two.c"
gcc -std=c11 -O0 -I. -c "$dir/library.c" -o "$dir/library.o"
gcc -std=c11 -O0 -I. "$dir/two.c" "$dir/library.o" -o "$dir/both" -lm -lpthread
"$dir/both"
# the implementation was compiled at all, and exports nothing but tp names
[ "$(nm -g --defined-only "$dir/library.o" | wc -l)" -gt 200 ]
nm -g --defined-only "$dir/library.o" | awk '{print $3}' | grep -v '^tp_' && { echo "names without tp_"; exit 1; }
# static: nothing at all
{ echo '#define TP_STATIC'; library; echo 'int main(void) { return 0; }'; } >"$dir/static.c"
gcc -std=c11 -O0 -Wall -Wextra -I. -c "$dir/static.c" -o "$dir/static.o"
[ "$(nm -g --defined-only "$dir/static.o" | grep -cv ' main$')" = 0 ]
# each header's own program compiles as it stands in its first comment, and links with the implementation that is there
implemented="" # makes the program's own TP_IMPLEMENTATION implement nothing
for h in tp_*.h; do h=${h#tp_} h=${h%.h}; implemented="$implemented -DTP__${h^^}_IMPLEMENTED"; done
for h in tp_*.h; do
    awk '/A COMPLETE PROGRAM/ {on = 1; next} on && /^ \*\/|^ \* *CONTENTS|^ \* [A-Z][A-Z]+/ {exit} on {sub(/^ \* ?/, ""); print}' "$h" >"$dir/doc_${h%.h}.c"
    grep -q main "$dir/doc_${h%.h}.c" || { echo "$h has no complete program"; exit 1; }
    gcc -std=c11 -O0 -Wall -Wextra $implemented -I. "$dir/doc_${h%.h}.c" "$dir/library.o" -o "$dir/doc_${h%.h}" -lm -lpthread
    # it ends well, and not with an empty line; tp_import.h's reads the model that tp_export.h's, an earlier one, has written
    mkdir -p "$dir/room"
    (cd "$dir/room" && timeout 60 "../doc_${h%.h}" $([ "$h" != tp_import.h ] || echo model.onnx)) >"$dir/printed" 2>&1 && ! tail -n 1 "$dir/printed" | grep -q '^$' ||
        { echo "$h: its program fails or ends with an empty line:"; cat "$dir/printed"; exit 1; }
done
! "$dir/doc_tp_import" | grep -q '^$' || { echo "tp_import.h: its program prints an empty line without an argument"; exit 1; }
# the examples of tp_input.h's sections compile as they stand: from "Examples:" to the end of the comment, a function each
{
    cat <<'C'
#include "tp_input.h"
void use(const tp_dataflow *df, const tp_input_source *source, tp_status status);
extern const tp_tensor images_and_labels[2];
extern const tp_spec specs[2];
extern const tp_dtype types[2];
extern const tp_shape shapes[2];
extern const char *const names[2];
extern int my_state;
tp_status my_generator(void *user, int64_t pass, int64_t index, tp_datapoint *dp);
tp_status my_map(const tp_datapoint *in, tp_datapoint *out, tp_map_call *call);
tp_status my_component_fn(const tp_tensor *in, tp_tensor *out, tp_map_call *call);
bool my_filter(const tp_datapoint *dp, const tp_map_call *call);
tp_dataflow *my_get_df(void *user, int i);
tp_status my_tensors(tp_graph *g, int tower, tp_node **in, int n, void *user);
void examples(tp_dataflow *df, tp_dataflow *other, tp_input_source *source, tp_status status);
void examples(tp_dataflow *df, tp_dataflow *other, tp_input_source *source, tp_status status)
{
    (void)other;
C
    awk '/STOP HERE/ {exit} on && /\*\// {on = 0; print "use(df, source, status); }"; next} on {sub(/^ \* ?/, ""); print}
        /Examples:/ {on = 1; print "{"}' tp_input.h
    echo '}'
} >"$dir/examples.c"
[ "$(grep -c 'tp_[a-z_]*(' "$dir/examples.c")" -gt 30 ]
gcc -std=c11 -Wall -Wextra -fsyntax-only -I. "$dir/examples.c"
# the README's trainer, as shown, in a folder with the headers alone
mkdir -p "$dir/vendored"
cp tp_*.h "$dir/vendored/"
awk '/^```c$/ {on = 1; next} /^```$/ {if (on) exit} on' README.md >"$dir/vendored/trainer.c"
(cd "$dir/vendored" && gcc -std=c11 -O2 -Wall -Wextra -Wpedantic trainer.c -o trainer -lm -lpthread)
# ... and as the README says under Vendoring: without its defines, beside the implementation that was compiled before
sed '/^#define TP_/d' "$dir/vendored/trainer.c" >"$dir/edited.c"
gcc -std=c11 -O2 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -I. "$dir/edited.c" "$dir/library.o" -o "$dir/edited" -lm -lpthread
# the README's short ways compile as they stand
{
    printf '#include "tp_train.h"\n#include "tp_layers.h"\ntp_node *generator(tp_node *z);\n'
    printf 'void f(tp_graph *g, tp_node *y, tp_node *z, tp_node *a, tp_node *b, tp_node *c, tp_node *cost, tp_node *logits, tp_node *labels);\n'
    printf 'void f(tp_graph *g, tp_node *y, tp_node *z, tp_node *a, tp_node *b, tp_node *c, tp_node *cost, tp_node *logits, tp_node *labels)\n{\n'
    awk '/^## Short ways/ {here = 1} /^## Layers/ {here = 0} here && /^```c$/ {on = 1; next} /^```$/ {on = 0} here && on' README.md
    printf '(void)y, (void)m, (void)train, (void)loss;\n}\n'
} >"$dir/short.c"
grep -q TP_VARIABLE_SCOPE "$dir/short.c"
gcc -std=c11 -Wall -Wextra -Wpedantic -Wconversion -fsyntax-only -I. "$dir/short.c"
# ... and without what it does not name: layers, ops, their kernels
nm "$dir/vendored/trainer" | grep -E 'tp__(lstm|gru|ln_row|bn_sums|attention|batch_norm|avg_pool|bilinear)' && { echo "unused parts stay"; exit 1; }
echo ok
