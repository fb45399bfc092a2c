// CUDA C++ without a GPU: the names that the project's sources use, carried out by fibers (tests/simt/README.md). Found
// in place of the toolkit's header of the same name. __CUDACC__ stays undefined: the compiler is an ordinary one.
#pragma once

#define SPARSECOLL_SIMT 1

#include <math.h>

#include <simt_bits.h>
#include <simt_memory.h>
#include <simt_runtime.h>
#include <simt_threads.h>
#include <simt_types.h>
