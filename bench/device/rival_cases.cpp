// What somebody would write without this library, with CUDA's own: r += g, a selection of the largest magnitudes, their
// values, and zeros in their places.
#include <algorithm>

#include "bench/common/random.h"
#include "bench/device/cases.h"
#include "bench/device/loops.h"
#include "bench/device/rivals.h"
#include "bench/device/wrong.h"

namespace bench {

namespace {

// The step of exact_topk, and what it meets.
class RivalLoop {
 public:
  RivalLoop(const Vectors& vectors, double density, LargestOf (*make)(uint32_t n, uint32_t k))
      : vectors_(vectors),
        k_(sparsecoll::entriesOf(density, vectors.n())),
        largest_(make(static_cast<uint32_t>(vectors.n()), static_cast<uint32_t>(k_))),
        residual_(vectors.n()),
        indices_(k_),
        values_(k_),
        count_(1) {
    const auto count = static_cast<uint32_t>(k_);
    count_.load(&count, 1);
  }

  Outcome run() {
    const cudaStream_t stream = vectors_.device().cudaStream().get();
    Operation operation;
    operation.bytes = 12 * static_cast<double>(vectors_.n());
    operation.order = Operation::Order::kAny;
    for (uint64_t i = 0; i < vectors_.settings().noises; ++i)
      for (const float sign : {1.0f, -1.0f})
        operation.steps.push_back([this, stream, i, sign] {
          select(vectors_.gradient(1 + mixBits(i) % (1u << 20)), sign);
          clearAt(residual_.get(), indices_.get(), count_.get(), k_, stream);
        });
    Outcome outcome = vectors_.timed(operation);
    outcome.counters = {{"k", static_cast<double>(k_)}};
    select(vectors_.gradient(1), 1);  // once more, and the residual keeps what went
    vectors_.device().cudaStream().wait();
    outcome.wrong = wrong();
    return outcome;
  }

 private:
  void select(const float* gradient, float sign) {
    const cudaStream_t stream = vectors_.device().cudaStream().get();
    addInPlace(residual_.get(), gradient, vectors_.n(), stream, sign);
    largest_(residual_.get(), indices_.get(), stream);
    gather(residual_.get(), indices_.get(), count_.get(), k_, values_.get(), stream);
  }

  // Indices that came twice, and entries larger than the least one taken that were left.
  uint64_t wrong() const {
    std::vector<uint32_t> indices = indices_.toHost();
    std::sort(indices.begin(), indices.end());
    const auto distinct = static_cast<uint64_t>(std::unique(indices.begin(), indices.end()) - indices.begin());
    std::vector<uint32_t> keys;
    for (const float value : values_.toHost()) keys.push_back(sparsecoll::Magnitude<float>::of(value));
    const uint32_t least = *std::min_element(keys.begin(), keys.end());
    const auto above =
        static_cast<uint64_t>(std::count_if(keys.begin(), keys.end(), [&](auto k) { return k > least; }));
    const DeviceArray<unsigned long long> reaching(1);
    const CudaStream& stream = vectors_.device().cudaStream();
    countReaching(residual_.get(), vectors_.n(), least + 1, reaching.get(), stream.get());
    stream.wait();
    return (k_ - distinct) + difference(above, onHost(reaching.get()));
  }

  const Vectors& vectors_;
  uint64_t k_;
  LargestOf largest_;
  DeviceArray<float> residual_;
  DeviceArray<uint32_t> indices_;
  DeviceArray<float> values_;
  DeviceArray<uint32_t> count_;
};

template <LargestOf (*kMake)(uint32_t n, uint32_t k)>
Outcome rival(const Vectors& vectors, double density) {
  return RivalLoop(vectors, density, kMake).run();
}

// threshold_select, that is: without a residual, and the threshold is known.
Outcome thresholdRival(const Vectors& vectors, double density) {
  const uint64_t n = vectors.n();
  const uint64_t k = sparsecoll::entriesOf(density, n);
  const CudaStream& stream = vectors.device().cudaStream();
  const ReachingOf reaching =
      cubSelect(static_cast<uint32_t>(n), sparsecoll::Magnitude<float>::value(vectors.keyOf(density)));
  const DeviceArray<uint32_t> indices(n), count(1);
  const DeviceArray<float> values(n), elsewhere(n);
  scale(elsewhere.get(), vectors.gradient(0), sparsecollFloat32, -1, n, stream.get());
  Operation operation;
  operation.bytes = 4 * static_cast<double>(n);
  for (const float* const gradient : {vectors.gradient(0), static_cast<const float*>(elsewhere.get())})
    operation.steps.push_back([&, gradient] {
      reaching(gradient, indices.get(), count.get(), stream.get());
      gather(gradient, indices.get(), count.get(), k, values.get(), stream.get());
    });
  Outcome outcome = vectors.timed(operation);
  const uint32_t selected = onHost(count.get());
  outcome.counters = {{"selected", static_cast<double>(selected)}};
  outcome.wrong = selected < k ? k - selected : 0;
  return outcome;
}

// The last one only where CUB has it.
constexpr CaseKind kRivals[] = {
    {"cub_select", "threshold_select by CUB's selection with a predicate", true, thresholdRival, kNvidia},
    {"cub_sort", "exact_topk by r += g and CUB's radix sort of all magnitudes", true, rival<cubSort>, kNvidia},
    {"cub_topk", "exact_topk by r += g and cub::DeviceTopK, whose list is in no order", true, rival<cubTopK>, kNvidia},
};

}  // namespace

std::span<const CaseKind> rivalCases() { return std::span(kRivals).first(hasCubTopK() ? 3 : 2); }

}  // namespace bench
