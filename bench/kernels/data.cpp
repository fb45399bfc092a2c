#include "bench/kernels/data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numbers>
#include <stdexcept>

#include "bench/common/clock.h"
#include "bench/common/loops.h"
#include "bench/common/random.h"
#include "bench/common/recording.h"
#include "host/host_kernels.h"
#include "selectors/selectors.h"

namespace bench {

namespace {

constexpr uint64_t kGradients = 3;
constexpr uint64_t kShifts = 1024;
constexpr uint64_t kShiftElements = 64;
constexpr uint64_t kLeastRuns = 9;
constexpr uint64_t kRunElements = 1u << 28;  // short vectors need many runs for the best one to be a good one
constexpr int kWarmup = 40;

// Box and Muller: two entries at a time.
void fillNormal(float* x, uint64_t n, uint64_t seed) {
  for (uint64_t i = 0; i < n; i += 2) {
    const double radius = std::sqrt(-2 * std::log(1 - unit(randomAt(seed, i))));
    const double angle = 2 * std::numbers::pi * unit(randomAt(seed, i + 1));
    x[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 < n) x[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

Recording& recorded() {
  static Recording recording;
  return recording;
}

// The files one after the other, from their start again at their end.
void fillRecorded(float* x, uint64_t n, uint64_t from) {
  const std::vector<float>& entries = recorded().entries;
  for (uint64_t i = 0; i < n; ++i) x[i] = entries[(from + i) % entries.size()];
}

double rate(double bytesPerElement, uint64_t n, double seconds) {
  return bytesPerElement * static_cast<double>(n) / seconds;
}

}  // namespace

int runsFor(uint64_t n) { return static_cast<int>(std::max(kLeastRuns, kRunElements / n)); }

sparsecoll::Kernels& hostKernels() {
  static const auto kernels = sparsecoll::host::makeHostKernels();
  return *kernels;
}

uint64_t Data::useRecording(const std::string& path) {
  recorded() = readRecording(path);
  return recorded().first;
}

// Where an entry is matters in a recorded gradient, so it is not shifted.
Data::Data(uint64_t n)
    : n_(n), shifts_(recorded().files == 0 ? kShifts : 1), gradients_(kGradients), scratch_(n * sizeof(float)) {
  const uint64_t length = n + shifts_ * kShiftElements;
  for (uint64_t g = 0; g < kGradients; ++g) {
    gradients_[g] = Memory(length * sizeof(float));
    if (recorded().files == 0)
      fillNormal(gradients_[g].as<float>(), length, mixBits(g));
    else
      fillRecorded(gradients_[g].as<float>(), length, g * n);
  }
  measureBandwidths();
}

Data& Data::of(uint64_t n) {
  static std::unique_ptr<Data> data;
  if (data == nullptr || data->n_ != n) {
    data.reset();
    data = std::make_unique<Data>(n);
  }
  return *data;
}

const float* Data::gradient(uint64_t step) const {
  const uint64_t shift = step == 0 ? 0 : mixBits(step) % shifts_ * kShiftElements;
  return gradients_[step % kGradients].as<float>() + shift;
}

uint32_t Data::keyOf(double density) const {
  std::vector<uint32_t> keys(n_);
  std::transform(gradient(0), gradient(0) + n_, keys.begin(),
                 [](float x) { return sparsecoll::Magnitude<float>::of(x); });
  const auto kth = keys.begin() + static_cast<std::ptrdiff_t>(sparsecoll::entriesOf(density, n_) - 1);
  std::nth_element(keys.begin(), kth, keys.end(), std::greater<>());
  return *kth;
}

TopKLoop& Data::topK(double density) {
  if (topK_ == nullptr || topK_->density() != density) {
    topK_.reset();
    topK_ = std::make_unique<TopKLoop>(*this, density);
  }
  return *topK_;
}

// The best loop counts: see bench/common/loops.h.
void Data::measureBandwidths() {
  const int runs = runsFor(n_);
  float* const r = scratch();
  const float* const g = gradient(0);
  for (const auto loop : {inplaceAdd, inplaceAddInQuarters, inplaceAddAhead})
    addBytesPerSecond_ = std::max(addBytesPerSecond_, rate(12, n_, bestSecondsOf(runs, [&] { loop(r, g, n_); })));
  volatile uint32_t sink = 0;
  for (const auto loop : {readAll, readAllAhead})
    readBytesPerSecond_ = std::max(readBytesPerSecond_, rate(4, n_, bestSecondsOf(runs, [&] { sink = loop(g, n_); })));
}

OneWindow::OneWindow(uint64_t n, uint32_t key, uint64_t room)
    : indices_(room * sizeof(uint32_t)), values_(room * sizeof(float)) {
  window_.end = n;
  window_.key = key;
  window_.slots = window_.room = window_.limit = room;
  window_.forced = sparsecoll::kNoForcedIndex;
  control_.n = n;
  control_.ranks = 1;
  control_.windowCount = 1;
  control_.windows = &window_;
}

sparsecoll::PassArgs OneWindow::passOver(uint64_t n) {
  sparsecoll::PassArgs args;
  args.n = n;
  args.control = &control_;
  args.candidateIndices = indices_.as<uint32_t>();
  args.candidateValues = values_.as<>();
  return args;
}

TopKLoop::TopKLoop(const Data& data, double density) : data_(data), density_(density), acc_(data.n() * sizeof(float)) {
  sparsecoll::SelectionRequest request;
  request.n = data.n();
  request.density = density;
  auto made =
      sparsecoll::Selection::make(sparsecoll::selectorRow(sparsecollSelectTopK)->plan, request, hostKernels(), nullptr);
  if (!made.ok()) throw std::runtime_error(made.takeStatus().failure().text.c_str());
  selection_ = std::move(*made);
  indices_ = Memory(selection_->capacity() * sizeof(uint32_t));
  values_ = Memory(selection_->capacity() * sizeof(float));
  for (int i = 0; i < kWarmup; ++i) step();
}

void TopKLoop::step() {
  sparsecoll::SelectionInput input;
  input.gradient = data_.gradient(++steps_);
  input.in = input.out = acc_.as<>();
  sparsecoll::List target;
  target.indices = indices_.as<uint32_t>();
  target.values = values_.as<>();
  target.count = &count_;
  target.capacity = selection_->capacity();
  selection_->pass(input, {});
  if (!selection_->cut(target, {}).ok()) throw std::runtime_error("a selection could not be cut");
  const sparsecoll::ListView selected{indices_.as<>(), values_.as<>(), &count_};
  hostKernels().zeroAt(acc_.as<>(), sparsecoll::Element<float>::kType, data_.n(), selected, nullptr, {});
}

}  // namespace bench
