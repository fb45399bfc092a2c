#pragma once

#include "core/kernels.h"
#include "host/isa.h"

namespace sparsecoll::host {

void denseSum(const DenseSumArgs& args, const Isa& isa);
void addFinite(void* acc, sparsecollDataType_t accType, const void* x, sparsecollDataType_t type, uint64_t n,
               double scale, const Isa& isa);
void flush(void* acc, sparsecollDataType_t accType, void* x, sparsecollDataType_t type, uint64_t n, const Isa& isa);

}  // namespace sparsecoll::host
