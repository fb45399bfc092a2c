// A fixed scenario, reduced to one number: what every rank got and kept after each of its steps.
#pragma once

#include <string>
#include <vector>

#include "tests/support/group.h"
#include "tests/support/hash.h"

namespace sparsecoll::test {

struct Scenario {
  std::string name;
  std::string preset;
  int faithful = 0;  // sparsecollMethodParams_t::faithful
  int ranks = 4;
  sparsecollDataType_t type = sparsecollFloat32;
  uint64_t n = 20011;
  double density = 0.01;
  uint32_t flags = 0;
  int steps = 6;
  bool poison = false;  // one NaN and one Inf on the way
  double momentum = 0;
  double clipNorm = 0;
  double residualDecay = 1;
};

// Every preset with every element type, and what else takes another way through the kernels.
inline std::vector<Scenario> scenarios() {
  std::vector<Scenario> list;
  for (const sparsecollDataType_t type : kAllTypes) {
    const std::string suffix = std::string("-") + nameOf(type);
    list.push_back({"dense" + suffix, "dense", false, 3, type});
    list.push_back({"topka" + suffix, "topka", false, 4, type});
    list.push_back({"topka-full" + suffix, "topka", false, 2, type, 4099, 1.0, 0, 3});
    list.push_back({"threshold" + suffix, "threshold", false, 4, type, 20011, 0.001});
    list.push_back({"micro" + suffix, "micro", false, 4, type});
    list.push_back({"micro-faithful" + suffix, "micro", true, 5, type});
    list.push_back({"topka-preserved" + suffix, "topka", false, 3, type, 20011, 0.01, SPARSECOLL_OUT_PRESERVED});
    list.push_back({"topka-accumulate" + suffix, "topka", false, 3, type, 20011, 0.01, SPARSECOLL_ACCUMULATE});
    list.push_back({"topka-nan" + suffix, "topka", false, 4, type, 9001, 0.01, 0, 4, true});
    list.push_back({"micro-nan" + suffix, "micro", false, 4, type, 9001, 0.01, 0, 4, true});
    list.push_back(
        {"topka-contributors" + suffix, "topka", false, 4, type, 20011, 0.3, SPARSECOLL_AVERAGE_CONTRIBUTORS});
    list.push_back({"topka-momentum" + suffix, "topka", false, 3, type, 20011, 0.01, 0, 6, true, 0.9});
    list.push_back(
        {"micro-nesterov" + suffix, "micro", false, 3, type, 20011, 0.01, SPARSECOLL_NESTEROV, 6, false, 0.7, 2});
    list.push_back({"topka-fading" + suffix, "topka", false, 2, type, 20011, 0.01, 0, 6, false, 0, 0.5, 0.9});
    if (type != sparsecollFloat32 && type != sparsecollBfloat16) continue;  // the same samplers for the others
    list.push_back({"sage" + suffix, "sage", false, 3, type});
    list.push_back({"sage-faithful" + suffix, "sage", true, 3, type, 20011, 0.05});
    list.push_back({"sidco-e" + suffix, "sidco-e", false, 2, type});
    list.push_back({"sidco-gp" + suffix, "sidco-gp", false, 2, type});
    list.push_back({"sidco-p-faithful" + suffix, "sidco-p", true, 2, type});
    list.push_back({"gaussiank" + suffix, "gaussiank", false, 2, type});
    list.push_back({"redsync" + suffix, "redsync", false, 2, type});
    list.push_back({"dgc" + suffix, "dgc", false, 3, type});
    list.push_back({"dgc-faithful" + suffix, "dgc", true, 2, type});
    list.push_back({"cltk" + suffix, "cltk", false, 3, type});
    for (const char* const name : {"deft", "exdyna", "oktopk", "gtopk"})
      for (const bool faithful : {false, true})
        list.push_back({name + std::string(faithful ? "-faithful" : "") + suffix, name, faithful, 6, type});
    list.push_back({"spardl" + suffix, "spardl", false, 5, type});
    list.push_back({"spardl-bsag" + suffix, "spardl-bsag", false, 6, type});
    list.push_back({"spardl-rsag" + suffix, "spardl-rsag", false, 8, type});
    list.push_back({"sparcml-rd" + suffix, "sparcml-rd", false, 6, type});
    list.push_back({"sparcml-split" + suffix, "sparcml-split", false, 5, type});
    list.push_back({"topkdsa" + suffix, "topkdsa", false, 7, type});
    list.push_back({"randomk" + suffix, "randomk", false, 3, type});
    list.push_back({"rtopk" + suffix, "rtopk", false, 3, type});
    list.push_back({"chunk-topk" + suffix, "chunk-topk", false, 3, type});
  }
  return list;
}

// The ranks' hashes of outs, one after the other equal on all ranks unless something is wrong, and of residuals.
struct Hashes {
  std::vector<uint64_t> outs;  // by rank
  uint64_t residuals = 0;
  bool ran = true;
};

// Gradients by step and rank.
using Inputs = std::vector<std::vector<Elements>>;

inline Inputs inputsOf(const Scenario& scenario) {
  Inputs inputs(static_cast<size_t>(scenario.steps));
  for (size_t step = 0; step < inputs.size(); ++step) {
    inputs[step].assign(static_cast<size_t>(scenario.ranks), Elements(scenario.type, scenario.n));
    constexpr double kScales[] = {0.1, 1e-6, 30};  // in between, subnormal halves; then guards that are far off
    fillRandom(inputs[step], 77 + step, kScales[step % 3]);
    if (scenario.poison && step == 1) {
      inputs[step][1].set(4321, NAN);
      inputs[step][2].set(17, -HUGE_VAL);
    }
  }
  return inputs;
}

inline Hashes runScenario(const Scenario& scenario, const Inputs& inputs) {
  sparsecollParams_t params = preset(scenario.preset.c_str(), scenario.preset == "dense" ? 0 : scenario.density);
  params.faithful = scenario.faithful;
  params.flags = scenario.flags;
  params.op = sparsecollAvg;
  params.inputScale = 0.3;
  if (scenario.momentum != 0) params.momentum = scenario.momentum;
  params.clipNorm = scenario.clipNorm;
  params.residualDecay = scenario.residualDecay;
  Group group(scenario.ranks, scenario.n, scenario.type, params);
  Hashes hashes;
  hashes.outs.assign(static_cast<size_t>(scenario.ranks), 1);
  hashes.residuals = 1;
  for (const std::vector<Elements>& gradients : inputs) {
    group.gradients = gradients;
    hashes.ran = hashes.ran && group.step() == all(scenario.ranks, sparsecollSuccess);
    for (int rank = 0; rank < scenario.ranks; ++rank) {
      const auto r = static_cast<size_t>(rank);
      hashes.outs[r] = hashBytes(group.outs[r].data(), group.outs[r].byteCount(), hashes.outs[r]);
      const Elements residual = group.residual(rank);
      hashes.residuals = hashBytes(residual.data(), residual.byteCount(), hashes.residuals);
    }
  }
  return hashes;
}
inline Hashes runScenario(const Scenario& scenario) { return runScenario(scenario, inputsOf(scenario)); }

}  // namespace sparsecoll::test
