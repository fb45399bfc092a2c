#include "src/entries.h"

#include <algorithm>
#include <array>
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

struct Part {
  const char* name;
  const void* data;
  uint64_t bytes;
};

std::array<Part, 3> partsOf(const sparsecollVector_t& vector) {
  const uint64_t element = elementBytes(static_cast<sparsecollDataType_t>(vector.dataType));
  return {{{"values", vector.values, vector.capacity * element},
           {"indices", vector.indices, vector.capacity * indexBytesOf(vector)},
           {"count", vector.count, sizeof *vector.count}}};
}

Status checkParts(const char* name, const sparsecollVector_t& vector) {
  const auto parts = partsOf(vector);
  for (size_t a = 0; a < parts.size(); ++a)
    for (size_t b = a + 1; b < parts.size(); ++b)
      if (!checkDisjoint("", parts[a].data, parts[a].bytes, "", parts[b].data, parts[b].bytes).ok())
        return invalid("{}.{} and {}.{} overlap", name, parts[a].name, name, parts[b].name);
  return {};
}

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
  SC_TRY(checkPointer(name, vector->indices, indexBytesOf(*vector)));
  return checkParts(name, *vector);
}

Status checkAlike(const char* aName, const sparsecollVector_t& a, const char* bName, const sparsecollVector_t& b) {
  if (a.dataType != b.dataType) return invalid("{} and {} have other data types", aName, bName);
  if (a.length != b.length) return invalid("{} and {} have lengths {} and {}", aName, bName, a.length, b.length);
  for (const Part& ofA : partsOf(a))
    for (const Part& ofB : partsOf(b)) SC_TRY(checkDisjoint(aName, ofA.data, ofA.bytes, bName, ofB.data, ofB.bytes));
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
