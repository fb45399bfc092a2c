// Whatever the library hands out was written: sums, residuals, blobs, counters, texts, and messages. MemorySanitizer
// looks at every branch meanwhile. It knows only what was compiled with it, so this is no Catch2 program: the standard
// library's streams, which Catch2 uses, write without telling.
#include <sanitizer/msan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "tests/support/group.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr uint64_t kLength = 3001;

sparsecollSegment_t tensors[] = {{1000, 0, 0, 0}, {401, 0, 1, 0}, {1600, 0, 0, 0}};
constexpr double kWarmUp[] = {0.25, 0.05};

struct Variant {
  const char* name;
  void (*change)(sparsecollParams_t& params, sparsecollReducerConfig_t& config);
};

constexpr Variant kVariants[] = {
    // Not all go with every preset.
    {"as it is", [](auto&, auto&) {}},
    {"faithful", [](auto& params, auto&) { params.faithful = 1; }},
    {"momentum, clipped, fading",
     [](auto& params, auto&) {
       params.momentum = 0.9;
       params.flags |= SPARSECOLL_NESTEROV;
       params.clipNorm = 1;
       params.residualDecay = 0.5;
     }},
    {"transactional",
     [](auto& params, auto& config) {
       params.momentum = 0.9;
       config.transactional = 1;
     }},
    {"tensors, one of them dense",
     [](auto&, auto& config) {
       config.segments = tensors;
       config.segmentCount = std::size(tensors);
     }},
    {"a density of each tensor",
     [](auto&, auto& config) {
       static const sparsecollSegment_t own[] = {{1000, 0.01, 0, 0}, {401, 0.5, 0, 0}, {1600, 0.001, 0, 0}};
       config.segments = own;
       config.segmentCount = std::size(own);
     }},
    {"added to out", [](auto& params, auto&) { params.flags |= SPARSECOLL_ACCUMULATE; }},
    {"out preserved", [](auto& params, auto&) { params.flags |= SPARSECOLL_OUT_PRESERVED; }},
    {"averaged over contributors",
     [](auto& params, auto&) {
       params.op = sparsecollAvg;
       params.flags |= SPARSECOLL_AVERAGE_CONTRIBUTORS;
     }},
    {"warm-up",
     [](auto&, auto& config) {
       config.densitySchedule = kWarmUp;
       config.densityScheduleCount = std::size(kWarmUp);
       config.scheduleSteps = 1;
     }},
    {"over nodes",
     [](auto& params, auto&) {
       params.betweenNodes = params.collective;
       params.collective = sparsecollCollHierarchical;
     }},
};

sparsecollParams_t paramsOf(const std::string& name) { return preset(name.c_str(), name == "dense" ? 0 : 0.02); }

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", what.c_str(), sparsecollGetLastError());
  std::_Exit(1);
}

void need(bool good, const std::string& what) {
  if (!good) fail(what);
}

void needWritten(const void* memory, size_t bytes, const std::string& what) {
  const intptr_t unwritten = __msan_test_shadow(memory, bytes);
  if (unwritten >= 0) fail(what + ": byte " + std::to_string(unwritten) + " of " + std::to_string(bytes));
}

void forget(Elements& vector) { __msan_allocated_memory(vector.data(), vector.size() * bytesOf(vector.type())); }

void needWritten(const Elements& vector, const std::string& what) {
  needWritten(vector.data(), vector.size() * bytesOf(vector.type()), what);
}

template <class Struct, class Get>
void needTold(Get get, const std::string& what) {
  Struct told = SPARSECOLL_INIT(Struct);
  need(get(&told) == sparsecollSuccess, what);
  needWritten(&told, sizeof told, what);
}

// A step, and what can be asked for behind it.
void checkStep(Group& group, uint64_t step, bool adds, const std::string& name) {
  const auto ranks = static_cast<size_t>(group.count());
  group.fillRandom(step);
  if (step == 2) group.gradients[0].set(7, HUGE_VAL);
  if (!adds)
    for (Elements& out : group.outs) forget(out);
  need(group.step() == all(group.count(), sparsecollSuccess), name);
  for (size_t r = 0; r < ranks; ++r) {
    const sparsecollReducer_t reducer = group.reducer(static_cast<int>(r));
    needWritten(group.outs[r], name + ": out");
    void* residual = nullptr;
    uint64_t n = 0;
    sparsecollDataType_t type = sparsecollFloat32;
    need(sparsecollReducerGetResidual(reducer, &residual, &n, &type) == sparsecollSuccess, name);
    if (residual != nullptr) needWritten(residual, n * bytesOf(type), name + ": residual");
    size_t bytes = 0;
    need(sparsecollReducerExport(reducer, nullptr, &bytes, nullptr) == sparsecollSuccess, name);
    Blob blob(bytes);
    __msan_allocated_memory(blob.data(), bytes);
    need(sparsecollReducerExport(reducer, blob.data(), &bytes, nullptr) == sparsecollSuccess, name);
    needWritten(blob.data(), bytes, name + ": blob");
    need(importInto(reducer, blob) == sparsecollSuccess, name);
    needTold<sparsecollStats_t>([&](auto* told) { return sparsecollReducerGetStats(reducer, told); }, name);
    needTold<sparsecollReducerInfo_t>([&](auto* told) { return sparsecollReducerGetInfo(reducer, told); }, name);
  }
}

void checkSparseSum(Group& group, sparsecollDataType_t type, const std::string& name) {
  std::vector<std::unique_ptr<SparseVector>> sums;
  for (int r = 0; r < group.count(); ++r) sums.push_back(std::make_unique<SparseVector>(type, kLength, kLength));
  const Results results = group.each([&](int rank, sparsecollReducer_t reducer) {
    const auto r = static_cast<size_t>(rank);
    sparsecollVector_t* const sum = sums[r]->view();
    __msan_allocated_memory(sum->values, kLength * bytesOf(type));
    __msan_allocated_memory(sum->indices, kLength * sizeof(uint32_t));
    return sparsecollReducerRunSparse(reducer, group.gradients[r].data(), sum, nullptr);
  });
  if (results == all(group.count(), sparsecollUnsupported)) return;
  need(results == all(group.count(), sparsecollSuccess), name);
  for (const auto& sum : sums) {
    needWritten(sum->view()->values, sum->count() * bytesOf(type), name + ": values of a sparse sum");
    needWritten(sum->view()->indices, sum->count() * sizeof(uint32_t), name + ": indices of a sparse sum");
  }
}

// The meeting, its keys, and a step over sockets, whose calls look at what they are given.
void checkOverTcp(int count) {
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.transport = sparsecollTransportTcp;
  sparsecollUniqueId_t id{};
  need(sparsecollGetUniqueId(&id, &config) == sparsecollSuccess, "the id");
  needWritten(&id, sizeof id, "the id");
  std::vector<sparsecollComm_t> comms(static_cast<size_t>(count));
  Results results(comms.size());
  RankThreads::ofProcess().run(count, [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    results[r] = sparsecollCommInitRank(&comms[r], count, &id, rank, SPARSECOLL_HOST, &config);
  });
  need(results == all(count, sparsecollSuccess), "ranks over TCP");
  const Ranks ranks(std::move(comms));
  for (const char* const name : {"dense", "topka", "spardl"}) {
    const Reducers reducers(ranks, kLength, sparsecollFloat32, paramsOf(name));
    std::vector<Elements> vectors(results.size(), Elements(sparsecollFloat32, kLength));
    for (uint64_t step = 0; step < 3; ++step) {
      fillRandom(vectors, step);
      need(onEach(ranks,
                  [&](int rank, sparsecollComm_t) {
                    void* const vector = vectors[static_cast<size_t>(rank)].data();
                    return sparsecollReducerRun(reducers[rank], vector, vector, nullptr);
                  }) == all(count, sparsecollSuccess),
           name);
      for (const Elements& vector : vectors) needWritten(vector, std::string(name) + " over TCP");
    }
  }
}

// Whether the preset has this variant.
bool check(const std::string& preset, const Variant& variant, int ranks, sparsecollDataType_t type) {
  sparsecollParams_t params = paramsOf(preset);
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  variant.change(params, config);
  sparsecollConfig_t nodes = SPARSECOLL_INIT(sparsecollConfig_t);
  if (params.collective == sparsecollCollHierarchical) nodes.ranksPerNode = 2;
  Group group(ranks, kLength, type, params, &config, &nodes);
  const Results created = group.created();
  if (created == all(ranks, sparsecollUnsupported) || created == all(ranks, sparsecollInvalidArgument)) return false;
  const std::string name = preset + ", " + variant.name + ", " + std::to_string(ranks) + " ranks, " + nameOf(type);
  need(created == all(ranks, sparsecollSuccess), name);
  const bool adds = (params.flags & (SPARSECOLL_ACCUMULATE | SPARSECOLL_OUT_PRESERVED)) != 0;
  for (uint64_t step = 0; step < 4; ++step) checkStep(group, step, adds, name);
  (void)group.each([&](int rank, sparsecollReducer_t reducer) {  // not all can
    return sparsecollReducerGiveBack(reducer, group.outs[static_cast<size_t>(rank)].data(), 1, nullptr);
  });
  need(group.each([&](int rank, sparsecollReducer_t reducer) {
    return sparsecollReducerFlush(reducer, group.outs[static_cast<size_t>(rank)].data(), nullptr);
  }) == all(ranks, sparsecollSuccess),
       name);
  for (const Elements& out : group.outs) needWritten(out, name + ": flushed");
  if (!adds) checkSparseSum(group, type, name);
  for (int rank = 0; rank < ranks; ++rank) {
    const sparsecollComm_t comm = group.ranks()[rank];
    needTold<sparsecollCommDetails_t>([&](auto* told) { return sparsecollCommGetDetails(comm, told); }, name);
    needTold<sparsecollStats_t>([&](auto* told) { return sparsecollGetStats(comm, told); }, name);
  }
  return true;
}

}  // namespace

int main() {
  size_t types = 0, checked = 0;
  for (const Variant& variant : kVariants) {
    size_t having = 0;
    for (const std::string& preset : allPresets())
      for (const int ranks : {1, 2, 4}) having += check(preset, variant, ranks, kAllTypes[types++ % 4]) ? 1 : 0;
    need(having != 0, std::string("no preset: ") + variant.name);
    checked += having;
  }
  for (const int ranks : {2, 4}) checkOverTcp(ranks);
  std::printf("%zu groups of ranks wrote all that they handed out\n", checked);
}
