// The calls on sparse vectors on devices: every byte of what they write, and how they end, as on the host.
#include <bit>
#include <functional>
#include <memory>
#include <string>

#include "tests/device/checks.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

constexpr int kRankCounts[] = {1, 2, 3, 4};
constexpr auto& kTypes = kAllTypes;

struct Shape {
  const char* name;
  uint64_t length;
  uint64_t entries;  // of a rank, more or less
  sparsecollIndexType_t inIndices;
  sparsecollIndexType_t outIndices;
  bool sorted;
  double repeated;  // share of entries whose index stands there already
};
const Shape kShapes[] = {
    {"sorted", 5000, 300, sparsecollIndexU32, sparsecollIndexU32, true, 0},
    {"in any order", 5000, 300, sparsecollIndexU32, sparsecollIndexU32, false, 0},
    {"repeated", 700, 3000, sparsecollIndexU32, sparsecollIndexU32, false, 0.5},
    {"one index", 3, 4200, sparsecollIndexU32, sparsecollIndexU32, false, 1},
    {"wide in", 5000, 100, sparsecollIndexU64, sparsecollIndexU32, false, 0.1},
    {"wide out", 5000, 100, sparsecollIndexU32, sparsecollIndexU64, true, 0},
    {"long", uint64_t{1} << 40, 500, sparsecollIndexU64, sparsecollIndexU64, false, 0.2},
    {"nothing", 5000, 0, sparsecollIndexU32, sparsecollIndexU32, false, 0},
};

using Vectors = std::vector<std::unique_ptr<SparseVector>>;

// Deterministic: the same twice are two vectors with the same bytes.
std::unique_ptr<SparseVector> vectorOf(const Shape& shape, sparsecollDataType_t type, uint64_t seed) {
  Random random(seed);
  auto vector = std::make_unique<SparseVector>(type, shape.length, shape.entries + 8, shape.inIndices);
  uint64_t index = 0;
  for (uint64_t e = 0; e < shape.entries; ++e) {
    if (shape.sorted) {
      index += 1 + random.below(2 * shape.length / shape.entries - 1);
      if (index >= shape.length) break;
    } else if (e == 0 || static_cast<double>(random.below(1000)) >= shape.repeated * 1000) {
      index = random.below(shape.length);
    }
    vector->add(index, random.bell());
  }
  if (shape.sorted) vector->view()->flags |= SPARSECOLL_SORTED;
  return vector;
}

struct Outcome {
  std::vector<sparsecollResult_t> results;
  Vectors outs;
};

using Call = std::function<sparsecollResult_t(const sparsecollVector_t*, sparsecollVector_t*, int, sparsecollComm_t)>;

Outcome outcomeOf(const Shape& shape, sparsecollDataType_t type, int ranks, int device, uint64_t outCapacity,
                  const Call& call) {
  Ranks group(ranks, nullptr, device);
  Outcome outcome;
  Vectors ins;
  for (int rank = 0; rank < ranks; ++rank) {
    ins.push_back(vectorOf(shape, type, static_cast<uint64_t>(rank) + 7));
    outcome.outs.push_back(std::make_unique<SparseVector>(type, shape.length, outCapacity, shape.outIndices));
  }
  // Twice, as the second call finds memory that the first one has used.
  for (int turn = 0; turn < 2; ++turn)
    outcome.results = onEach(group, [&](int rank, sparsecollComm_t comm) {
      const auto r = static_cast<size_t>(rank);
      return call(ins[r]->view(), outcome.outs[r]->view(), rank, comm);
    });
  checkEmulation();
  return outcome;
}

void checkSame(const SparseVector& ofDevice, const SparseVector& ofHost, bool whole) {
  REQUIRE(ofDevice.count() == ofHost.count());
  if (!whole) return;
  for (size_t i = 0; i < ofHost.count(); ++i) {
    if (ofDevice.index(i) == ofHost.index(i) &&
        std::bit_cast<uint64_t>(ofDevice.value(i)) == std::bit_cast<uint64_t>(ofHost.value(i)))
      continue;
    CAPTURE(i);
    CHECK(ofDevice.index(i) == ofHost.index(i));
    CHECK(std::bit_cast<uint64_t>(ofDevice.value(i)) == std::bit_cast<uint64_t>(ofHost.value(i)));
    return;
  }
}

void checkShape(const Shape& shape, sparsecollDataType_t type, int ranks, uint64_t capacity, const Call& call) {
  CAPTURE(shape.name, nameOf(type), ranks, capacity);
  const Outcome host = outcomeOf(shape, type, ranks, -1, capacity, call);
  const Outcome device = outcomeOf(shape, type, ranks, kDevice, capacity, call);
  CHECK(device.results == host.results);
  for (size_t r = 0; r < host.outs.size(); ++r) {
    checkSame(*device.outs[r], *host.outs[r], host.results[r] == sparsecollSuccess);
    if (host.results[r] == sparsecollSuccess) CHECK(device.outs[r]->view()->flags == host.outs[r]->view()->flags);
  }
}

// Every shape, number of ranks and type, but not each with each: emulated sums of long vectors take their time.
void checkCall(const Call& call) {
  for (const Shape& shape : kShapes) {
    const uint64_t room = shape.entries * 4 + 8;
    if (shape.length > 10000) {
      checkShape(shape, sparsecollFloat32, 1, room, call);
      continue;
    }
    for (const int ranks : kRankCounts) checkShape(shape, sparsecollFloat32, ranks, room, call);
    for (const sparsecollDataType_t type : kTypes) checkShape(shape, type, 2, room, call);
    checkShape(shape, sparsecollFloat32, 3, shape.entries / 2, call);  // too few slots
  }
}

}  // namespace

TEST_CASE("AllReduceVector on devices has the host's bits") {
  checkCall([](const sparsecollVector_t* in, sparsecollVector_t* out, int, sparsecollComm_t comm) {
    sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
    params.op = sparsecollAvg;
    params.outputScale = 0.75;
    return sparsecollAllReduceVector(in, out, &params, comm, nullptr);
  });
}

TEST_CASE("ReduceScatterVector on devices has the host's bits") {
  checkCall([](const sparsecollVector_t* in, sparsecollVector_t* out, int, sparsecollComm_t comm) {
    return sparsecollReduceScatterVector(in, out, nullptr, comm, nullptr);
  });
}

TEST_CASE("ReduceScatterVector on devices takes bounds, empty parts too") {
  checkCall([](const sparsecollVector_t* in, sparsecollVector_t* out, int, sparsecollComm_t comm) {
    int ranks = 0;
    if (sparsecollCommGetInfo(comm, nullptr, &ranks, nullptr) != sparsecollSuccess) return sparsecollInternalError;
    std::vector<uint64_t> bounds(static_cast<size_t>(ranks) + 1, in->length / 3);
    bounds.front() = 0;
    bounds.back() = in->length;
    return sparsecollReduceScatterVector(in, out, bounds.data(), comm, nullptr);
  });
}

TEST_CASE("AllGatherVector on devices has the host's bits") {
  checkCall([](const sparsecollVector_t* in, sparsecollVector_t* out, int, sparsecollComm_t comm) {
    return sparsecollAllGatherVector(in, out, comm, nullptr);
  });
}

TEST_CASE("Merge on devices has the host's bits") {
  for (const Shape& shape : kShapes)
    for (const sparsecollDataType_t type : kAllTypes)
      for (const uint64_t capacity : {shape.entries * 2 + 8, shape.entries / 2}) {
        if (shape.length > 10000 && type != sparsecollFloat32) continue;
        CAPTURE(shape.name, nameOf(type), capacity);
        std::vector<std::unique_ptr<SparseVector>> outs;
        std::vector<sparsecollResult_t> results;
        for (const int device : {-1, kDevice}) {
          Ranks one(1, nullptr, device);
          const auto a = vectorOf(shape, type, 3);
          const auto b = vectorOf(shape, type, 4);
          outs.push_back(std::make_unique<SparseVector>(type, shape.length, capacity, shape.outIndices));
          results.push_back(sparsecollMerge(a->view(), b->view(), outs.back()->view(), one[0], nullptr));
        }
        CHECK(results[1] == results[0]);
        checkSame(*outs[1], *outs[0], results[0] == sparsecollSuccess);
      }
}

TEST_CASE("Select on devices has the host's bits") {
  constexpr uint64_t kLength = 20011;
  for (const sparsecollDataType_t type : kAllTypes)
    for (const sparsecollSelect_t selector : {sparsecollSelectTopK, sparsecollSelectThreshold})
      for (const double inputScale : {1.0, 0.5})
        for (const uint64_t capacity : {uint64_t{600}, kLength, uint64_t{10}}) {
          CAPTURE(nameOf(type), selector, inputScale, capacity);
          Elements in(type, kLength);
          Random random(5);
          for (size_t i = 0; i < kLength; ++i) in.set(i, random.bell());
          sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
          params.selector = selector;
          params.k = 500;
          if (selector == sparsecollSelectThreshold) params.threshold = 1;
          params.inputScale = inputScale;
          std::vector<std::unique_ptr<SparseVector>> outs;
          std::vector<sparsecollResult_t> results;
          for (const int device : {-1, kDevice}) {
            Ranks one(1, nullptr, device);
            outs.push_back(std::make_unique<SparseVector>(type, kLength, capacity, sparsecollIndexU64));
            results.push_back(
                sparsecollSelect(in.data(), kLength, type, &params, outs.back()->view(), one[0], nullptr));
          }
          CHECK(results[1] == results[0]);
          checkSame(*outs[1], *outs[0], results[0] == sparsecollSuccess);
          if (results[0] == sparsecollSuccess) CHECK(outs[1]->view()->flags == outs[0]->view()->flags);
        }
}

TEST_CASE("ScatterAdd on devices has the host's bits") {
  for (const Shape& shape : kShapes) {
    if (shape.length > 10000) continue;
    for (const sparsecollDataType_t type : kAllTypes) {
      CAPTURE(shape.name, nameOf(type));
      std::vector<Elements> denses;
      for (const int device : {-1, kDevice}) {
        Ranks one(1, nullptr, device);
        const auto in = vectorOf(shape, type, 6);
        Elements& dense = denses.emplace_back(type, shape.length);
        for (size_t i = 0; i < shape.length; ++i) dense.set(i, static_cast<double>(i % 7));
        CHECK(sparsecollScatterAdd(in->view(), dense.data(), shape.length, 0.3, one[0], nullptr) == sparsecollSuccess);
      }
      CHECK(denses[1] == denses[0]);
    }
  }
}

TEST_CASE("what is wrong with a vector is told by the call, which then has no effect") {
  struct Wrong {
    const char* name;
    std::function<void(SparseVector&)> spoil;
  };
  const Wrong wrongs[] = {
      {"index past the end", [](SparseVector& v) { v.add(5000, 1); }},
      {"not in order",
       [](SparseVector& v) {
         v.view()->flags |= SPARSECOLL_SORTED;
         v.add(1, 1);
       }},
      {"more than slots", [](SparseVector& v) { v.setCount(v.view()->capacity + 1); }},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.name);
    Ranks one(1, nullptr, kDevice);
    const auto in = vectorOf(kShapes[0], sparsecollFloat32, 9);
    wrong.spoil(*in);
    SparseVector out(sparsecollFloat32, kShapes[0].length, 1000);
    out.setCount(77);
    Elements dense(sparsecollFloat32, kShapes[0].length);
    const Elements before = dense;
    CHECK(sparsecollAllReduceVector(in->view(), out.view(), nullptr, one[0], nullptr) == sparsecollInvalidArgument);
    CHECK(sparsecollMerge(in->view(), in->view(), out.view(), one[0], nullptr) == sparsecollInvalidArgument);
    CHECK(sparsecollScatterAdd(in->view(), dense.data(), kShapes[0].length, 1, one[0], nullptr) ==
          sparsecollInvalidArgument);
    CHECK(out.count() == 77);
    CHECK(dense == before);
    const auto good = vectorOf(kShapes[0], sparsecollFloat32, 9);
    CHECK(sparsecollAllReduceVector(good->view(), out.view(), nullptr, one[0], nullptr) == sparsecollSuccess);
    CHECK(out.count() == good->count());
  }
}

TEST_CASE("ranks that disagree on a call of vectors all hear of it, on devices too") {
  Ranks group(2, nullptr, kDevice);
  Vectors ins, outs;
  for (uint64_t r = 0; r < 2; ++r) {
    ins.push_back(vectorOf(kShapes[0], sparsecollFloat32, r));
    outs.push_back(std::make_unique<SparseVector>(sparsecollFloat32, kShapes[0].length, 2000));
  }
  const auto call = [&](double scaleOfTheFirst) {
    return onEach(group, [&](int rank, sparsecollComm_t comm) {
      sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
      params.outputScale = rank == 0 ? scaleOfTheFirst : 1;
      const auto r = static_cast<size_t>(rank);
      return sparsecollAllReduceVector(ins[r]->view(), outs[r]->view(), &params, comm, nullptr);
    });
  };
  CHECK(call(2) == all(2, sparsecollMismatch));
  CHECK(call(1) == all(2, sparsecollSuccess));
}
