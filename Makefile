# tp: nothing to build but examples and tests. A user's program is `gcc -O2 train.c -lm -lpthread`.
#
#   make              examples
#   make mnist        train the MNIST convnet on generated digits; DATA=<folder of IDX files> EPOCHS=n
#   make test         everything that needs a compiler and Debian packages
#   make interop      what we write, read by numpy, TensorBoard and ONNX Runtime (in a Python environment under build/)
#   make bench        W=mlp.b128 T=1: ours and, with Python and PyTorch, the peer in turn
#   make format       clang-format
CC      ?= gcc
CFLAGS  ?= -O2
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wconversion
LIBS    := -lm -lpthread
HEADERS := $(wildcard tp_*.h)
EXAMPLES := $(patsubst examples/%.c,build/%,$(wildcard examples/*.c))

all: $(EXAMPLES)

build/%: examples/%.c $(HEADERS)
	@mkdir -p build
	$(CC) -std=c11 $(CFLAGS) $(WARN) -I. $< -o $@ $(LIBS)

DATA   ?=
EPOCHS ?=
mnist: build/mnist_convnet
	build/mnist_convnet $(if $(DATA),--data $(DATA)) $(if $(EPOCHS),--epochs $(EPOCHS))

test:
	@bash tests/setup.sh && bash tests/run.sh $(ONLY)

interop:
	@bash tests/interop.sh

W ?= mlp.b128
T ?= 1
bench:
	@bash tests/bench/run.sh "$(W)" "$(T)"

format:
	clang-format -i tp_*.h examples/*.c tests/*.c tests/*.h tests/bench/*.c

clean:
	rm -rf build

.PHONY: all mnist test interop bench format clean
