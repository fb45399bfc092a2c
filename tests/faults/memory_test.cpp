// Pointers that are not aligned, and vectors that overlap (T07, T08, T11).
#include "tests/support/catch.h"

#include <functional>

#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 64;

std::byte* at(void* pointer, size_t bytes) { return static_cast<std::byte*>(pointer) + bytes; }

sparsecollParams_t topk() { return preset("topka", 0.1); }

}  // namespace

TEST_CASE("pointers between two elements are refused, whole elements are right") {
  for (const sparsecollDataType_t type : kAllTypes)
    for (const char* const name : {"topka", "dense"}) {
      Group group(1, kLength, type, preset(name, name == std::string("dense") ? 0 : 0.1));
      group.fillRandom(1);
      const size_t size = bytesOf(type);
      const uint64_t bytes = kLength * size;
      std::vector<uint64_t> in(kLength + 4);
      std::vector<uint64_t> out(kLength + 4);
      for (size_t shift = 0; shift <= 15; ++shift) {
        CAPTURE(nameOf(type), name, shift);
        const sparsecollResult_t wanted = shift % size == 0 ? sparsecollSuccess : sparsecollInvalidArgument;
        std::memcpy(at(in.data(), shift), group.gradients[0].data(), bytes);
        const auto run = [&](const void* gradient, void* sum) {
          return sparsecollReducerRun(group.reducer(0), gradient, sum, nullptr);
        };
        REQUIRE(sparsecollReducerReset(group.reducer(0), nullptr) == sparsecollSuccess);
        CHECK(run(at(in.data(), shift), out.data()) == wanted);
        REQUIRE(sparsecollReducerReset(group.reducer(0), nullptr) == sparsecollSuccess);
        std::memset(out.data(), 0x5a, out.size() * 8);
        CHECK(run(group.gradients[0].data(), at(out.data(), shift)) == wanted);
        const auto* const raw = reinterpret_cast<const unsigned char*>(out.data());
        bool kept = true;  // nothing before and nothing behind the vector is touched
        for (size_t i = 0; i < shift; ++i) kept = kept && raw[i] == 0x5a;
        for (size_t i = shift + bytes; i < out.size() * 8; ++i) kept = kept && raw[i] == 0x5a;
        CHECK(kept);
        if (wanted != sparsecollSuccess) continue;
        REQUIRE(sparsecollReducerReset(group.reducer(0), nullptr) == sparsecollSuccess);
        REQUIRE(group.step() == all(1, sparsecollSuccess));
        CHECK(std::memcmp(at(out.data(), shift), group.outs[0].data(), bytes) == 0);
      }
    }
}

TEST_CASE("other calls refuse pointers between two elements too") {
  Group group(1, kLength, sparsecollFloat32, topk());
  const sparsecollComm_t comm = group.ranks()[0];
  const sparsecollReducer_t reducer = group.reducer(0);
  std::vector<uint64_t> memory(kLength);
  const sparsecollParams_t params = topk();
  for (size_t shift = 1; shift < 8; ++shift) {
    if (shift == 4) continue;
    CAPTURE(shift);
    void* const odd = at(memory.data(), shift);
    SparseVector out(sparsecollFloat32, kLength, kLength);
    SparseVector in(sparsecollFloat32, kLength, 2);
    in.add(1, 1);
    CHECK(sparsecollAllReduce(odd, group.outs[0].data(), kLength, sparsecollFloat32, &params, comm, nullptr) ==
          sparsecollInvalidArgument);
    CHECK(sparsecollAllReduce(group.outs[0].data(), odd, kLength, sparsecollFloat32, &params, comm, nullptr) ==
          sparsecollInvalidArgument);
    CHECK(sparsecollSelect(odd, kLength, sparsecollFloat32, &params, out.view(), comm, nullptr) ==
          sparsecollInvalidArgument);
    CHECK(sparsecollScatterAdd(in.view(), odd, kLength, 1, comm, nullptr) == sparsecollInvalidArgument);
    CHECK(sparsecollReducerGiveBack(reducer, odd, 1, nullptr) == sparsecollInvalidArgument);
    CHECK(sparsecollReducerFlush(reducer, odd, nullptr) == sparsecollInvalidArgument);
    CHECK(sparsecollReducerRunSparse(reducer, odd, out.view(), nullptr) == sparsecollInvalidArgument);
    sparsecollVector_t values = *out.view();
    values.values = odd;
    CHECK(sparsecollReducerRunSparse(reducer, group.gradients[0].data(), &values, nullptr) ==
          sparsecollInvalidArgument);
    sparsecollVector_t indices = *out.view();
    indices.indices = odd;
    CHECK(sparsecollReducerRunSparse(reducer, group.gradients[0].data(), &indices, nullptr) ==
          sparsecollInvalidArgument);
    REQUIRE(group.step() == all(1, sparsecollSuccess));
  }
}

TEST_CASE("counts and bounds need the alignment of their elements") {
  Group group(1, kLength, sparsecollFloat32, topk());
  const sparsecollComm_t comm = group.ranks()[0];
  uint64_t memory[4] = {0, 0, 0, 0};
  auto* const odd = reinterpret_cast<uint64_t*>(at(memory, 1));
  SparseVector in(sparsecollFloat32, kLength, 2);
  SparseVector other(sparsecollFloat32, kLength, 2);
  SparseVector out(sparsecollFloat32, kLength, kLength);
  sparsecollVector_t spoilt = *out.view();
  spoilt.count = odd;
  CHECK(sparsecollAllReduceVector(in.view(), &spoilt, nullptr, comm, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollReducerRunSparse(group.reducer(0), group.gradients[0].data(), &spoilt, nullptr) ==
        sparsecollInvalidArgument);
  CHECK(sparsecollMerge(in.view(), other.view(), &spoilt, comm, nullptr) == sparsecollInvalidArgument);
  spoilt = *in.view();
  spoilt.count = odd;
  CHECK(sparsecollAllGatherVector(&spoilt, out.view(), comm, nullptr) == sparsecollInvalidArgument);
  const uint64_t bounds[3] = {0, kLength, 0};
  std::memcpy(odd, bounds, 16);
  CHECK(sparsecollReduceScatterVector(in.view(), out.view(), odd, comm, nullptr) == sparsecollInvalidArgument);
}

TEST_CASE("bounds that are no partition") {
  const Ranks ranks(1);
  for (const auto& [first, last] :
       {std::pair<uint64_t, uint64_t>{1, kLength}, {0, kLength - 1}, {0, kLength + 1}, {kLength, 0}}) {
    CAPTURE(first, last);
    const uint64_t bounds[] = {first, last};
    SparseVector in(sparsecollFloat32, kLength, 2);
    SparseVector out(sparsecollFloat32, kLength, 2);
    CHECK(sparsecollReduceScatterVector(in.view(), out.view(), bounds, ranks[0], nullptr) == sparsecollInvalidArgument);
  }
  const Ranks three(3);
  const uint64_t back[] = {0, 40, 20, kLength};
  CHECK(onEach(three, [&](int, sparsecollComm_t comm) {
          SparseVector in(sparsecollFloat32, kLength, 2);
          SparseVector out(sparsecollFloat32, kLength, 2);
          return sparsecollReduceScatterVector(in.view(), out.view(), back, comm, nullptr);
        }) == all(3, sparsecollInvalidArgument));
}

TEST_CASE("equal or disjoint: an overlap by one element is refused") {
  for (const sparsecollDataType_t type : kAllTypes)
    for (const char* const name : {"topka", "dense"}) {
      CAPTURE(nameOf(type), name);
      Group group(1, kLength, type, preset(name, name == std::string("dense") ? 0 : 0.1));
      const size_t size = bytesOf(type);
      const uint64_t bytes = kLength * size;
      std::vector<uint64_t> memory(3 * kLength);
      std::byte* const middle = at(memory.data(), bytes);
      const auto run = [&](const void* gradient, void* out) {
        return sparsecollReducerRun(group.reducer(0), gradient, out, nullptr);
      };
      CHECK(run(middle, middle) == sparsecollSuccess);
      CHECK(run(middle, middle + bytes) == sparsecollSuccess);
      CHECK(run(middle, middle - bytes) == sparsecollSuccess);
      for (const std::ptrdiff_t by : {std::ptrdiff_t(size), std::ptrdiff_t(bytes - size)}) {
        CHECK(run(middle, middle + by) == sparsecollInvalidArgument);
        CHECK(run(middle, middle - by) == sparsecollInvalidArgument);
      }
      const sparsecollParams_t params = preset(name, name == std::string("dense") ? 0 : 0.1);
      CHECK(sparsecollAllReduce(middle, middle + size, kLength, type, &params, group.ranks()[0], nullptr) ==
            sparsecollInvalidArgument);
      CHECK(sparsecollAllReduce(middle, middle, kLength, type, &params, group.ranks()[0], nullptr) ==
            sparsecollSuccess);
    }
}

TEST_CASE("in place gives what separate vectors give") {
  for (const char* const name : {"dense", "topka", "threshold", "micro"})
    for (const int ranks : {1, 3}) {
      CAPTURE(name, ranks);
      Group apart(ranks, 9001, sparsecollFloat32, preset(name, name == std::string("dense") ? 0 : 0.1));
      Group inPlace(ranks, 9001, sparsecollFloat32, preset(name, name == std::string("dense") ? 0 : 0.1));
      for (uint64_t step = 0; step < 3; ++step) {
        apart.fillRandom(step);
        inPlace.fillRandom(step);
        REQUIRE(apart.step() == all(ranks, sparsecollSuccess));
        REQUIRE(inPlace.each([&](int rank, sparsecollReducer_t reducer) {
          void* const vector = inPlace.gradients[static_cast<size_t>(rank)].data();
          return sparsecollReducerRun(reducer, vector, vector, nullptr);
        }) == all(ranks, sparsecollSuccess));
        CHECK((inPlace.gradients == apart.outs));
      }
    }
}

TEST_CASE("the residual is neither gradient nor out") {
  Group group(1, kLength, sparsecollFloat32, topk());
  void* residual = nullptr;
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat64;
  REQUIRE(sparsecollReducerGetResidual(group.reducer(0), &residual, &n, &type) == sparsecollSuccess);
  REQUIRE(n == kLength);
  void* const other = group.outs[0].data();
  CHECK(sparsecollReducerRun(group.reducer(0), residual, other, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollReducerRun(group.reducer(0), other, residual, nullptr) == sparsecollInvalidArgument);
  CHECK(sparsecollReducerRun(group.reducer(0), at(residual, 4), other, nullptr) == sparsecollInvalidArgument);
  CHECK(group.step() == all(1, sparsecollSuccess));
}

TEST_CASE("a sparse out that overlaps the gradient or the residual is refused") {
  Group group(1, kLength, sparsecollFloat32, topk());
  void* residual = nullptr;
  uint64_t n = 0;
  sparsecollDataType_t type = sparsecollFloat64;
  REQUIRE(sparsecollReducerGetResidual(group.reducer(0), &residual, &n, &type) == sparsecollSuccess);
  std::vector<uint64_t> gradient(kLength);
  for (void* const shared : {at(gradient.data(), 4), at(residual, 0), at(residual, 4)})
    for (const bool values : {true, false}) {
      CAPTURE(shared == at(gradient.data(), 4), values);
      SparseVector out(sparsecollFloat32, kLength, 10);
      (values ? out.view()->values : out.view()->indices) = shared;
      CHECK(sparsecollReducerRunSparse(group.reducer(0), gradient.data(), out.view(), nullptr) ==
            sparsecollInvalidArgument);
    }
}

TEST_CASE("RunSparse checks its vector like every other call") {
  Group group(1, kLength, sparsecollFloat32, topk());
  const auto run = [&](const std::function<void(sparsecollVector_t&)>& spoil) {
    SparseVector out(sparsecollFloat32, kLength, kLength);
    spoil(*out.view());
    return sparsecollReducerRunSparse(group.reducer(0), group.gradients[0].data(), out.view(), nullptr);
  };
  CHECK(run([](auto&) {}) == sparsecollSuccess);
  CHECK(run([](auto& v) { v.flags = SPARSECOLL_SORTED; }) == sparsecollSuccess);
  CHECK(run([](auto& v) { v.flags = 4; }) == sparsecollInvalidArgument);
  CHECK(run([](auto& v) { v.reserved0 = 1; }) == sparsecollInvalidArgument);
  CHECK(run([](auto& v) { v.dataType = sparsecollFloat64; }) == sparsecollInvalidArgument);
  CHECK(run([](auto& v) { v.length = kLength - 1; }) == sparsecollInvalidArgument);
  CHECK(run([](auto& v) { v.values = nullptr; }) == sparsecollInvalidArgument);
  CHECK(run([](auto& v) { v.count = nullptr; }) == sparsecollInvalidArgument);
  CHECK(run([](auto& v) { v.indexType = 77; }) == sparsecollInvalidArgument);
}

TEST_CASE("a sum of nothing needs no memory") {
  sparsecollParams_t params = preset("topka", 0);
  params.flags = SPARSECOLL_SELECT_NOTHING;
  Group group(1, kLength, sparsecollFloat32, params);
  REQUIRE(group.created() == all(1, sparsecollSuccess));
  uint64_t count = 99;
  sparsecollVector_t out{nullptr, nullptr, &count, 0, kLength, sparsecollFloat32, sparsecollIndexU32, 0, 0, {}};
  CHECK(sparsecollReducerRunSparse(group.reducer(0), group.gradients[0].data(), &out, nullptr) == sparsecollSuccess);
  CHECK(count == 0);
}
