// A caller's sparse vector brought into the form kernels work on: sorted, unique indices and values in accumulate type.
#pragma once

#include <cstdint>
#include <vector>

#include "core/kernels.h"
#include "core/status.h"

namespace sparsecoll {

// Width of an index on the wire and in kernels: 4 bytes as long as the length allows it.
constexpr uint32_t indexBytesFor(uint64_t length) { return length <= 0xffffffffull ? 4 : 8; }
constexpr uint32_t indexBytesOf(const sparsecollVector_t& vector) {
  return vector.indexType == sparsecollIndexU64 ? 8 : 4;
}

// Pointers, types, alignment, count. Does not look at entries.
Status checkVector(const char* name, const sparsecollVector_t* vector);
// The same types and length, and no memory in common.
Status checkAlike(const char* aName, const sparsecollVector_t& a, const char* bName, const sparsecollVector_t& b);

struct Entries {
  std::vector<uint64_t> indices;
  std::vector<double> values64;  // one of the two, by accumulate type
  std::vector<float> values32;
  uint64_t count() const { return indices.size(); }
};

// Errors: InvalidArgument (an index out of range, or SORTED claimed and not so). Unsorted entries are sorted; entries
// with one index are added in the order given, unless keepDuplicates.
Result<Entries> readEntries(const char* name, const sparsecollVector_t& vector, bool keepDuplicates = false);

// Writes entries [from, to) as indices of indexBytes each and packed values, the way frames hold them.
void packEntries(const Entries& entries, uint64_t from, uint64_t to, uint32_t indexBytes, std::byte* payload);

// Indices that kernels wrote in indexBytes each become indices of the vector's type, in place.
void widenIndices(sparsecollVector_t& vector, uint32_t indexBytes, uint64_t count);

}  // namespace sparsecoll
