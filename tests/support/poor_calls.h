// Calls of a rank without memory, and what they need before.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tests/support/elements.h"
#include "tests/support/ranks.h"

namespace sparsecoll::test {

inline constexpr uint64_t kPoorLength = 300;

// A rank's things in one attempt.
struct PoorPlace {
  sparsecollComm_t comm = nullptr, other = nullptr;
  sparsecollReducer_t reducer = nullptr;
  Elements in{sparsecollFloat32, kPoorLength, 1}, out{sparsecollFloat32, kPoorLength};
  std::vector<char> blob;
};

inline sparsecollResult_t create(PoorPlace& at) {
  const sparsecollParams_t params = preset("topka", 0.1);
  return sparsecollReducerCreate(&at.reducer, kPoorLength, sparsecollFloat32, &params, nullptr, at.comm);
}

inline sparsecollResult_t step(PoorPlace& at) {
  return sparsecollReducerRun(at.reducer, at.in.data(), at.out.data(), nullptr);
}

inline sparsecollResult_t sum(PoorPlace& at) {
  const sparsecollParams_t params = preset("dense", 0);
  return sparsecollAllReduce(at.in.data(), at.out.data(), kPoorLength, sparsecollFloat32, &params, at.comm, nullptr);
}

inline sparsecollResult_t exportState(PoorPlace& at) {
  size_t bytes = at.blob.size();
  return sparsecollReducerExport(at.reducer, at.blob.data(), &bytes, nullptr);
}

struct PoorCall {
  const char* name;
  bool onReducer;  // there is one already, which has made a step
  sparsecollResult_t (*run)(PoorPlace& at, int rank);
};

inline const PoorCall kPoorCalls[] = {
    {"create", false, [](PoorPlace& at, int) { return create(at); }},
    {"dense", false, [](PoorPlace& at, int) { return sum(at); }},
    // Whoever went on to a sum without a word is met there, or told from.
    {"create, then a sum", false,
     [](PoorPlace& at, int) {
       const sparsecollResult_t created = create(at);
       const sparsecollResult_t summed = sum(at);
       return created != sparsecollSuccess ? created : summed;
     }},
    {"step", true, [](PoorPlace& at, int) { return step(at); }},
    {"export", true, [](PoorPlace& at, int) { return exportState(at); }},
    {"import", true,
     [](PoorPlace& at, int) { return sparsecollReducerImport(at.reducer, at.blob.data(), at.blob.size(), nullptr); }},
    {"split", true, [](PoorPlace& at, int rank) { return sparsecollCommSplit(at.comm, 0, rank, &at.other, nullptr); }},
    {"shrink", true, [](PoorPlace& at, int) { return sparsecollCommShrink(at.comm, nullptr, 0, &at.other, nullptr); }},
    {"move", true,
     [](PoorPlace& at, int rank) {
       const sparsecollResult_t split = sparsecollCommSplit(at.comm, 0, rank, &at.other, nullptr);
       if (split != sparsecollSuccess) return split;
       sparsecollReducer_t moved = nullptr;
       const sparsecollResult_t done = sparsecollReducerMove(at.reducer, at.other, &moved, nullptr);
       (void)sparsecollReducerDestroy(moved);
       return done;
     }},
    {"destroy", true,
     [](PoorPlace& at, int) {
       const sparsecollResult_t destroyed = sparsecollReducerDestroy(std::exchange(at.reducer, nullptr));
       const sparsecollResult_t left = sparsecollCommDestroy(std::exchange(at.comm, nullptr));
       return destroyed != sparsecollSuccess ? destroyed : left;
     }},
};

inline bool prepare(PoorPlace& at, const PoorCall& call) {
  if (at.comm == nullptr) return false;
  if (!call.onReducer) return true;
  if (create(at) != sparsecollSuccess || step(at) != sparsecollSuccess) return false;
  size_t bytes = 0;
  if (sparsecollReducerExport(at.reducer, nullptr, &bytes, nullptr) != sparsecollSuccess) return false;
  at.blob.resize(bytes);
  return exportState(at) == sparsecollSuccess;
}

inline void clear(PoorPlace& at) {
  (void)sparsecollReducerDestroy(at.reducer);
  (void)sparsecollCommDestroy(at.other);
  (void)sparsecollCommDestroy(at.comm);
}

}  // namespace sparsecoll::test
