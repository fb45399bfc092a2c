#include <algorithm>
#include <cmath>

#include "bench/common/random.h"
#include "bench/device/cases.h"
#include "bench/device/loops.h"
#include "selectors/selectors.h"

namespace bench {

namespace {

constexpr uint64_t kGradients = 2;
constexpr uint64_t kShifts = 1024;
constexpr uint64_t kShiftElements = 64;
constexpr uint64_t kMostSets = 64;

constexpr CaseKind kLoops[] = {
    {"copy", "by a kernel, 8 bytes an element: in a graph cudaMemcpyAsync takes a copy engine, which is slower", false,
     [](const Vectors& vectors, double) {
       const uint64_t n = vectors.n();
       std::vector<DeviceArray<float>> copies;
       for (uint64_t s = 0; s < vectors.setsFor(8 * static_cast<double>(n)); ++s) copies.emplace_back(n);
       const sparsecoll::Stream stream{vectors.device().cudaStream().get(), nullptr};
       Operation operation;
       operation.bytes = 8 * static_cast<double>(n);
       for (uint64_t s = 0; s < copies.size(); ++s)
         operation.steps.push_back([&, s] {
           vectors.device().kernels().copy(copies[s].get(), vectors.gradient(s), n * sizeof(float), stream);
         });
       return vectors.timed(operation);
     }},
    {"inplace_add", "r += g, 12 bytes an element", false,
     [](const Vectors& vectors, double) {
       const uint64_t n = vectors.n();
       std::vector<DeviceArray<float>> sums;
       for (uint64_t s = 0; s < vectors.setsFor(8 * static_cast<double>(n)); ++s) sums.emplace_back(n);
       const cudaStream_t stream = vectors.device().cudaStream().get();
       Operation operation;
       operation.bytes = 12 * static_cast<double>(n);
       for (uint64_t s = 0; s < sums.size(); ++s)
         operation.steps.push_back([&, s] { addInPlace(sums[s].get(), vectors.gradient(s), n, stream); });
       return vectors.timed(operation);
     }},
    {"read", "reading only, 4 bytes an element", false,
     [](const Vectors& vectors, double) {
       const DeviceArray<uint32_t> sink(1);
       const cudaStream_t stream = vectors.device().cudaStream().get();
       Operation operation;
       operation.bytes = 4 * static_cast<double>(vectors.n());
       for (uint64_t s = 0; s < 2 * kGradients; ++s)
         operation.steps.push_back([&, s] { readAll(vectors.gradient(s), vectors.n(), sink.get(), stream); });
       return vectors.timed(operation);
     }},
};

}  // namespace

std::span<const CaseKind> loopCases() { return kLoops; }

Vectors::Vectors(const Device& device, uint64_t n, const Settings& settings)
    : device_(device), n_(n), settings_(settings) {
  int ordinal = 0;
  checkCuda(cudaGetDevice(&ordinal), "cudaGetDevice");
  int cache = 0;
  checkCuda(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, ordinal), "cudaDeviceGetAttribute");
  cacheBytes_ = static_cast<uint64_t>(cache);
  const uint64_t length = n + kShifts * kShiftElements;
  const cudaStream_t stream = device.cudaStream().get();
  for (uint64_t g = 0; g < kGradients; ++g) {
    gradients_.emplace_back(length);
    fillNormal(gradients_[g].get(), length, mixBits(g), stream);
  }
  device.cudaStream().wait();
}

uint64_t Vectors::setsFor(double bytes) const {
  if (settings_.sets != 0) return settings_.sets;
  const double wanted = std::ceil(2 * static_cast<double>(cacheBytes_) / bytes);
  return std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 2, kMostSets);
}

Outcome Vectors::timed(const Operation& operation) const {
  return {measure(operation, device_.cudaStream(), settings_.replays), operation.bytes, {}, 0};
}

Vectors::Spot Vectors::spotOf(uint64_t step) const {
  return {step % kGradients, step == 0 ? 0 : mixBits(step) % kShifts * kShiftElements};
}

// The library's own exact selection tells: the least magnitude that it keeps.
uint32_t Vectors::keyOf(double density) const {
  sparsecoll::SelectionRequest request;
  request.n = n_;
  request.density = density;
  const auto selection = device_.select(sparsecoll::selectorRow(sparsecollSelectTopK)->plan, request);
  const DeviceList kept(selection->capacity());
  sparsecoll::SelectionInput input;
  input.gradient = gradient(0);
  selection->pass(input, selection.stream());
  check(selection->cut(kept.target(), selection.stream()));
  device_.finish();
  return static_cast<uint32_t>(onHost(selection->tables().windows).keptKey);
}

TypedGradients::TypedGradients(const Vectors& vectors, sparsecollDataType_t type) : vectors_(vectors), type_(type) {
  if (type == sparsecollFloat32) return;
  const CudaStream& stream = vectors.device().cudaStream();
  for (const DeviceArray<float>& noise : vectors.noise()) {
    rounded_.emplace_back(noise.count() * bytes());
    roundTo(rounded_.back().get(), type, noise.get(), noise.count(), stream.get());
  }
  stream.wait();
}

const void* TypedGradients::gradient(uint64_t step) const {
  if (rounded_.empty()) return vectors_.gradient(step);
  const Vectors::Spot spot = vectors_.spotOf(step);
  return rounded_[spot.buffer].get() + spot.shift * bytes();
}

// What reaches a magnitude reaches it rounded, too, for rounding keeps the order.
uint32_t TypedGradients::keyOf(double density) const {
  using Magnitude = sparsecoll::Magnitude<float>;
  const float least = Magnitude::value(vectors_.keyOf(density));
  return sparsecoll::withElement(type_, [&]<class T>(T) {
    using Element = sparsecoll::Element<T>;
    return Magnitude::of(static_cast<float>(Element::load(Element::store(least))));
  });
}

sparsecoll::WorkspaceNeed needFor(uint64_t n, double largestDensity) {
  const uint64_t entries = sparsecoll::entriesOf(largestDensity, n);
  // Independent lists of chance length.
  return {n, 1, 2 * kLists, kLists * (entries + entries / 4 + 1024)};
}

}  // namespace bench
