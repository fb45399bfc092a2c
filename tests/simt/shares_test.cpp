// Which block works on what, where windows differ in length as much as they like.
#include <algorithm>
#include <numeric>

#include "tests/simt/launcher.h"
// What follows asks whether there is device code.
#include "cuda/shares.h"

namespace simt::test {
namespace {

using sparsecoll::cuda::BlockSums;
using sparsecoll::cuda::SharePart;

__global__ void layOut(const uint32_t* units, uint32_t windows, uint32_t* before) {
  __shared__ BlockSums<uint32_t> room;
  sparsecoll::cuda::layOutUnits(before, windows, room, [units](uint32_t w) { return units[w]; });
}

// Which block was given what.
struct Told {
  uint32_t block;
  SharePart part;
};

__global__ void share(const uint32_t* before, uint32_t windows, uint32_t least, Told* told, uint32_t* count) {
  sparsecoll::cuda::forShare(before, windows, least, [&](const SharePart& part) {
    if (threadIdx.x == 0) told[atomicAdd(count, 1u)] = {blockIdx.x, part};
  });
}

struct Shared {
  std::vector<Told> parts;  // in the row's order
  std::vector<uint64_t> ofBlock;
};

Shared shared(const std::vector<uint32_t>& units, uint32_t blocks, uint32_t least) {
  const auto windows = static_cast<uint32_t>(units.size());
  const Device<uint32_t> given(units), before(units.size() + 1), count(std::vector<uint32_t>{0});
  const Device<Told> told(units.size() + blocks);
  REQUIRE(launch(layOut, 1, 64, 0, given.operator uint32_t*(), windows, before.operator uint32_t*()) == cudaSuccess);
  REQUIRE(launch(share, blocks, 32, 0, before.operator uint32_t*(), windows, least, told.operator Told*(),
                 count.operator uint32_t*()) == cudaSuccess);
  Shared result{{told.operator Told*(), told.operator Told*() + count[0]}, std::vector<uint64_t>(blocks)};
  std::sort(result.parts.begin(), result.parts.end(), [](const Told& a, const Told& b) {
    return std::pair(a.part.window, a.part.begin) < std::pair(b.part.window, b.part.begin);
  });
  for (const Told& one : result.parts) result.ofBlock[one.block] += one.part.end - one.part.begin;
  return result;
}

// Every unit once, in order; blocks in order, too; and what is told about a window's blocks is true.
void checkAll(const std::vector<uint32_t>& units, const Shared& shared) {
  auto part = shared.parts.begin();
  uint32_t block = 0;
  for (uint32_t w = 0; w < units.size(); ++w) {
    uint32_t done = 0;
    const auto first = part;
    for (; part != shared.parts.end() && part->part.window == w; ++part) {
      REQUIRE(part->part.begin == done);
      REQUIRE(part->part.end > done);
      REQUIRE(part->block >= block);
      done = part->part.end;
      block = part->block;
    }
    REQUIRE(done == units[w]);
    for (auto at = first; at != part; ++at) {
      REQUIRE(at->part.firstBlock == first->block);
      REQUIRE(at->part.blocks == static_cast<uint32_t>(part - first));
    }
  }
  REQUIRE(part == shared.parts.end());
}

std::vector<uint32_t> oneHuge() {
  std::vector<uint32_t> units(300);
  for (uint32_t w = 0; w < units.size(); ++w) units[w] = w % 7;  // some have none
  units[211] = 100003;
  return units;
}

struct Case {
  const char* name;
  std::vector<uint32_t> units;
  uint32_t least;
};

TEST_CASE("every block has an even share, whatever the windows are") {
  const Case cases[] = {{"one huge window among three hundred", oneHuge(), 1},
                        {"one window", {100003}, 1},
                        {"equal windows", std::vector<uint32_t>(300, 333), 1},
                        {"fewer units than blocks", {0, 3, 0, 2, 0}, 1},
                        {"shares of at least so much", {70, 1, 0, 29, 200}, 40},
                        {"nothing", {0, 0}, 1},
                        {"no windows", {}, 1},
                        {"as many units as there can be", {4'000'000'000, 1, 294'967'000}, 1}};
  for (const Case& one : cases)
    for (const uint32_t blocks : {1u, 12u, 528u}) {
      CAPTURE(one.name, blocks);
      underSchedules([&] {
        const Shared got = shared(one.units, blocks, one.least);
        checkAll(one.units, got);
        const uint64_t all = std::accumulate(one.units.begin(), one.units.end(), uint64_t{0});
        const uint64_t even = std::max<uint64_t>((all + blocks - 1) / blocks, one.least);
        REQUIRE(*std::max_element(got.ofBlock.begin(), got.ofBlock.end()) <= even);
        REQUIRE(errors().empty());
      });
    }
}

}  // namespace
}  // namespace simt::test
