// Reading and writing the extensible structs of the C ABI.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/status.h"

namespace sparsecoll {

inline constexpr size_t kStructHeadBytes = sizeof(size_t) + 2 * sizeof(uint32_t);
inline constexpr size_t kLargestStruct = 64 * 1024;

template <class T>
Status checkHead(const T* user, const char* name) {
  if (user == nullptr) return invalid("{} is NULL", name);
  if (reinterpret_cast<uintptr_t>(user) % alignof(T) != 0) return invalid("{} is not aligned", name);
  if (user->magic != SPARSECOLL_MAGIC) return invalid("{} was not filled with SPARSECOLL_INIT (wrong magic)", name);
  if (user->structSize < kStructHeadBytes || user->structSize > kLargestStruct)
    return invalid("{}.structSize is {}", name, user->structSize);
  return {};
}

// A copy in this library's layout: fields the caller does not know are 0; fields this library does not know must be 0.
template <class T>
Result<T> readStruct(const T* user, const char* name) {
  SC_TRY(checkHead(user, name));
  T copy{};
  std::memcpy(&copy, user, std::min(user->structSize, sizeof(T)));
  const auto* const bytes = reinterpret_cast<const unsigned char*>(user);
  if (std::any_of(bytes + std::min(user->structSize, sizeof(T)), bytes + user->structSize,
                  [](unsigned char b) { return b != 0; }))
    return unsupported("{} has fields that this version of the library does not know", name);
  return copy;
}

template <class T>
Result<T> readStructOr(const T* user, const char* name) {
  if (user == nullptr) return T{};
  return readStruct(user, name);
}

// Fills what the caller's version of the struct has room for; its head stays.
template <class T>
Status writeStruct(T* user, const T& value, const char* name) {
  SC_TRY(checkHead(user, name));
  const size_t bytes = std::min(user->structSize, sizeof(T));
  std::memcpy(reinterpret_cast<std::byte*>(user) + kStructHeadBytes,
              reinterpret_cast<const std::byte*>(&value) + kStructHeadBytes, bytes - kStructHeadBytes);
  return {};
}

}  // namespace sparsecoll
