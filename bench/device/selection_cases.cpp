// The accumulate pass, and what finds the largest entries.
#include <cmath>
#include <numbers>

#include "bench/common/random.h"
#include "bench/device/cases.h"
#include "bench/device/loops.h"
#include "selectors/selectors.h"

namespace bench {

namespace {

constexpr uint64_t kRoomBeyond = 4096;

uint64_t roomFor(const Vectors& vectors, double density) {
  const uint64_t k = sparsecoll::entriesOf(density, vectors.n());
  return std::min(vectors.n(), k + k / 8 + kRoomBeyond);
}

// The fused pass in a state that never changes. From r = -g/2 on, r + g is g/2 and then r - g is -g/2, both without
// rounding: with the scale's sign flipped in every other round the same entries pass a fixed key.
Outcome fusedPass(const Vectors& vectors, double density) {
  const uint64_t n = vectors.n();
  const Device& device = vectors.device();
  using Magnitude = sparsecoll::Magnitude<float>;
  const uint32_t key = Magnitude::of(Magnitude::value(vectors.keyOf(density)) / 2);
  std::vector<DeviceArray<float>> residuals;
  for (uint64_t s = 0; s < vectors.setsFor(8 * static_cast<double>(n)); ++s) {
    residuals.emplace_back(n);
    scale(residuals[s].get(), vectors.gradient(0), -0.5f, n, device.cudaStream().get());
  }
  const OneWindow window(n, key, roomFor(vectors, density));
  Operation operation;
  operation.bytes = 12 * static_cast<double>(n);
  for (const double sign : {1.0, -1.0})
    for (const DeviceArray<float>& residual : residuals) {
      sparsecoll::PassArgs args = window.passOver(n);
      args.gradient = vectors.gradient(0);
      args.in = args.out = residual.get();
      args.scale = sign;
      operation.steps.push_back([&device, args] { device.kernels().pass(args, device.stream()); });
    }
  Outcome outcome{measure(operation, device.cudaStream(), vectors.settings().replays), operation.bytes, {}, 0};
  device.finish();
  const uint64_t k = sparsecoll::entriesOf(density, n);
  outcome.counters = {{"candidates_per_k", static_cast<double>(window.found()) / static_cast<double>(k)}};
  outcome.wrong = window.found() < k ? k - window.found() : 0;
  return outcome;
}

// Without error feedback the gradient is what is selected from: nothing is written but the list.
Outcome thresholdSelect(const Vectors& vectors, double density) {
  const uint64_t n = vectors.n();
  const Device& device = vectors.device();
  const OneWindow window(n, vectors.keyOf(density), roomFor(vectors, density));
  const DeviceList selected(roomFor(vectors, density));
  const DeviceArray<float> elsewhere(n);
  scale(elsewhere.get(), vectors.gradient(0), -1, n, device.cudaStream().get());
  Operation operation;
  operation.bytes = 4 * static_cast<double>(n);
  for (const float* const gradient : {vectors.gradient(0), static_cast<const float*>(elsewhere.get())}) {
    sparsecoll::PassArgs pass = window.passOver(n);
    pass.gradient = gradient;
    sparsecoll::CutArgs cut;
    cut.acc = const_cast<float*>(gradient);  // only read: nothing arrives
    cut.control = pass.control;
    cut.candidateIndices = pass.candidateIndices;
    cut.candidateValues = pass.candidateValues;
    cut.target = selected.target();
    operation.steps.push_back([&device, pass, cut] {
      device.kernels().pass(pass, device.stream());
      device.kernels().cut(cut, device.stream());
    });
  }
  Outcome outcome{measure(operation, device.cudaStream(), vectors.settings().replays), operation.bytes, {}, 0};
  device.finish();
  const uint64_t k = sparsecoll::entriesOf(density, n);
  outcome.counters = {{"selected", static_cast<double>(selected.count())}};
  outcome.wrong = selected.count() < k ? k - selected.count() : 0;
  return outcome;
}

// Exact selection with error feedback as a reducer runs it: select, then clear what was selected from the residual. The
// same few gradients come again and again with changing signs, so that their sum wanders as one of fresh noise does.
class FeedbackLoop {
 public:
  FeedbackLoop(const Vectors& vectors, sparsecoll::PlanFunction plan, const sparsecoll::SelectionRequest& request)
      : vectors_(vectors),
        selection_(vectors.device().select(plan, request)),
        residual_(vectors.n()),
        selected_(selection_->capacity()) {}

  Outcome run(double bytesPerElement) {
    Operation operation;
    operation.bytes = bytesPerElement * static_cast<double>(vectors_.n());
    operation.order = Operation::Order::kAny;
    for (uint64_t i = 0; i < vectors_.settings().noises; ++i)
      for (const double sign : {1.0, -1.0})
        operation.steps.push_back([this, i, sign] { step(vectors_.gradient(1 + mixBits(i) % (1u << 20)), sign); });
    const Device& device = vectors_.device();
    Outcome outcome{measure(operation, device.cudaStream(), vectors_.settings().replays), operation.bytes, {}, 0};
    device.finish();
    const auto control = onHost(selection_->control());
    const uint64_t k = selection_->k();
    const uint64_t sent = selected_.count();
    outcome.counters = {{"k", static_cast<double>(k)},
                        {"candidates_per_k", static_cast<double>(control.candidates) / static_cast<double>(k)},
                        {"fallbacks", static_cast<double>(control.fallbacks)}};
    outcome.wrong = sent > k ? sent - k : k - sent;
    return outcome;
  }

 private:
  void step(const float* gradient, double sign) {
    const Device& device = vectors_.device();
    sparsecoll::SelectionInput input;
    input.gradient = gradient;
    input.in = input.out = residual_.get();
    input.scale = sign;
    selection_->pass(input, device.stream());
    selection_->afterSurvey(device.stream());
    selection_->cut(selected_.target(), device.stream());
    device.kernels().zeroAt(residual_.get(), sparsecollFloat32, vectors_.n(), selected_.view(), nullptr,
                            device.stream());
  }

  const Vectors& vectors_;
  std::unique_ptr<sparsecoll::Selection> selection_;
  DeviceArray<float> residual_;
  DeviceList selected_;
};

// Lengths as a network's tensors have them: of a few orders of magnitude.
std::vector<sparsecollSegment_t> segmentsOf(uint64_t n, double density) {
  const uint64_t count = std::min(kSegments, n);
  std::vector<double> weights(count);
  double all = 0;
  for (uint64_t s = 0; s < count; ++s) all += weights[s] = std::pow(10, 3 * unit(mixBits(s)));
  std::vector<sparsecollSegment_t> segments(count);
  uint64_t left = n;
  for (uint64_t s = 0; s < count; ++s) {
    const auto wanted = static_cast<uint64_t>(static_cast<double>(n) * weights[s] / all);
    const uint64_t others = count - s - 1;  // an element each
    segments[s].length = others == 0 ? left : std::min(std::max<uint64_t>(wanted, 1), left - others);
    segments[s].density = density;
    left -= segments[s].length;
  }
  return segments;
}

Outcome exactTopK(const Vectors& vectors, double density) {
  sparsecoll::SelectionRequest request;
  request.n = vectors.n();
  request.density = density;
  return FeedbackLoop(vectors, sparsecoll::planTopK, request).run(12);
}

Outcome segmentedTopK(const Vectors& vectors, double density) {
  const auto segments = segmentsOf(vectors.n(), density);
  sparsecoll::SelectionRequest request;
  request.n = vectors.n();
  request.density = density;
  request.segments = segments;
  return FeedbackLoop(vectors, sparsecoll::planTopK, request).run(12);
}

// One of several ranks: it learns the norms, shares out the fragments, and reads those of its own share once more.
Outcome deftSelect(const Vectors& vectors, double density) {
  const auto segments = segmentsOf(vectors.n(), 0);
  sparsecoll::SelectionRequest request;
  request.n = vectors.n();
  request.density = density;
  request.segments = segments;
  request.ranks = kSelectionRanks;
  Outcome outcome = FeedbackLoop(vectors, sparsecoll::planDeft, request).run(12 + 4.0 / kSelectionRanks);
  outcome.wrong = 0;  // a rank's share of k is its bin's
  return outcome;
}

constexpr CaseKind kSelections[] = {
    {"fused_pass", "accumulate, collect at a fixed threshold, write back; 12 bytes an element", true, fusedPass},
    {"exact_topk", "top-k with error feedback in its steady state, end to end; 12 bytes an element", true, exactTopK},
    {"threshold_select", "an ordered list at a fixed threshold, without a residual; 4 bytes an element", true,
     thresholdSelect},
    {"segmented_topk", "exact_topk in each of 300 segments", true, segmentedTopK},
    {"deft_select", "DEFT's norms, shares and cut of 300 tensors on one of 8 ranks; 12.5 bytes an element", true,
     deftSelect},
};

}  // namespace

std::span<const CaseKind> selectionCases() { return kSelections; }

}  // namespace bench
