#include "src/entries.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "src/names.h"
#include "src/pointer_checks.h"

namespace sparsecoll {

namespace {

uint64_t indexAt(const sparsecollVector_t& vector, uint64_t i) {
  if (indexBytesOf(vector) == 8) return static_cast<const uint64_t*>(vector.indices)[i];
  return static_cast<const uint32_t*>(vector.indices)[i];
}

Status checkOrder(const char* name, const sparsecollVector_t& vector) {
  uint64_t previous = 0;
  for (uint64_t i = 0; i < *vector.count; ++i) {
    const uint64_t index = indexAt(vector, i);
    if (index >= vector.length) return invalid("{}: index {} in a vector of {} elements", name, index, vector.length);
    if ((vector.flags & SPARSECOLL_SORTED) != 0 && i > 0 && index <= previous)
      return invalid("{} is marked SORTED but entry {} is out of order", name, i);
    previous = index;
  }
  return {};
}

template <class A, class T>
void readValues(const sparsecollVector_t& vector, const std::vector<uint64_t>& order, bool keepDuplicates,
                Entries& entries, std::vector<A>& values) {
  const auto* from = static_cast<const T*>(vector.values);
  for (const uint64_t i : order) {
    const uint64_t index = indexAt(vector, i);
    const auto value = static_cast<A>(Element<T>::load(from[i]));
    if (!keepDuplicates && !entries.indices.empty() && entries.indices.back() == index) {
      values.back() = canonical(values.back() + value);
      continue;
    }
    entries.indices.push_back(index);
    values.push_back(value);
  }
}

struct Span {
  const void* data;
  uint64_t bytes;
};

}  // namespace

Status checkVector(const char* name, const sparsecollVector_t* vector) {
  if (vector == nullptr) return invalid("{} is NULL", name);
  if (!isElementType(vector->dataType)) return invalid("{}.dataType is {}", name, vector->dataType);
  if (indexTypeName(vector->indexType) == nullptr) return invalid("{}.indexType is {}", name, vector->indexType);
  if ((vector->flags & ~SPARSECOLL_SORTED) != 0 || vector->reserved0 != 0)
    return invalid("{}.flags or reserved0 has unknown bits", name);
  if (vector->count == nullptr) return invalid("{}.count is NULL", name);
  SC_TRY(checkPointer(name, vector->count, alignof(uint64_t)));
  if (vector->capacity > 0 && (vector->values == nullptr || vector->indices == nullptr))
    return invalid("{}.values or indices is NULL", name);
  if (indexBytesOf(*vector) < indexBytesFor(vector->length))
    return invalid("{}: 32-bit indices cannot name {} elements", name, vector->length);
  SC_TRY(checkPointer(name, vector->values, elementBytes(static_cast<sparsecollDataType_t>(vector->dataType))));
  return checkPointer(name, vector->indices, indexBytesOf(*vector));
}

Status checkAlike(const char* aName, const sparsecollVector_t& a, const char* bName, const sparsecollVector_t& b) {
  if (a.dataType != b.dataType) return invalid("{} and {} have other data types", aName, bName);
  if (a.length != b.length) return invalid("{} and {} have lengths {} and {}", aName, bName, a.length, b.length);
  const uint64_t element = elementBytes(static_cast<sparsecollDataType_t>(a.dataType));
  const Span ofA[] = {{a.values, a.capacity * element}, {a.indices, a.capacity * indexBytesOf(a)}, {a.count, 8}};
  const Span ofB[] = {{b.values, b.capacity * element}, {b.indices, b.capacity * indexBytesOf(b)}, {b.count, 8}};
  for (const Span& first : ofA)
    for (const Span& second : ofB) {
      const auto x = reinterpret_cast<uintptr_t>(first.data);
      const auto y = reinterpret_cast<uintptr_t>(second.data);
      if (x < y + second.bytes && y < x + first.bytes) return invalid("{} and {} overlap", aName, bName);
    }
  return {};
}

Result<Entries> readEntries(const char* name, const sparsecollVector_t& vector, bool keepDuplicates) {
  if (*vector.count > vector.capacity)
    return invalid("{} has {} entries in {} slots", name, *vector.count, vector.capacity);
  if (*vector.count > 0xffffffffull) return unsupported("{} has {} entries", name, *vector.count);
  SC_TRY(checkOrder(name, vector));
  std::vector<uint64_t> order(*vector.count);
  std::iota(order.begin(), order.end(), uint64_t{0});
  if (!keepDuplicates && (vector.flags & SPARSECOLL_SORTED) == 0)
    std::stable_sort(order.begin(), order.end(),
                     [&](uint64_t a, uint64_t b) { return indexAt(vector, a) < indexAt(vector, b); });
  Entries entries;
  withElement(static_cast<sparsecollDataType_t>(vector.dataType), [&]<class T>(T) {
    if constexpr (std::is_same_v<T, double>)
      readValues<double, T>(vector, order, keepDuplicates, entries, entries.values64);
    else
      readValues<float, T>(vector, order, keepDuplicates, entries, entries.values32);
  });
  return entries;
}

void packEntries(const Entries& entries, uint64_t from, uint64_t to, uint32_t indexBytes, std::byte* payload) {
  for (uint64_t i = from; i < to; ++i) {
    if (indexBytes == 8)
      reinterpret_cast<uint64_t*>(payload)[i - from] = entries.indices[i];
    else
      reinterpret_cast<uint32_t*>(payload)[i - from] = static_cast<uint32_t>(entries.indices[i]);
  }
  std::byte* const values = payload + alignUp((to - from) * indexBytes, 16);
  if (to == from) return;
  if (!entries.values64.empty())
    std::memcpy(values, entries.values64.data() + from, (to - from) * sizeof(double));
  else
    std::memcpy(values, entries.values32.data() + from, (to - from) * sizeof(float));
}

void widenIndices(sparsecollVector_t& vector, uint32_t indexBytes, uint64_t count) {
  if (indexBytesOf(vector) == indexBytes) return;
  const auto* const narrow = static_cast<const uint32_t*>(vector.indices);
  auto* const wide = static_cast<uint64_t*>(vector.indices);
  for (uint64_t i = count; i-- > 0;) {  // from the back, so that nothing is overwritten before it is read
    uint32_t index = 0;
    std::memcpy(&index, narrow + i, sizeof index);
    wide[i] = index;
  }
}

}  // namespace sparsecoll
