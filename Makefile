# tp: nothing to build but examples and tests. A user's program is `gcc -O2 train.c -lm -lpthread`, with the headers that it needs
# in its folder (README, Vendoring); tp_fast.h among them makes it fast on the CPU.
#
#   make              examples
#   make CUDA=1       examples, tests and benchmarks for NVIDIA GPUs, in build/cuda; ARCH=90 or ARCH=native: for that GPU only
#   make mnist        train the MNIST convnet on generated digits; DATA=<folder of IDX files> EPOCHS=n; CUDA=1: on a GPU
#   make test         everything that needs a compiler and Debian packages; TP_TEST_MNIST=<folder of IDX files>: MNIST too.
#                     tests/README.md: which file proves what
#   make gpu          what proves the GPU, on a machine that has one: tests, training, sanitizers, benchmarks against PyTorch
#   make interop      what we write, read by numpy, TensorBoard and ONNX Runtime (in a Python environment under build/); augmentors
#                     against Pillow and numpy, on photographs: TP_TEST_IMAGES=<folder or .tar.gz of JPEG files>
#   make coverage     lines and branches of each header that the tests run through
#   make bench        W=mlp.b128 T=1: ours and, with Python and PyTorch, the peer in turn
#   make format       clang-format
CC      ?= gcc
CFLAGS  ?= -O2
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wconversion
LIBS    := -lm -lpthread
HEADERS := $(wildcard tp_*.h)
B       := build

# The toolkit is CUDA_HOME's, else the one whose nvcc is on PATH; cuDNN comes with it or lies in CUDNN_HOME, NCCL in NCCL_HOME.
ifdef CUDA
NVCC := $(firstword $(if $(CUDA_HOME),$(wildcard $(CUDA_HOME)/bin/nvcc)) $(shell command -v nvcc))
ifeq ($(NVCC),)
$(error CUDA=1 needs the CUDA toolkit (13 or later): put its nvcc on PATH, or set CUDA_HOME to its folder)
endif
B         := build/cuda$(if $(ARCH),-$(ARCH))
TOOLKIT   := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
ROOMS     := $(filter-out /usr,$(TOOLKIT) $(CUDNN_HOME) $(NCCL_HOME))
# NCCL is left out where its header or its library is missing, or by NCCL=
NCCL      ?= $(and $(firstword $(wildcard $(foreach r,$(ROOMS) /usr,$(r)/include/nccl.h))),$(firstword $(wildcard \
               $(foreach r,$(ROOMS) /usr,$(foreach l,lib64 lib lib/x86_64-linux-gnu,$(r)/$(l)/libnccl.so.2)))))
CUDA_INC  := $(foreach r,$(ROOMS),-isystem $(r)/include)
CUDA_LIBS := $(foreach d,$(wildcard $(foreach r,$(ROOMS),$(r)/lib64 $(r)/lib)),-L$(d) -Wl,-rpath,$(d)) \
             -lcudart -lcublasLt -l:libcudnn.so.9 $(if $(NCCL),-l:libnccl.so.2) -lstdc++
ARCHS     := $(or $(ARCH),75 80 90 100)
NVOPT     ?= -O2
NVFLAGS   := $(if $(filter native,$(ARCHS)),-arch=native,\
               $(foreach a,$(ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
               -gencode arch=compute_$(lastword $(ARCHS)),code=compute_$(lastword $(ARCHS))) -Xcompiler -Wall,-Wextra $(NVWARN) \
             $(if $(NCCL),,-DTP_NO_NCCL)
DEVICE    := $(B)/tp_cuda.o
DEFS      := -DTP_CUDA $(CUDA_INC)
endif

EXAMPLES := $(patsubst examples/%.c,$(B)/%,$(wildcard examples/*.c))
all: $(EXAMPLES) $(if $(CUDA),$(B)/test_cuda $(B)/bench)

vpath %.c examples tests/gpu tests/bench
$(B)/%: %.c $(HEADERS) $(DEVICE) $(wildcard tests/*.h tests/bench/*.h)
	@mkdir -p $(B)
	$(CC) -std=c11 $(CFLAGS) $(WARN) $(DEFS) -I. $< -o $@ $(DEVICE) $(CUDA_LIBS) $(LIBS)

$(B)/tp_cuda.o: tp_cuda.cu $(HEADERS)
	@mkdir -p $(B)
	$(NVCC) $(NVOPT) -std=c++17 $(NVFLAGS) --threads 0 --split-compile 0 -I. $(CUDA_INC) -c $< -o $@

DATA   ?=
EPOCHS ?=
mnist: $(B)/mnist_convnet
	$(B)/mnist_convnet $(if $(DATA),--data $(DATA)) $(if $(EPOCHS),--epochs $(EPOCHS)) $(if $(CUDA),--gpu 0)

test:
	@bash tests/setup.sh && bash tests/run.sh $(ONLY)

gpu:
	@bash tests/gpu/run.sh build/gpu

interop:
	@bash tests/interop.sh

coverage:
	@bash tests/coverage.sh

W ?= mlp.b128
T ?= 1
bench:
	@bash tests/bench/run.sh "$(W)" "$(T)"

format:
	clang-format -i tp_*.h examples/*.c tests/*.c tests/*.h tests/gpu/*.c tests/bench/*.c tests/bench/*.h

clean:
	rm -rf build

.PHONY: all mnist test gpu interop coverage bench format clean
