// How often a test of chance is repeated.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace sparsecoll::test {

// Seeds 1 to this are tried: few in the suite, or as many as SPARSECOLL_TEST_SEEDS says.
inline uint64_t seedCount(uint64_t usual) {
  const char* const said = std::getenv("SPARSECOLL_TEST_SEEDS");
  return said != nullptr ? std::strtoull(said, nullptr, 10) : usual;
}

}  // namespace sparsecoll::test
