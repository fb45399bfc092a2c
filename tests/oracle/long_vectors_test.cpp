// Vectors long enough to be written around the caches, at addresses of every kind (T23).
#include "tests/support/catch.h"

#include "tests/oracle/reference.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

struct Row {
  const char* preset;
  sparsecollDataType_t type;
  uint64_t n;
  size_t shift;  // elements that out is away from a multiple of 64 bytes
  uint32_t flags;
};

constexpr uint64_t kMany = 1u << 20;
constexpr Row kRows[] = {
    {"topka", sparsecollFloat32, kMany, 0, 0},
    {"topka", sparsecollFloat32, kMany + 1, 1, 0},
    {"topka", sparsecollFloat32, kMany + 7, 4, 0},
    {"topka", sparsecollFloat64, kMany / 2 + 3, 0, 0},
    {"topka", sparsecollFloat16, 2 * kMany + 5, 0, 0},
    {"topka", sparsecollBfloat16, 2 * kMany + 8, 8, 0},
    {"topka", sparsecollFloat32, kMany + 3, 0, SPARSECOLL_OUT_PRESERVED},
    {"topka", sparsecollFloat16, 2 * kMany, 0, SPARSECOLL_ACCUMULATE},
    {"micro", sparsecollFloat32, kMany + 9, 0, 0},
    {"threshold", sparsecollFloat32, kMany, 2, 0},
    {"dense", sparsecollFloat32, kMany + 5, 0, 0},
    {"dense", sparsecollFloat32, kMany, 3, 0},
    {"dense", sparsecollFloat16, 2 * kMany + 1, 8, 0},
    {"dense", sparsecollFloat64, kMany - 1, 0, SPARSECOLL_ACCUMULATE},
};

// The address of `shift` elements behind a 64-byte boundary in memory that has 64 bytes and n elements to spare.
std::byte* alignedIn(std::vector<std::byte>& memory, size_t bytes) {
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  return memory.data() + (64 - address % 64) + bytes;
}

}  // namespace

TEST_CASE("long vectors against the reference") {
  constexpr int kRanks = 2;
  for (const Row& row : kRows) {
    CAPTURE(row.preset, nameOf(row.type), row.n, row.shift, row.flags);
    const bool dense = row.preset == std::string("dense");
    sparsecollParams_t params = preset(row.preset, dense ? 0 : 0.001);
    params.flags = row.flags;
    Group group(kRanks, row.n, row.type, params);
    REQUIRE(group.created() == all(kRanks, sparsecollSuccess));
    Method method;
    method.selector = params.selector;
    method.collective = params.collective;
    method.type = row.type;
    method.ranks = kRanks;
    method.n = row.n;
    method.k = group.info().k;
    method.capacity = group.info().capacity;
    Reference reference(method);
    std::vector<std::vector<std::byte>> memory(kRanks, std::vector<std::byte>(row.n * bytesOf(row.type) + 512));
    double threshold = row.preset == std::string("threshold") ? 1 / (2 * std::sqrt(static_cast<double>(method.k))) : 0;
    std::vector<double> before(row.n);
    for (uint64_t step = 0; step < 2; ++step) {
      group.fillIntegers(step, 30);
      REQUIRE(group.each([&](int rank, sparsecollReducer_t reducer) {
        const auto r = static_cast<size_t>(rank);
        return sparsecollReducerRun(reducer, group.gradients[r].data(),
                                    alignedIn(memory[r], row.shift * bytesOf(row.type)), nullptr);
      }) == all(kRanks, sparsecollSuccess));
      if (row.preset == std::string("micro")) threshold = group.stats(0).lastThreshold;
      reference.step(group.gradients, threshold);
      const Elements out(row.type, row.n,
                         static_cast<const void*>(alignedIn(memory[0], row.shift * bytesOf(row.type))));
      const Elements other(row.type, row.n,
                           static_cast<const void*>(alignedIn(memory[1], row.shift * bytesOf(row.type))));
      CHECK((out == other));
      uint64_t wrong = 0;
      for (uint64_t i = 0; i < row.n; ++i) {
        double wanted = reference.touched()[i] ? reference.finished(i) : 0;
        if ((row.flags & SPARSECOLL_ACCUMULATE) != 0) wanted = reference.round(before[i] + wanted);
        before[i] = roundTo(row.type, wanted);
        wrong += out[i] != before[i] ? 1 : 0;
      }
      CHECK(wrong == 0);
      uint64_t guards = 0;  // bytes around out that are not zero any more
      for (std::vector<std::byte>& bytes : memory) {
        const std::byte* const begin = alignedIn(bytes, row.shift * bytesOf(row.type));
        const std::byte* const end = begin + row.n * bytesOf(row.type);
        for (const std::byte& b : bytes) guards += (&b < begin || &b >= end) && b != std::byte{0} ? 1 : 0;
      }
      CHECK(guards == 0);
    }
  }
}

TEST_CASE("millions of equal values: the lowest indices") {
  constexpr uint64_t kLength = (1u << 22) + 3;
  sparsecollParams_t params = preset("topka", 0);
  params.k = 100000;
  Group group(1, kLength, sparsecollFloat32, params);
  group.gradients[0].fill(-1);
  for (uint64_t step = 0; step < 3; ++step) {
    if (step == 1) group.gradients[0].fill(0);  // then what is left of the ones, in order
    REQUIRE(group.step() == all(1, sparsecollSuccess));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < kLength; ++i) {
      const bool due = i >= step * params.k && i < (step + 1) * params.k;
      wrong += (group.outs[0][i] == (due ? -1 : 0)) ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}
