// Tests that refuse the i-th allocation take some of them, others each time; all where SPARSECOLL_TEST_EVERY is set.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace sparsecoll::test {

inline int64_t apart(int64_t some) { return std::getenv("SPARSECOLL_TEST_EVERY") != nullptr ? 1 : some; }
inline int64_t someFirst(int64_t apart) { return static_cast<int64_t>(std::time(nullptr)) % apart; }

}  // namespace sparsecoll::test
