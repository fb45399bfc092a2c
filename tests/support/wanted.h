// How often something is tried, and from which seed on: few times in the suite, as often as somebody likes elsewhere.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace sparsecoll::test {

// The number that the environment variable has, or the usual one.
inline uint64_t wanted(const char* variable, uint64_t usual) {
  const char* const given = std::getenv(variable);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

// Seeds 1 to this are tried.
inline uint64_t seedCount(uint64_t usual) { return wanted("SPARSECOLL_TEST_SEEDS", usual); }

}  // namespace sparsecoll::test
