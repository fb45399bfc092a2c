#include "bench/perf/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "bench/common/memory.h"
#include "bench/common/random.h"
#include "bench/perf/device.h"
#include "bench/perf/team.h"

namespace bench {

namespace {

constexpr uint64_t kSteps = 3;
constexpr uint64_t kMostInteger = 4096;
constexpr uint64_t kBlock = 1024;  // elements whose sums stay in the first-level cache

template <class T>
uint64_t bitsOf(T x) {
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}

class Checker {
 public:
  Checker(const Case& what, uint64_t seed)
      : case_(what),
        n_(what.shape.n),
        type_(*what.shape.type),
        seed_(mixBits(seed)),
        team_(what.shape.ranks, what.shape.device, what.shape.world) {
    largest_ = static_cast<double>(largestCheckInteger(type_, team_.ranks()));
    outs_.resize(static_cast<size_t>(team_.ranks()));
    residuals_.resize(outs_.size());
    outsSeen_.resize(outs_.size());
    residualsSeen_.resize(outs_.size());
    if (team_.onDevice()) onHost_ = std::make_unique<Team>(team_.ranks());
    residualCopies_.resize(team_.onDevice() || case_.method.overNodes ? outs_.size() : 0);
    const sparsecollParams_t params = case_.method.params();
    exactTopK_ = isExactTopK(params);
    case_.method.op = sparsecollSum;
    case_.method.momentum = false;  // what goes in is then known without looking at what went out
    conserves_ = case_.dense || (case_.method.flags & SPARSECOLL_NO_RESIDUAL) == 0;
    if (conserves_) pending_ = Memory(n_ * sizeof(double));
    if (params.selector == sparsecollSelectThreshold) case_.method.threshold = threshold();
  }

  CheckResult run() {
    team_.run([this](Rank& rank) {
      try {
        rank.onDevice() ? onDevice(rank) : onRank(rank);
      } catch (...) {
        if (onHost_ != nullptr) sparsecollCommAbort(onHost_->comm(rank.slot()));  // nobody shall wait for this rank
        throw;
      }
    });
    if (team_.world() != nullptr) gatherFindings(*team_.world());
    return {wrong_, hash_, firstWrong_};
  }

 private:
  // Many small integers and few large ones, of both signs.
  double gradientAt(uint64_t rank, uint64_t step, uint64_t i) const {
    const uint64_t random = randomAt(seed_ + rank * kSteps + step, i);
    const double u = unit(random);
    const double magnitude = std::floor(u * u * u * (largest_ + 1));
    return (random & 1) != 0 ? -magnitude : magnitude;
  }

  double threshold() const {
    std::vector<double> magnitudes(n_);
    for (uint64_t i = 0; i < n_; ++i) magnitudes[i] = std::abs(gradientAt(0, 0, i));
    const auto kth = magnitudes.begin() + static_cast<std::ptrdiff_t>(entriesOf(case_.method.density, n_) - 1);
    std::nth_element(magnitudes.begin(), kth, magnitudes.end(), std::greater<>());
    return std::max(*kth, 1.0);
  }

  void onRank(Rank& rank) {
    const Memory gradient(n_ * type_.bytes);
    Memory& out = outs_[rank.slot()];
    out = Memory(n_ * type_.bytes);
    Reducer reducer(case_.method, n_, type_, rank.comm);
    for (uint64_t step = 0; step < kSteps; ++step) {
      withElement(type_.type, [&]<class T>(T) {
        for (uint64_t i = 0; i < n_; ++i) gradient.as<T>()[i] = fromDouble<T>(gradientAt(rank.slot(), step, i));
      });
      // What the library leaves unwritten must show.
      if ((case_.method.flags & SPARSECOLL_OUT_PRESERVED) == 0) std::memset(out.as<>(), 0x55, n_ * type_.bytes);
      reducer.run(gradient.as<>(), out.as<>());
      residuals_[rank.slot()] = residualOf(rank, reducer);
      checkCount(rank, step, reducer);
      rank.sync();
      withElement(type_.type, [&]<class T>(T) {
        rank.world != nullptr ? verifyInWorld<T>(*rank.world, step) : verify<T>(rank, step);
      });
      rank.sync();
    }
  }

  // Over nodes a rank keeps that of a shard.
  const void* residualOf(const Rank& rank, const Reducer& reducer) {
    if (!case_.method.overNodes || case_.dense) return reducer.residual();
    const sparsecollReducerInfo_t info = reducer.info();
    Memory& whole = residualCopies_[rank.slot()];
    if (whole.bytes() == 0) whole = Memory(n_ * type_.accumulateBytes);
    std::memset(whole.as<>(), 0, whole.bytes());
    if (reducer.residual() != nullptr)
      std::memcpy(whole.as<>() + info.shardBegin * type_.accumulateBytes, reducer.residual(),
                  info.shardLength * type_.accumulateBytes);
    return whole.as<>();
  }

  // Rank 0 gets everybody's sums and residuals, a part at a time, and looks at all of them.
  template <class T>
  void verifyInWorld(World& world, uint64_t step) {
    constexpr uint64_t kPart = 1u << 20;
    const auto own = static_cast<size_t>(world.rank());
    const std::byte* const out = outs_[own].as<>();
    const auto* const residual = static_cast<const std::byte*>(residuals_[own]);
    std::vector<std::byte> outs, residuals;
    for (begin_ = 0; begin_ < n_; begin_ += kPart) {
      const uint64_t length = std::min(kPart, n_ - begin_);
      const auto collect = [&](const std::byte* from, uint64_t each, std::vector<std::byte>& all, auto& seen) {
        all.resize(length * each * outs_.size());
        world.gather(from + begin_ * each, length * each, all.data());
        for (size_t r = 0; r < outs_.size(); ++r) seen[r] = all.data() + r * length * each;
      };
      collect(out, type_.bytes, outs, outsSeen_);
      if (residual != nullptr) collect(residual, type_.accumulateBytes, residuals, residualsSeen_);
      if (own != 0) continue;
      for (uint64_t at = begin_; at < begin_ + length; at += kBlock) {
        const uint64_t block = std::min(kBlock, begin_ + length - at);
        verifyEqualBits<T>(step, at, block);
        if (conserves_) verifyConservation<T>(step, at, block);
      }
    }
  }

  void gatherFindings(World& world) {
    wrong_ = world.total(wrong_);
    hash_ = world.total(hash_);  // rank 0's
    std::vector<std::array<char, 256>> texts(static_cast<size_t>(world.ranks()));
    auto& own = texts[static_cast<size_t>(world.rank())];
    own.back() = 0;
    firstWrong_.copy(own.data(), own.size() - 1);
    world.share(texts);
    for (const auto& text : texts)
      if (firstWrong_.empty()) firstWrong_ = text.data();
  }

  // The same steps on a host's ranks beside the device's: sums and residuals have the same bits. All but the first are
  // replays, where steps are timed as replays.
  void onDevice(Rank& rank) {
    const uint64_t bytes = n_ * type_.bytes;
    const Memory gradient(bytes);
    const Memory expected(bytes);
    const DeviceMemory gradientThere(bytes);
    const DeviceMemory outThere(bytes);
    const DeviceStream stream;
    Memory& out = outs_[rank.slot()];
    out = Memory(bytes);
    Reducer host(case_.method, n_, type_, onHost_->comm(rank.slot()));
    Reducer reducer(case_.method, n_, type_, rank.comm);
    const auto enqueue = [&] { reducer.run(gradientThere.data(), outThere.data(), stream.handle()); };
    std::optional<DeviceGraph> graph;
    for (uint64_t step = 0; step < kSteps; ++step) {
      withElement(type_.type, [&]<class T>(T) {
        for (uint64_t i = 0; i < n_; ++i) gradient.as<T>()[i] = fromDouble<T>(gradientAt(rank.slot(), step, i));
      });
      gradientThere.load(gradient.as<>(), bytes);
      // What the library leaves unwritten must show.
      if ((case_.method.flags & SPARSECOLL_OUT_PRESERVED) == 0) {
        std::memset(out.as<>(), 0x55, bytes);
        outThere.load(out.as<>(), bytes);
      }
      host.run(gradient.as<>(), expected.as<>());
      if (case_.shape.graph && step == 1) graph.emplace(stream, enqueue);
      graph ? graph->launch(stream) : enqueue();
      bench::check(sparsecollCommWait(rank.comm, static_cast<sparsecollStream_t>(stream.handle()), 0),
                   "sparsecollCommWait");
      copyToHost(out.as<>(), outThere.data(), bytes);
      compareWithHost(rank, step, "out", out.as<>(), expected.as<>(), type_.bytes);
      takeResidual(rank, step, reducer.residual(), host.residual());
      checkCount(rank, step, reducer);
      rank.sync();
      withElement(type_.type, [&]<class T>(T) { verify<T>(rank, step); });
      rank.sync();
    }
  }

  void takeResidual(const Rank& rank, uint64_t step, const void* there, const void* expected) {
    if (there == nullptr) return;
    Memory& copy = residualCopies_[rank.slot()];
    if (copy.bytes() == 0) copy = Memory(n_ * type_.accumulateBytes);
    copyToHost(copy.as<>(), there, n_ * type_.accumulateBytes);
    residuals_[rank.slot()] = copy.as<>();
    compareWithHost(rank, step, "the residual", copy.as<>(), static_cast<const std::byte*>(expected),
                    type_.accumulateBytes);
  }

  void compareWithHost(const Rank& rank, uint64_t step, const char* what, const std::byte* got,
                       const std::byte* expected, uint64_t each) {
    if (std::memcmp(got, expected, n_ * each) == 0) return;
    for (uint64_t i = 0; i < n_; ++i)
      if (std::memcmp(got + i * each, expected + i * each, each) != 0)
        report(1, fmt::format("step {}: rank {}: entry {} of {} is not what the host has", step, rank.index, i, what));
  }

  void checkCount(const Rank& rank, uint64_t step, const Reducer& reducer) {
    if (!exactTopK_ || reducer.info().teams > 1) return;  // teams share what travels of the block they meet for
    const uint64_t wanted = reducer.info().k;
    const uint64_t selected = reducer.stats().lastSelected;
    if (selected != wanted)
      report(wanted > selected ? wanted - selected : selected - wanted,
             fmt::format("step {}: rank {} selected {} entries instead of {}", step, rank.index, selected, wanted));
  }

  template <class T>
  void verify(Rank& rank, uint64_t step) {
    const uint64_t end = rank.end(n_);
    if (rank.index == 0) {
      for (size_t r = 0; r < outs_.size(); ++r) outsSeen_[r] = outs_[r].as<>();
      for (size_t r = 0; r < outs_.size(); ++r) residualsSeen_[r] = static_cast<const std::byte*>(residuals_[r]);
    }
    rank.sync();
    for (uint64_t at = rank.begin(n_); at < end; at += kBlock) {
      const uint64_t length = std::min(kBlock, end - at);
      verifyEqualBits<T>(step, at, length);
      if (conserves_) verifyConservation<T>(step, at, length);
    }
  }

  // From entry `begin` on.
  template <class T>
  const T* outOf(size_t rank, uint64_t begin) const {
    return reinterpret_cast<const T*>(outsSeen_[rank]) + (begin - begin_);
  }

  template <class T>
  void verifyEqualBits(uint64_t step, uint64_t begin, uint64_t length) {
    const T* const first = outOf<T>(0, begin);
    uint64_t hash = 0;
    for (uint64_t i = 0; i < length; ++i) hash += mixBits(bitsOf(first[i]) ^ mixBits(n_ * step + begin + i));
    hash_ += hash;
    for (size_t r = 1; r < outs_.size(); ++r) {
      const T* const other = outOf<T>(r, begin);
      if (std::memcmp(first, other, length * sizeof(T)) == 0) continue;
      for (uint64_t i = 0; i < length; ++i)
        if (bitsOf(first[i]) != bitsOf(other[i]))
          report(1, fmt::format("step {}: out[{}] is {} on rank 0 and {} on rank {}", step, begin + i,
                                toDouble(first[i]), toDouble(other[i]), r));
    }
  }

  template <class T>
  void verifyConservation(uint64_t step, uint64_t begin, uint64_t length) {
    double put[kBlock];
    double left[kBlock] = {};
    double* const pending = pending_.as<double>() + begin;
    std::copy_n(pending, length, put);
    for (size_t r = 0; r < outs_.size(); ++r) {
      for (uint64_t i = 0; i < length; ++i) put[i] += gradientAt(r, step, begin + i);
      if (case_.dense) continue;
      using Accumulate = std::conditional_t<std::is_same_v<T, double>, double, float>;
      const auto* const residual = reinterpret_cast<const Accumulate*>(residualsSeen_[r]) + (begin - begin_);
      for (uint64_t i = 0; i < length; ++i) left[i] += static_cast<double>(residual[i]);
    }
    const T* const out = outOf<T>(0, begin);
    for (uint64_t i = 0; i < length; ++i)
      if (!(toDouble(out[i]) + left[i] == put[i]))
        report(1, fmt::format("step {}: entry {}: {} went in, {} came out and {} is left", step, begin + i, put[i],
                              toDouble(out[i]), left[i]));
    std::copy_n(left, length, pending);
  }

  void report(uint64_t count, const std::string& text) {
    wrong_ += count;
    const std::lock_guard lock(mutex_);
    if (firstWrong_.empty()) firstWrong_ = text;
  }

  Case case_;
  uint64_t n_;
  const ElementType& type_;
  uint64_t seed_;
  Team team_;
  double largest_ = 0;
  bool exactTopK_ = false;
  bool conserves_ = false;
  std::vector<Memory> outs_;
  std::vector<const void*> residuals_;
  // What is compared: from entry begin_ on, which is 0 where ranks are threads.
  std::vector<const std::byte*> outsSeen_, residualsSeen_;
  uint64_t begin_ = 0;
  std::unique_ptr<Team> onHost_;        // where ranks have a device: what they are compared with
  std::vector<Memory> residualCopies_;  // of devices' residuals, and of shards' with zeros around them
  Memory pending_;                      // doubles: the sum of the ranks' residuals before the step
  std::atomic<uint64_t> wrong_{0};
  std::atomic<uint64_t> hash_{0};
  std::mutex mutex_;
  std::string firstWrong_;
};

}  // namespace

// An entry may wait in every rank's residual until the last step.
uint64_t largestCheckInteger(const ElementType& type, int ranks) {
  const double most = type.exactIntegers / static_cast<double>(kSteps * static_cast<uint64_t>(ranks));
  return std::min(kMostInteger, static_cast<uint64_t>(most));
}

CheckResult checkCase(const Case& what, uint64_t seed) { return Checker(what, seed).run(); }

}  // namespace bench
