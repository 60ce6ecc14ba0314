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
#   make soak         ten million steps, ten thousand cycles of each object, five hundred kills; an hour and more
#   make bench        W=mlp.b128 T=1: ours and, with Python and PyTorch, the peer in turn; W=ddp.mlp.b128 T=2: two ranks
#   make analyze      gcc -fanalyzer, clang --analyze, clang-tidy and cppcheck over all headers; two hours
#   make compilers    each compiler that is installed, other options, optional parts left out; an hour
#   make install      headers, tp_cuda.cu, tp.pc and a CMake package below PREFIX (/usr/local), or DESTDIR/PREFIX; make uninstall
#   make single       all headers as one, build/tp.h
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
$(B)/%: %.c $(HEADERS) $(DEVICE) $(wildcard examples/*.h tests/*.h tests/bench/*.h)
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

analyze:
	@bash tests/analyze.sh

soak:
	@bash tests/soak.sh

compilers:
	@bash tests/compilers.sh

W ?= mlp.b128
T ?= 1
bench:
	@bash tests/bench/run.sh "$(W)" "$(T)"

format:
	clang-format -i tp_*.h examples/*.c examples/*.h tests/*.c tests/*.h tests/gpu/*.c tests/bench/*.c tests/bench/*.h

# What is installed is what one would copy: the headers and tp_cuda.cu, in a folder of their own, so that programs include them by
# the same names. They are the same for each processor: the files that tell pkg-config and CMake where they are lie in share/.
PREFIX  ?= /usr/local
DESTDIR ?=
ROOM     = $(DESTDIR)$(PREFIX)
VERSION  = $(shell sed -n 's/^.define TP_VERSION_[A-Z]* *//p' tp_tensor.h | paste -sd.)
define PKG_CONFIG
prefix=$(PREFIX)
includedir=$${prefix}/include/tp
cuda_source=$${includedir}/tp_cuda.cu

Name: tp
Description: tensorpack as C headers: graphs of layers, trainers, callbacks and data flows
Version: $(VERSION)
Cflags: -I$${includedir}
Libs: -lm -lpthread
endef
define CMAKE_CONFIG
# find_package(tp 0.1), target_link_libraries(train tp::tp); tp_CUDA_SOURCE is the file to compile for NVIDIA GPUs
include(CMakeFindDependencyMacro)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_dependency(Threads)
get_filename_component(tp_INCLUDE_DIR "$${CMAKE_CURRENT_LIST_DIR}/../../../include/tp" ABSOLUTE)
set(tp_CUDA_SOURCE "$${tp_INCLUDE_DIR}/tp_cuda.cu")
if(NOT TARGET tp::tp)
    add_library(tp::tp INTERFACE IMPORTED)
    set_target_properties(tp::tp PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "$${tp_INCLUDE_DIR}"
                                            INTERFACE_LINK_LIBRARIES "m;Threads::Threads")
endif()
endef
define CMAKE_VERSION
set(PACKAGE_VERSION "$(VERSION)")
set(PACKAGE_VERSION_COMPATIBLE FALSE) # before version 1 each minor version is a new interface
if(PACKAGE_FIND_VERSION_MAJOR EQUAL $(word 1,$(subst ., ,$(VERSION))) AND
   (PACKAGE_FIND_VERSION_COUNT LESS 2 OR PACKAGE_FIND_VERSION_MINOR EQUAL $(word 2,$(subst ., ,$(VERSION)))) AND
   NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
if(PACKAGE_VERSION STREQUAL PACKAGE_FIND_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
endif()
endef
install: export TEXT_PKG_CONFIG    = $(PKG_CONFIG)
install: export TEXT_CMAKE_CONFIG  = $(CMAKE_CONFIG)
install: export TEXT_CMAKE_VERSION = $(CMAKE_VERSION)
install:
	install -d "$(ROOM)/include/tp" "$(ROOM)/share/pkgconfig" "$(ROOM)/share/cmake/tp"
	install -m 644 $(HEADERS) tp_cuda.cu "$(ROOM)/include/tp"
	printf '%s\n' "$$TEXT_PKG_CONFIG" >"$(ROOM)/share/pkgconfig/tp.pc"
	printf '%s\n' "$$TEXT_CMAKE_CONFIG" >"$(ROOM)/share/cmake/tp/tp-config.cmake"
	printf '%s\n' "$$TEXT_CMAKE_VERSION" >"$(ROOM)/share/cmake/tp/tp-config-version.cmake"

uninstall:
	rm -f $(patsubst %,"$(ROOM)/include/tp/%",$(HEADERS) tp_cuda.cu) "$(ROOM)/share/pkgconfig/tp.pc" \
	      "$(ROOM)/share/cmake/tp/tp-config.cmake" "$(ROOM)/share/cmake/tp/tp-config-version.cmake"
	-rmdir "$(ROOM)/include/tp" "$(ROOM)/share/cmake/tp"

single: build/tp.h
build/tp.h: $(HEADERS) tests/single.sh
	@mkdir -p build
	bash tests/single.sh >$@.new && mv $@.new $@

clean:
	rm -rf build

.PHONY: all mnist test gpu interop coverage analyze soak compilers bench install uninstall single format clean
