// The accumulate pass, and a selection that keeps no residual.
#include "bench/device/cases.h"
#include "bench/device/loops.h"
#include "bench/device/wrong.h"

namespace bench {

namespace {

constexpr uint64_t kRoomBeyond = 4096;

uint64_t roomFor(const Vectors& vectors, double density) {
  const uint64_t k = sparsecoll::entriesOf(density, vectors.n());
  return std::min(vectors.n(), k + k / 8 + kRoomBeyond);
}

// The fused pass in a state that never changes. From r = -g/2 on, r + g is g/2 and then r - g is -g/2, both without
// rounding: with the scale's sign flipped in every other round the same entries pass a fixed key.
Outcome fusedPassOver(const Vectors& vectors, double density, sparsecollDataType_t type) {
  const uint64_t n = vectors.n();
  const Device& device = vectors.device();
  const TypedGradients gradients(vectors, type);
  using Magnitude = sparsecoll::Magnitude<float>;
  const uint32_t key = Magnitude::of(Magnitude::value(gradients.keyOf(density)) / 2);
  std::vector<DeviceArray<float>> residuals;
  for (uint64_t s = 0; s < vectors.setsFor(8 * static_cast<double>(n)); ++s) {
    residuals.emplace_back(n);
    scale(residuals[s].get(), gradients.gradient(0), type, -0.5f, n, device.cudaStream().get());
  }
  const OneWindow window(n, key, roomFor(vectors, density));
  Operation operation;
  operation.bytes = static_cast<double>((gradients.bytes() + 8) * n);
  for (const double sign : {1.0, -1.0})
    for (const DeviceArray<float>& residual : residuals) {
      sparsecoll::PassArgs args = window.passOver(n);
      args.gradient = gradients.gradient(0);
      args.gradientType = type;
      args.in = args.out = residual.get();
      args.scale = sign;
      operation.steps.push_back([&device, args] { device.kernels().pass(args, device.stream()); });
    }
  Outcome outcome = vectors.timed(operation);
  device.finish();
  const uint64_t k = sparsecoll::entriesOf(density, n);
  outcome.counters = {{"candidates_per_k", static_cast<double>(window.found()) / static_cast<double>(k)}};
  const DeviceArray<unsigned long long> reaching(1);
  countReaching(residuals[0].get(), n, key, reaching.get(), device.cudaStream().get());
  device.cudaStream().wait();
  outcome.wrong = difference(window.found(), onHost(reaching.get()));
  return outcome;
}

template <sparsecollDataType_t kType>
Outcome fusedPass(const Vectors& vectors, double density) {
  return fusedPassOver(vectors, density, kType);
}

// Without error feedback the gradient is what is selected from: nothing is written but the list.
Outcome thresholdSelect(const Vectors& vectors, double density) {
  const uint64_t n = vectors.n();
  const Device& device = vectors.device();
  const OneWindow window(n, vectors.keyOf(density), roomFor(vectors, density));
  const DeviceList selected(roomFor(vectors, density));
  const DeviceArray<float> elsewhere(n);
  scale(elsewhere.get(), vectors.gradient(0), sparsecollFloat32, -1, n, device.cudaStream().get());
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
    cut.facts = window.facts();
    operation.steps.push_back([&device, pass, cut] {
      device.kernels().pass(pass, device.stream());
      device.kernels().cut(cut, device.stream());
    });
  }
  Outcome outcome = vectors.timed(operation);
  device.finish();
  const uint64_t k = sparsecoll::entriesOf(density, n);
  outcome.counters = {{"selected", static_cast<double>(selected.count())}};
  outcome.wrong = selected.count() < k ? k - selected.count() : 0;
  return outcome;
}

constexpr CaseKind kSelections[] = {
    {"fused_pass", "accumulate, collect at a fixed threshold, write back; 12 bytes an element", true,
     fusedPass<sparsecollFloat32>},
    {"fused_pass_bf16", "the same of a gradient of bfloats; 10 bytes an element", true, fusedPass<sparsecollBfloat16>},
    {"fused_pass_f16", "the same of one of halves", true, fusedPass<sparsecollFloat16>},
    {"threshold_select", "an ordered list at a fixed threshold, without a residual; 4 bytes an element", true,
     thresholdSelect},
};

}  // namespace

std::span<const CaseKind> selectionCases() { return kSelections; }

}  // namespace bench
