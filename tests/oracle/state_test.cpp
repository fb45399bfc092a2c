// Checkpoints, flush, reset, and residuals in the caller's memory.
#include <cmath>

#include "tests/oracle/saved_states.h"

using namespace sparsecoll::test;

TEST_CASE("a reducer goes on from a blob with the same bits") {
  for (const MethodRow& method : kMethods)
    for (const sparsecollDataType_t type : kAllTypes) {
      CAPTURE(method.preset, method.faithful, method.transactional, nameOf(type));
      const sparsecollReducerConfig_t config = configOf(method);
      Group first(3, 700, type, paramsOf(method), &config);
      runSteps(first, 1, 5);
      const std::vector<Blob> blobs = exportAll(first);
      for (const Blob& blob : blobs) REQUIRE_FALSE(blob.empty());
      Group second(3, 700, type, paramsOf(method), &config);
      runSteps(second, 90, 2);  // a past that must not matter
      for (int rank = 0; rank < 3; ++rank)
        REQUIRE(importInto(second.reducer(rank), blobs[static_cast<size_t>(rank)]) == sparsecollSuccess);
      CHECK(exportAll(second) == blobs);
      for (uint64_t step = 10; step < 15; ++step) {
        runSteps(first, step, 1);
        runSteps(second, step, 1);
        REQUIRE(sameState(first, second));
        REQUIRE(first.stats(0).lastThreshold == second.stats(0).lastThreshold);
      }
    }
}

TEST_CASE("whatever a published rule takes for its threshold, its state can be read again") {
  struct Row {
    const char* preset;
    int32_t faithful;
    uint32_t flags;
  };
  for (const Row& row : {Row{"gaussiank", 1, 0}, Row{"gaussiank", 2, 0}, Row{"sidco-e", 1, 0}, Row{"sidco-p", 1, 0},
                         Row{"sidco-e", 1, SPARSECOLL_SELECT_NOTHING}, Row{"sidco-p", 1, SPARSECOLL_SELECT_NOTHING},
                         Row{"redsync", 1, 0}, Row{"sage", 1, 0}, Row{"dgc", 1, 0}})
    for (const uint64_t n : {1, 7, 300}) {
      CAPTURE(row.preset, row.faithful, row.flags, n);
      sparsecollParams_t params = preset(row.preset, row.flags != 0 ? 0 : 0.05);
      params.faithful = row.faithful;
      params.flags |= row.flags;
      Group group(2, n, sparsecollFloat32, params);
      for (Elements& gradient : group.gradients) gradient.fill(-1);  // a mean far below 0, and no deviation
      for (int step = 0; step < 3; ++step) {
        REQUIRE(group.step() == all(2, sparsecollSuccess));
        CHECK(group.stats(0).lastThreshold >= 0);
        CHECK(importInto(group.reducer(0), exported(group.reducer(0))) == sparsecollSuccess);
      }
    }
}

TEST_CASE("a blob lies at any address, and its size is told") {
  const MethodRow method{"micro", false, false};
  Group group(2, 33, sparsecollFloat64, paramsOf(method));
  runSteps(group, 1, 3);
  const Blob blob = exported(group.reducer(0));
  Blob shifted(blob.size() + 8);
  for (size_t shift = 0; shift < 8; ++shift) {
    size_t bytes = blob.size();
    CHECK(sparsecollReducerExport(group.reducer(0), shifted.data() + shift, &bytes, nullptr) == sparsecollSuccess);
    CHECK(bytes == blob.size());
    CHECK(std::memcmp(shifted.data() + shift, blob.data(), bytes) == 0);
    CHECK(sparsecollReducerImport(group.reducer(0), shifted.data() + shift, bytes, nullptr) == sparsecollSuccess);
    CHECK(sparsecollReducerImportFrom(group.reducer(0), shifted.data() + shift, bytes, 1, nullptr) ==
          sparsecollSuccess);
    CHECK(sparsecollReducerImport(group.reducer(0), shifted.data() + shift, bytes, nullptr) == sparsecollSuccess);
  }
  std::vector<unsigned char> small(blob.size(), 0x5a);
  size_t bytes = blob.size() - 1;
  CHECK(sparsecollReducerExport(group.reducer(0), small.data(), &bytes, nullptr) == sparsecollCapacity);
  CHECK(bytes == blob.size());
  CHECK(small == std::vector<unsigned char>(blob.size(), 0x5a));
}

TEST_CASE("a damaged blob is refused and changes nothing") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful, method.transactional);
    const sparsecollReducerConfig_t config = configOf(method);
    Group group(2, 40, sparsecollFloat32, paramsOf(method), &config);
    runSteps(group, 1, 3);
    const Blob good = exported(group.reducer(1));
    runSteps(group, 5, 2);
    const Blob now = exported(group.reducer(1));
    size_t wrong = 0;
    for (size_t at = 0; at < good.size(); ++at)
      for (const std::byte flip : {std::byte{1}, std::byte{0x80}, std::byte{0xff}}) {
        Blob bad = good;
        bad[at] ^= flip;
        if (importInto(group.reducer(1), bad) != sparsecollCorrupted) ++wrong;
        if (sparsecollReducerImportFrom(group.reducer(1), bad.data(), bad.size(), 0, nullptr) == sparsecollSuccess)
          ++wrong;
      }
    for (size_t length = 0; length < good.size(); ++length)
      if (sparsecollReducerImport(group.reducer(1), good.data(), length, nullptr) != sparsecollCorrupted) ++wrong;
    Blob longer = good;
    longer.resize(good.size() + 4);
    if (importInto(group.reducer(1), longer) != sparsecollCorrupted) ++wrong;
    CHECK(wrong == 0);
    CHECK(exported(group.reducer(1)) == now);
    sparsecollResult_t state = sparsecollInternalError;
    CHECK(sparsecollCommGetAsyncError(group.ranks()[1], &state) == sparsecollSuccess);
    CHECK(state == sparsecollSuccess);
    runSteps(group, 7, 1);
  }
}

TEST_CASE("another reducer's blob is refused and changes nothing") {
  struct Other {
    const char* name;
    MethodRow method;
    int ranks, rank;
    uint64_t n;
    sparsecollDataType_t type;
  };
  const MethodRow topk{"topka", false, false};
  const Other others[] = {
      {"n", topk, 2, 0, 41, sparsecollFloat32},
      {"method", {"threshold", false, false}, 2, 0, 40, sparsecollFloat32},
      {"velocity", {"topka", false, false, 0.9}, 2, 0, 40, sparsecollFloat32},
      {"accumulate type", topk, 2, 0, 40, sparsecollFloat64},
      {"ranks", topk, 3, 0, 40, sparsecollFloat32},
      {"rank", topk, 2, 1, 40, sparsecollFloat32},
  };
  Group group(2, 40, sparsecollFloat32, paramsOf(topk));
  runSteps(group, 1, 3);
  const Blob before = exported(group.reducer(0));
  for (const Other& other : others) {
    CAPTURE(other.name);
    Group source(other.ranks, other.n, other.type, paramsOf(other.method));
    runSteps(source, 4, 2);
    CHECK(importInto(group.reducer(0), exported(source.reducer(other.rank))) == sparsecollInvalidArgument);
    CHECK(std::string(sparsecollGetLastError()).find(other.name == std::string("method") ? "selector" : other.name) !=
          std::string::npos);
    CHECK(exported(group.reducer(0)) == before);
  }
  Group faithful(2, 40, sparsecollFloat32, paramsOf({"micro", true, false}));
  Group plain(2, 40, sparsecollFloat32, paramsOf({"micro", false, false}));
  CHECK(importInto(plain.reducer(0), exported(faithful.reducer(0))) == sparsecollInvalidArgument);
  Group moving(2, 40, sparsecollFloat32, paramsOf({"topka", false, false, 0.9}));
  CHECK(importInto(moving.reducer(0), before) == sparsecollInvalidArgument);
}

TEST_CASE("ImportFrom replaces, adds or leaves out, after a change of the number of ranks") {
  const MethodRow method = GENERATE(kMethods[0], kMethods[1], kMethods[3]);
  for (const auto op : {sparsecollSum, sparsecollAvg}) {
    CAPTURE(method.preset, method.transactional, op);
    const double factor = op == sparsecollAvg ? 0.5 : 1;  // 2 of 4 ranks
    const sparsecollReducerConfig_t config = configOf(method);
    sparsecollParams_t params = paramsOf(method);
    params.op = op;
    Group many(4, 9001, sparsecollFloat32, params, &config);
    for (uint64_t step = 0; step < 3; ++step) {
      many.fillIntegers(step);
      REQUIRE(many.step() == all(4, sparsecollSuccess));
    }
    const std::vector<Blob> blobs = exportAll(many);
    Group few(2, 9001, sparsecollFloat32, params, &config);
    const auto take = [&](int rank, const Blob& blob, int merge) {
      return sparsecollReducerImportFrom(few.reducer(rank), blob.data(), blob.size(), merge, nullptr);
    };
    REQUIRE(take(0, blobs[0], 0) == sparsecollSuccess);
    REQUIRE(take(0, blobs[1], 1) == sparsecollSuccess);
    REQUIRE(take(1, blobs[2], 0) == sparsecollSuccess);
    REQUIRE(take(1, blobs[3], 1) == sparsecollSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      const Elements a = many.residual(2 * rank);
      const Elements b = many.residual(2 * rank + 1);
      const Elements sum = few.residual(rank);
      for (uint64_t i = 0; i < sum.size(); ++i)
        if (sum[i] != factor * (a[i] + b[i])) FAIL("rank " << rank << " entry " << i);
    }
    REQUIRE(take(1, blobs[3], 0) == sparsecollSuccess);
    const auto isLast = [&] {
      const Elements now = few.residual(1), last = many.residual(3);
      for (uint64_t i = 0; i < now.size(); ++i)
        if (now[i] != factor * last[i]) return false;
      return true;
    };
    CHECK(isLast());
    CHECK(take(0, blobs[0], 3) == sparsecollInvalidArgument);
    CHECK(take(1, blobs[0], 2) == sparsecollSuccess);
    CHECK(isLast());
    runSteps(few, 9, 2);
    CHECK(few.outsEqual());
  }
}

TEST_CASE("reset makes a reducer as good as new") {
  for (const MethodRow& method : kMethods) {
    CAPTURE(method.preset, method.faithful, method.transactional);
    const sparsecollReducerConfig_t config = configOf(method);
    Group used(3, 700, sparsecollFloat32, paramsOf(method), &config);
    runSteps(used, 1, 5);
    REQUIRE(used.each([](int, sparsecollReducer_t r) { return sparsecollReducerReset(r, nullptr); }) ==
            all(3, sparsecollSuccess));
    Group fresh(3, 700, sparsecollFloat32, paramsOf(method), &config);
    CHECK(exportAll(used) == exportAll(fresh));
    for (uint64_t step = 20; step < 24; ++step) {
      runSteps(used, step, 1);
      runSteps(fresh, step, 1);
      REQUIRE(sameState(used, fresh));
    }
  }
}

TEST_CASE("flush moves the residual into a dense vector, all but what the type cannot hold") {
  for (const sparsecollDataType_t type : kAllTypes)
    for (const bool integers : {true, false}) {
      CAPTURE(nameOf(type), integers);
      Group group(2, 3001, type, preset("topka", 0.01));
      for (uint64_t step = 0; step < 3; ++step) {
        integers ? group.fillIntegers(step) : group.fillRandom(step);
        REQUIRE(group.step() == all(2, sparsecollSuccess));
      }
      const Elements before = group.residual(0);
      Elements dense(type, 3001, 4.0);
      REQUIRE(sparsecollReducerFlush(group.reducer(0), dense.data(), nullptr) == sparsecollSuccess);
      const Elements after = group.residual(0);
      for (uint64_t i = 0; i < before.size(); ++i) {
        const double sum = roundTo(accumulateType(type), 4 + before[i]);
        if (dense[i] != roundTo(type, sum)) FAIL("dense[" << i << "] is " << dense[i] << ", not " << sum);
        // Integers are exact in every type here; otherwise less than a rounding of the type is left.
        const double unit = type == sparsecollFloat16 ? 0x1p-11 : type == sparsecollBfloat16 ? 0x1p-8 : 0x1p-24;
        if (std::abs(after[i]) > (integers ? 0 : unit * 16)) FAIL("residual[" << i << "] is " << after[i]);
        if (type != sparsecollFloat64 && std::abs(dense[i] + after[i] - 4 - before[i]) > 0x1p-20)
          FAIL("entry " << i << " is lost");
      }
    }
}

TEST_CASE("a residual in the caller's memory is read at create, used, and survives") {
  for (const int transactional : {0, 1}) {
    CAPTURE(transactional);
    constexpr uint64_t kLength = 300;
    Ranks ranks(2);
    std::vector<std::vector<float>> memory(2, std::vector<float>(kLength * (transactional != 0 ? 2 : 1)));
    std::vector<std::vector<float>> residuals(2);
    memory[0][7] = 100;
    std::vector<Elements> outs(2, Elements(sparsecollFloat32, kLength));
    std::vector<int> inside(2);
    const sparsecollParams_t params = preset("topka", 0.01);
    REQUIRE(onEach(ranks, [&](int rank, sparsecollComm_t comm) {
              const auto r = static_cast<size_t>(rank);
              sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
              config.buffer = memory[r].data();
              config.transactional = transactional;
              sparsecollReducer_t reducer = nullptr;
              sparsecollResult_t result =
                  sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, &config, comm);
              const Elements gradient(sparsecollFloat32, kLength, 1.0);
              for (int step = 0; step < 3 && result == sparsecollSuccess; ++step)
                result = sparsecollReducerRun(reducer, gradient.data(), outs[r].data(), nullptr);
              void* data = nullptr;
              uint64_t n = 0;
              sparsecollDataType_t type = sparsecollFloat64;
              if (result == sparsecollSuccess) result = sparsecollReducerGetResidual(reducer, &data, &n, &type);
              const auto* const live = static_cast<const float*>(data);
              inside[r] = live >= memory[r].data() && live + n <= memory[r].data() + memory[r].size() ? 1 : 0;
              if (inside[r] != 0) residuals[r].assign(live, live + n);
              const sparsecollResult_t destroyed = sparsecollReducerDestroy(reducer);
              if (inside[r] != 0 && std::memcmp(live, residuals[r].data(), n * sizeof(float)) != 0) inside[r] = 2;
              return result != sparsecollSuccess ? result : destroyed;
            }) == all(2, sparsecollSuccess));
    CHECK(inside == std::vector<int>{1, 1});
    CHECK(residuals[0][7] < 10);  // 101 went out in the first step
    CHECK(residuals[0][299] == 3);
  }
}

TEST_CASE("methods without a residual have nothing to save, flush or give back") {
  sparsecollParams_t lossy = preset("topka", 0.1);
  lossy.flags = SPARSECOLL_NO_RESIDUAL;
  for (const sparsecollParams_t& params : {preset("dense", 0), lossy}) {
    CAPTURE(params.collective);
    Group group(2, 50, sparsecollFloat32, params);
    group.fillRandom(1);
    REQUIRE(group.step() == all(2, sparsecollSuccess));
    CHECK(group.residual(0).size() == 0);
    Elements dense(sparsecollFloat32, 50, 3.0);
    const Elements before = dense;
    CHECK(sparsecollReducerFlush(group.reducer(0), dense.data(), nullptr) == sparsecollSuccess);
    CHECK((dense == before));
    CHECK(sparsecollReducerGiveBack(group.reducer(0), dense.data(), 1, nullptr) == sparsecollUnsupported);
    CHECK(exported(group.reducer(0)).size() < 200);
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.transactional = 1;
    CHECK(Group(1, 50, sparsecollFloat32, params, &config).created() == all(1, sparsecollInvalidArgument));
    config.transactional = 0;
    config.buffer = dense.data();
    CHECK(Group(1, 50, sparsecollFloat32, params, &config).created() == all(1, sparsecollInvalidArgument));
  }
}

// A method is selector, collective and faithful: what a preset sets besides does not shape the state.
TEST_CASE("presets of one method take each other's state, others do not") {
  const std::vector<std::vector<const char*>> methods = {
      {"sidco-e", "sidco-gp", "sidco-p"}, {"spardl", "spardl-rsag", "spardl-bsag"}, {"topka"}, {"gtopk"}};
  for (const auto& own : methods)
    for (const char* const from : own) {
      const auto made = [](const char* name) {
        sparsecollParams_t params = preset(name, 0.05);
        params.teams = params.collective == sparsecollCollSparDL ? 2 : 0;
        return std::make_unique<Group>(4, 600, sparsecollFloat32, params);
      };
      const auto source = made(from);
      runSteps(*source, 1, 3);
      const std::vector<Blob> blobs = exportAll(*source);
      for (const auto& others : methods)
        for (const char* const to : others) {
          CAPTURE(from, to);
          const auto target = made(to);
          const Results taken = target->each([&](int rank, sparsecollReducer_t reducer) {
            return importInto(reducer, blobs[static_cast<size_t>(rank)]);
          });
          CHECK(taken == all(4, &others == &own ? sparsecollSuccess : sparsecollInvalidArgument));
          if (&others != &own) continue;
          for (int rank = 0; rank < 4; ++rank) CHECK(target->residual(rank) == source->residual(rank));
          runSteps(*target, 4, 2);
          CHECK(target->outsEqual());
        }
    }
}

TEST_CASE("ranks that went back to different steps have Mismatch, until all are in the same one") {
  for (uint32_t p = 0; sparsecollPresetName(p) != nullptr; ++p) {
    const std::string name = sparsecollPresetName(p);
    if (name == "dense" || name == "auto") continue;  // auto: another kind of state
    CAPTURE(name);
    Group group(2, 700, sparsecollFloat32, preset(name.c_str(), 0.05));
    runSteps(group, 1, 2);
    const std::vector<Blob> before = exportAll(group);
    runSteps(group, 3, 1);
    REQUIRE(importInto(group.reducer(1), before[1]) == sparsecollSuccess);
    CHECK(group.step() == all(2, sparsecollMismatch));
    REQUIRE(importInto(group.reducer(0), before[0]) == sparsecollSuccess);
    CHECK(group.step() == all(2, sparsecollSuccess));
    CHECK(group.outsEqual());
  }
}

TEST_CASE("what depends on the number of ranks starts anew where a state comes from others") {
  Group pair(2, 700, sparsecollFloat32, preset("oktopk", 0.05));
  runSteps(pair, 1, 3);
  const std::vector<Blob> blobs = exportAll(pair);
  Group fresh(3, 700, sparsecollFloat32, preset("oktopk", 0.05));
  Group used(3, 700, sparsecollFloat32, preset("oktopk", 0.05));
  runSteps(used, 20, 5);
  for (Group* const group : {&fresh, &used})
    for (int rank = 0; rank < 3; ++rank)
      REQUIRE(sparsecollReducerImportFrom(group->reducer(rank), blobs[0].data(), blobs[0].size(), 0, nullptr) ==
              sparsecollSuccess);
  CHECK(exportAll(fresh) == exportAll(used));
}

TEST_CASE("a sum is given back to the residual that it was taken from, and to none that was put in its place") {
  sparsecollParams_t params = preset("topka", 0);
  params.k = 1;
  Group group(1, 700, sparsecollFloat32, params);
  group.gradients[0].set(3, 8);
  const auto stepAndGiveBackAfter = [&](const auto& between) {
    REQUIRE(group.step() == all(1, sparsecollSuccess));
    between();
    REQUIRE(sparsecollReducerGiveBack(group.reducer(0), group.outs[0].data(), 1, nullptr) == sparsecollSuccess);
    return group.residual(0)[3];
  };
  const Blob before = exported(group.reducer(0));
  CHECK(stepAndGiveBackAfter([] {}) == 8);
  CHECK(stepAndGiveBackAfter([&] { REQUIRE(importInto(group.reducer(0), before) == sparsecollSuccess); }) == 0);
  const auto reset = [&] { REQUIRE(sparsecollReducerReset(group.reducer(0), nullptr) == sparsecollSuccess); };
  CHECK(stepAndGiveBackAfter(reset) == 0);
}

TEST_CASE("a residual stays finite where what is added to it would make it infinite") {
  constexpr float kLarge = 3e38F;
  sparsecollParams_t params = preset("topka", 0);
  params.k = 1;
  Group group(1, 700, sparsecollFloat32, params);
  group.gradients[0].set(3, kLarge);
  group.gradients[0].set(5, 1);
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  REQUIRE(group.outs[0][3] == kLarge);
  const Blob large = [] {
    sparsecollParams_t nothing = preset("topka", 0);
    nothing.k = 1;
    Group other(1, 700, sparsecollFloat32, nothing);
    other.gradients[0].set(3, kLarge);
    other.gradients[0].set(4, kLarge);
    REQUIRE(other.step() == all(1, sparsecollSuccess));
    return exported(other.reducer(0));
  }();
  for (int times = 0; times < 2; ++times)
    REQUIRE(sparsecollReducerImportFrom(group.reducer(0), large.data(), large.size(), 1, nullptr) == sparsecollSuccess);
  CHECK(group.residual(0)[4] == kLarge);
  CHECK(group.residual(0)[5] == 1);
  CHECK(importInto(group.reducer(0), exported(group.reducer(0))) == sparsecollSuccess);
  group.gradients[0].set(3, 0);
  REQUIRE(group.step() == all(1, sparsecollSuccess));
  CHECK(sparsecollReducerGiveBack(group.reducer(0), group.outs[0].data(), 0x1p-140, nullptr) ==
        sparsecollInvalidArgument);
  REQUIRE(sparsecollReducerGiveBack(group.reducer(0), group.outs[0].data(), 0x1p-100, nullptr) == sparsecollSuccess);
  for (size_t i = 0; i < 700; ++i) REQUIRE(std::isfinite(group.residual(0)[i]));
}
