// The loops that rooflines are made of.
#pragma once

#include <cstdint>

namespace bench {

// r += g: reads 8 bytes and writes 4 an element, as the accumulate pass of every method does.
void inplaceAdd(float* r, const float* g, uint64_t n);

// The same, as four streams at once: on some machines one stream leaves memory channels idle.
void inplaceAddInQuarters(float* r, const float* g, uint64_t n);

// The same, fetching lines long before they are needed: on others a core's own loads run too little ahead.
void inplaceAddAhead(float* r, const float* g, uint64_t n);

// Read 4 bytes an element.
uint32_t readAll(const float* x, uint64_t n);
uint32_t readAllAhead(const float* x, uint64_t n);

}  // namespace bench
