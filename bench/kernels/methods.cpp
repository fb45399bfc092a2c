// What a rank's selection costs beside the plain accumulate pass, by method and number of ranks: everything between the
// gradient and the list that travels.
#include <algorithm>
#include <array>
#include <stdexcept>

#include "bench/common/clock.h"
#include "bench/kernels/benchmarks.h"
#include "bench/kernels/data.h"
#include "core/frame.h"
#include "core/numeric.h"
#include "selectors/selectors.h"

namespace bench {

namespace {

struct Method {
  const char* name;
  sparsecollSelect_t selector;
  sparsecollDistribution_t distribution;
  bool clearsUnion;  // what any rank sends leaves every rank's residual
};

constexpr Method kMethods[] = {
    {"topka", sparsecollSelectTopK, sparsecollDistributionDefault, false},
    {"deft", sparsecollSelectDeft, sparsecollDistributionDefault, true},
    {"micro", sparsecollSelectMicro, sparsecollDistributionDefault, true},
    {"sidco-e", sparsecollSelectSidco, sparsecollDistributionExponential, false},
    {"sidco-gp", sparsecollSelectSidco, sparsecollDistributionGammaPareto, false},
    {"sidco-p", sparsecollSelectSidco, sparsecollDistributionPareto, false},
};

constexpr int kWarmup = 12;  // steps

// One thread does all the work, so what others on the machine do to the clock on the wall says nothing.
template <class Work>
double cpuSecondsOf(const Work& work) {
  const uint64_t start = cpuNs();
  work();
  return static_cast<double>(cpuNs() - start) * 1e-9;
}

// The ranks of a step take turns on one thread. What they tell each other in between is copied and not timed.
class MethodLoop {
 public:
  MethodLoop(const Method& method, const Data& data, double density, int ranks)
      : method_(method), data_(data), counts_(static_cast<size_t>(ranks)), plainKey_(data.n(), kInfinity, 1024) {
    sparsecoll::SelectionRequest request;
    request.n = data.n();
    request.ranks = ranks;
    request.density = density;
    request.params.distribution = method.distribution;
    for (int rank = 0; rank < ranks; ++rank) {
      request.rank = rank;
      auto made = sparsecoll::Selection::make(sparsecoll::selectorRow(method.selector)->plan, request, hostKernels(), nullptr);
      if (!made.ok()) throw std::runtime_error("a selection could not be made");
      selections_.push_back(std::move(*made));
      residuals_.emplace_back(data.n() * sizeof(float), Memory::Pages::kHuge);
      const uint64_t capacity = selections_.back()->capacity();
      indices_.emplace_back(capacity * sizeof(uint32_t));
      values_.emplace_back(capacity * sizeof(float));
    }
  }

  // Adds to the seconds of a rank: the whole selection, and the accumulate pass alone.
  void step(double& selection, double& accumulate) {
    const size_t ranks = selections_.size();
    const auto share = 1 / static_cast<double>(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      float* const residual = residuals_[r].as<float>();
      const float* const gradient = data_.gradient(1 + steps_ * ranks + r);
      accumulate += share * cpuSecondsOf([&] { accumulateNothing(residual, gradient); });
      selection += share * cpuSecondsOf([&] {
                     selections_[r]->pass({gradient, sparsecollFloat32, residual, residual, 1}, {});
                   });
    }
    exchangeSurveys();
    for (size_t r = 0; r < ranks; ++r) {
      sparsecoll::Status cut;
      selection += share * cpuSecondsOf([&] {
                     sparsecoll::Selection& own = *selections_[r];
                     if (own.surveyLength() != 0) own.afterSurvey({});
                     cut =
                         own.cut({indices_[r].as<uint32_t>(), values_[r].as<float>(), &counts_[r], own.capacity()}, {});
                   });
      if (!cut.ok()) throw std::runtime_error("a selection could not be cut");
    }
    finish();
    ++steps_;
  }

  // Entries sent by all ranks / n for methods that share the vector out, else those of a rank.
  double density() const {
    double sent = 0;
    for (const uint32_t count : counts_) sent += count;
    if (!method_.clearsUnion) sent /= static_cast<double>(counts_.size());
    return sent / static_cast<double>(data_.n());
  }

 private:
  static constexpr uint32_t kInfinity = sparsecoll::Magnitude<float>::kInfinity;

  // r + 0 * g: the traffic of the pass, and the residual stays as it is.
  void accumulateNothing(float* residual, const float* gradient) {
    sparsecoll::PassArgs args = plainKey_.passOver(data_.n());
    args.gradient = gradient;
    args.in = args.out = residual;
    args.scale = 0;
    hostKernels().pass(args, {});
  }

  void exchangeSurveys() {
    const uint64_t length = selections_[0]->surveyLength();
    for (size_t from = 0; length != 0 && from < selections_.size(); ++from)
      for (const auto& to : selections_)
        std::copy_n(selections_[from]->surveyRows() + from * length, length, to->surveyRows() + from * length);
  }

  // The ranks learn of each other's counts and thresholds, and what was sent leaves the residuals.
  void finish() {
    const size_t ranks = selections_.size();
    std::vector<sparsecoll::ListView> sent;
    for (size_t r = 0; r < ranks; ++r) sent.push_back({indices_[r].as<>(), values_[r].as<>(), &counts_[r]});
    for (size_t r = 0; r < ranks; ++r) {
      sparsecoll::Control& control = *selections_[r]->control();
      control.delivered = 0;
      for (size_t peer = 0; peer < ranks; ++peer) {
        control.facts[peer] = {counts_[peer], selections_[peer]->control()->announced};
        control.delivered += counts_[peer];
      }
      if (!selections_[r]->observe(sent, {}).ok()) throw std::runtime_error("a selection could not go on");
      selections_[r]->advance({});
      for (size_t peer = 0; peer < ranks; ++peer)
        if (method_.clearsUnion || peer == r)
          hostKernels().zeroAt(residuals_[r].as<>(), sparsecollFloat32, data_.n(), sent[peer], nullptr, {});
    }
  }

  const Method& method_;
  const Data& data_;
  std::vector<std::unique_ptr<sparsecoll::Selection>> selections_;
  std::vector<Memory> residuals_, indices_, values_;
  std::vector<uint32_t> counts_;
  OneWindow plainKey_;
  uint64_t steps_ = 0;
};

double medianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::vector<std::string> selectionMethods() {
  std::vector<std::string> names;
  for (const Method& method : kMethods) names.emplace_back(method.name);
  return names;
}

void benchSelection(benchmark::State& state, const std::string& name, uint64_t n, double density, int ranks) {
  const Method& method = *std::find_if(std::begin(kMethods), std::end(kMethods),
                                       [&name](const Method& each) { return each.name == name; });
  MethodLoop loop(method, Data::of(n), density, ranks);
  double warm = 0;
  for (int s = 0; s < kWarmup; ++s) loop.step(warm, warm);
  std::vector<double> selections;
  std::vector<double> passes;
  double achieved = 0;
  for (auto _ : state) {
    double selection = 0;
    double pass = 0;
    loop.step(selection, pass);
    state.SetIterationTime(selection);
    selections.push_back(selection);
    passes.push_back(pass);
    achieved += loop.density();
  }
  const double selection = medianOf(selections);
  const double pass = medianOf(passes);
  state.counters["selection_us"] = selection * 1e6;
  state.counters["accumulate_us"] = pass * 1e6;
  state.counters["increment_us"] = (selection - pass) * 1e6;
  state.counters["ratio_to_accumulate"] = selection / pass;
  state.counters["achieved_density"] = achieved / static_cast<double>(selections.size());
}

}  // namespace bench
