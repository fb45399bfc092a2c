// 10,000 random cases against the reference (T19, T18, T20). SPARSECOLL_CASE=seed runs one of them alone.
#include "tests/support/catch.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>

#include "tests/oracle/random_case.h"
#include "tests/oracle/reference.h"
#include "tests/support/group.h"

using namespace sparsecoll::test;

namespace {

#ifdef __SANITIZE_THREAD__
constexpr uint64_t kCases = 250;
#elif defined(SPARSECOLL_TEST_SANITIZED)
constexpr uint64_t kCases = 1000;
#else
constexpr uint64_t kCases = 10000;
#endif
constexpr uint64_t kFirstSeed = 20240101;

// What one rank saw of one step.
struct Seen {
  sparsecollResult_t result = sparsecollInternalError;
  Elements out;
  Elements residual;
  std::vector<uint64_t> indices;  // of a sparse out
  sparsecollStats_t before{}, after{};
};

// Communicators are used again by all cases with their number of ranks.
Ranks& ranksOf(int count) {
  static std::map<int, std::unique_ptr<Ranks>> known;
  std::unique_ptr<Ranks>& ranks = known[count];
  if (ranks == nullptr) ranks = std::make_unique<Ranks>(count);
  return *ranks;
}

class CaseRun {
 public:
  explicit CaseRun(const RandomCase& which) : case_(which), seen_(static_cast<size_t>(which.ranks)) {}

  // Empty, or what is wrong.
  std::string problem() {
    sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.transactional = case_.transactional ? 1 : 0;
    config.maxDensity = case_.maxDensity;
    config.segments = case_.segments.empty() ? nullptr : case_.segments.data();
    config.segmentCount = case_.segments.size();
    Ranks& ranks = ranksOf(case_.ranks);
    const Reducers reducers(ranks, case_.n, case_.type, case_.params, &config);
    for (int r = 0; r < case_.ranks; ++r)
      if (reducers.result(r) != sparsecollSuccess) return std::string("create: ") + sparsecollGetLastError();
    info_ = infoOf(reducers[0]);
    for (int s = 0; s < case_.steps; ++s) {
      std::vector<Elements> row;
      for (int r = 0; r < case_.ranks; ++r) row.push_back(case_.gradient(r, s));
      gradients_.push_back(std::move(row));
    }
    ranks.run([&](int rank, sparsecollComm_t) { runRank(rank, reducers[rank]); });
    return verify();
  }

 private:
  void runRank(int rank, sparsecollReducer_t reducer) {
    const auto r = static_cast<size_t>(rank);
    Elements out = case_.firstOut(rank);
    SparseVector vector(
        case_.type, case_.n,
        std::min(case_.n, (info_.capacity + SPARSECOLL_NON_FINITE_NAMED) * static_cast<uint64_t>(case_.ranks)));
    for (int s = 0; s < case_.steps; ++s) {
      Seen seen;
      seen.before = statsOf(reducer);
      Elements gradient = gradients_[static_cast<size_t>(s)][r];
      if (case_.sparseOut) {
        seen.result = sparsecollReducerRunSparse(reducer, gradient.data(), vector.view(), nullptr);
        seen.out = Elements(case_.type, case_.n);
        for (size_t e = 0; e < vector.count(); ++e) {
          seen.indices.push_back(vector.index(e));
          if (vector.index(e) < case_.n) seen.out.set(vector.index(e), vector.value(e));
        }
      } else {
        if (case_.inPlace) out = gradient;
        const void* const in = case_.inPlace ? out.data() : gradient.data();
        seen.result = sparsecollReducerRun(reducer, in, out.data(), nullptr);
        seen.out = out;
      }
      seen.residual = residualOf(reducer);
      seen.after = statsOf(reducer);
      seen_[r].push_back(std::move(seen));
    }
  }

  Method method() const {
    Method method;
    method.selector = case_.params.selector;
    method.collective = case_.params.collective;
    method.faithful = case_.faithful;
    method.residual = !case_.has(SPARSECOLL_NO_RESIDUAL);
    method.type = case_.type;
    method.ranks = static_cast<uint64_t>(case_.ranks);
    method.n = case_.n;
    method.k = info_.k - case_.sentDense();
    method.capacity = info_.capacity - case_.sentDense();
    method.sentDense = case_.isSentDense();
    method.inputScale = case_.params.inputScale;
    method.outputScale = case_.params.outputScale;
    method.survey = findsThreshold() ? 49 : 0;
    method.average = case_.params.op == sparsecollAvg;
    method.overContributors = case_.has(SPARSECOLL_AVERAGE_CONTRIBUTORS);
    method.momentum = case_.params.momentum;
    method.nesterov = case_.has(SPARSECOLL_NESTEROV);
    method.masks = !case_.has(SPARSECOLL_MOMENTUM_KEPT);
    method.clipNorm = case_.params.clipNorm;
    if (case_.params.residualDecay != 0) method.decay = case_.params.residualDecay;
    return method;
  }

  // In the step itself; 0 in a step without one.
  bool findsThreshold() const { return case_.preset == "micro" && !case_.faithful; }

  double firstThreshold() const {
    if (case_.params.threshold > 0) return case_.params.threshold;
    const bool guesses = case_.preset == "threshold" || case_.faithful;
    const uint64_t k = std::max<uint64_t>(info_.k - case_.sentDense(), 1);
    return guesses ? 1 / (2 * std::sqrt(static_cast<double>(k))) : 0;
  }

  // As the authors' code moves it, by what the step has delivered.
  double movedThreshold(double threshold, size_t s) const {
    const uint64_t k = info_.k - case_.sentDense();
    if (k == 0) return threshold;
    double delivered = 0;
    for (const auto& rank : seen_) delivered += static_cast<double>(rank[s].after.lastSelected - case_.sentDense());
    const double x = delivered / static_cast<double>(k);
    return threshold * (x > 1.1 ? 1.005 : x > 0.909 ? 1.00125 : 0.995);
  }

  // k = floor(d n + 1e-9 n), at least 1 and at most n; capacities: decisions 15.
  std::string verifyInfo() const {
    if (case_.preset == "dense") return info_.k == case_.n ? "" : "Info.k of dense is not n";
    const uint64_t rest = case_.n - case_.sentDense();
    const auto kOf = [&](double density) {
      const double n = static_cast<double>(rest);
      const auto k = static_cast<uint64_t>(std::floor(density * n + 1e-9 * n));
      return std::min(rest, std::max<uint64_t>(k, 1));
    };
    uint64_t k = case_.params.k != 0 ? std::min(case_.params.k, rest) : kOf(case_.params.density);
    if (case_.has(SPARSECOLL_SELECT_NOTHING)) k = 0;
    if (info_.k != k + case_.sentDense()) return "Info.k is " + std::to_string(info_.k) + ", not " + std::to_string(k);
    const uint64_t most = std::max(k, case_.maxDensity > 0 ? kOf(case_.maxDensity) : 0);
    const auto ranks = static_cast<uint64_t>(case_.ranks);
    const uint64_t part = (case_.n + ranks - 1) / ranks;
    uint64_t capacity = most;
    if (case_.preset == "threshold") capacity = std::min(case_.n, 4 * most);
    if (case_.preset == "micro")
      capacity = case_.faithful ? part : std::min(part, (5 * most + 2 * ranks - 1) / (2 * ranks));
    if (info_.capacity == capacity + case_.sentDense()) return "";
    return "Info.capacity is " + std::to_string(info_.capacity) + ", not " + std::to_string(capacity);
  }

  std::string verify() const {
    if (std::string wrong = verifyInfo(); !wrong.empty()) return wrong;
    Reference reference(method());
    std::vector<double> out(case_.n);
    const Elements first = case_.firstOut(0);
    for (uint64_t i = 0; i < case_.n; ++i) out[i] = first[i];
    double threshold = firstThreshold();
    for (size_t s = 0; s < gradients_.size(); ++s) {
      const std::vector<Elements>& gradients = gradients_[s];
      std::vector<std::vector<double>> before;
      for (size_t r = 0; r < seen_.size(); ++r) before.push_back(reference.residual(r));
      if (findsThreshold()) threshold = seen_[0][s].after.lastThreshold;
      if (!findsThreshold() && case_.preset == "micro" && seen_[0][s].after.lastThreshold != threshold)
        return "step " + std::to_string(s) + " selected with " + std::to_string(seen_[0][s].after.lastThreshold);
      reference.step(gradients, threshold);
      for (size_t r = 0; r < seen_.size(); ++r) {
        std::string wrong = verifyRank(reference, r, s);
        if (wrong.empty()) wrong = verifyOut(reference, gradients[r], r, s, out);
        if (!wrong.empty()) return "rank " + std::to_string(r) + " step " + std::to_string(s) + ": " + wrong;
      }
      if (std::string wrong = verifyTraffic(s); !wrong.empty()) return wrong;
      if (std::string wrong = verifyConservation(reference, gradients, before, s); !wrong.empty()) return wrong;
      for (uint64_t i = 0; i < case_.n; ++i) out[i] = seen_[0][s].out[i];
      if (case_.preset == "micro" && case_.faithful) threshold = movedThreshold(threshold, s);
    }
    return "";
  }

  std::string verifyRank(const Reference& reference, size_t r, size_t s) const {
    const Seen& seen = seen_[r][s];
    if (seen.result != sparsecollSuccess) return "the step returned " + std::to_string(seen.result);
    const bool keeps = !case_.has(SPARSECOLL_NO_RESIDUAL) && case_.preset != "dense";
    if (seen.residual.size() != (keeps ? case_.n : 0)) return "a residual of another size";
    for (uint64_t i = 0; i < seen.residual.size(); ++i)
      if (seen.residual[i] != reference.residual(r)[i])
        return at("residual", i, seen.residual[i], reference.residual(r)[i]);
    return verifyStats(reference, r, s);
  }

  std::string verifyStats(const Reference& reference, size_t r, size_t s) const {
    const sparsecollStats_t& after = seen_[r][s].after;
    const sparsecollStats_t& before = seen_[r][s].before;
    if (after.opsStarted != s + 1 || after.opsCompleted != s + 1) return "opsStarted or opsCompleted is wrong";
    if (case_.preset == "dense") return after.opsDense == s + 1 ? "" : "opsDense is wrong";
    const uint64_t sent = reference.sent(r).size() + case_.sentDense();
    uint64_t all = case_.sentDense();
    for (size_t rank = 0; rank < seen_.size(); ++rank) all += reference.sent(rank).size();
    const auto distinct =
        static_cast<uint64_t>(std::count(reference.touched().begin(), reference.touched().end(), true));
    const uint64_t unionWanted = case_.sparseOut ? distinct : std::min(all, case_.n);
    if (after.lastSelected != sent) return at("lastSelected", 0, double(after.lastSelected), double(sent));
    if (after.lastUnion != unionWanted) return at("lastUnion", 0, double(after.lastUnion), double(unionWanted));
    if (after.lastRequested != info_.k || after.lastLength != case_.n) return "lastRequested or lastLength is wrong";
    const uint64_t bytes = reference.bytesSent(r);
    if (after.lastBytesSent != bytes) return at("lastBytesSent", 0, double(after.lastBytesSent), double(bytes));
    if (after.bytesSent - before.bytesSent != bytes) return "bytesSent does not add up";
    if (info_.k != case_.sentDense() && after.opsOverflow - before.opsOverflow != (reference.overflowed(r) ? 1 : 0))
      return "opsOverflow is wrong";
    if (after.opsNonFinite != 0) return "opsNonFinite is not 0";
    const bool shared = case_.params.selector == sparsecollSelectMicro;
    if (shared && after.lastThreshold != seen_[0][s].after.lastThreshold) return "the ranks have other thresholds";
    return "";
  }

  // What the ranks sent is what they received; telemetry that follows from the counts.
  std::string verifyTraffic(size_t s) const {
    uint64_t sent = 0;
    uint64_t received = 0;
    double most = 0;
    double all = 0;
    for (const std::vector<Seen>& rank : seen_) {
      sent += rank[s].after.bytesSent - rank[s].before.bytesSent;
      received += rank[s].after.bytesReceived - rank[s].before.bytesReceived;
      most = std::max(most, static_cast<double>(rank[s].after.lastSelected));
      all += static_cast<double>(rank[s].after.lastSelected);
    }
    if (sent != received) return at("bytes sent", s, double(sent), double(received));
    const auto ranks = static_cast<double>(case_.ranks);
    const uint64_t ring = 2 * static_cast<uint64_t>(case_.ranks - 1) * case_.n * bytesOf(case_.type);
    if (case_.preset == "dense" && sent != ring) return at("dense bytes", s, double(sent), double(ring));
    for (const std::vector<Seen>& rank : seen_) {
      const sparsecollStats_t& stats = rank[s].after;
      if (stats.lastSequence != seen_[0][s].after.lastSequence) return "the ranks count operations differently";
      if (stats.bytesDense - rank[s].before.bytesDense != ring / static_cast<uint64_t>(case_.ranks))
        return "bytesDense";
      if (stats.lastCollective != info_.collective) return "lastCollective is not Info.collective";
      const double imbalance = all > 0 ? most / (all / ranks) : 1;
      if (std::abs(stats.lastImbalance - imbalance) > 1e-12)
        return at("lastImbalance", s, stats.lastImbalance, imbalance);
    }
    return "";
  }

  std::string verifyOut(const Reference& reference, const Elements& gradient, size_t r, size_t s,
                        const std::vector<double>& before) const {
    const Seen& seen = seen_[r][s];
    const bool ownBase = case_.inPlace && case_.has(SPARSECOLL_ACCUMULATE);  // then out held this rank's gradient
    if (!ownBase && !(seen.out == seen_[0][s].out)) return "out has other bits than on rank 0";
    for (uint64_t i = 0; i < case_.n; ++i) {
      double wanted = reference.touched()[i] ? reference.finished(i) : 0;
      if (case_.preset == "dense") wanted = roundTo(case_.type, wanted);  // what is added is a sum of the vectors' type
      if (case_.has(SPARSECOLL_ACCUMULATE))
        wanted = reference.round((case_.inPlace ? gradient[i] : before[i]) + wanted);
      wanted = roundTo(case_.type, wanted);
      if (seen.out[i] != wanted) return at("out", i, seen.out[i], wanted);
    }
    if (!case_.sparseOut) return "";
    std::vector<uint64_t> indices;
    for (uint64_t i = 0; i < case_.n; ++i)
      if (reference.touched()[i]) indices.push_back(i);
    return seen.indices == indices ? "" : "the sparse out has other indices than the union";
  }

  // Entry by entry: what the ranks held and got is what was delivered and what they hold now. Exact for integers, else
  // within the roundings of one fused multiply-add a rank and one addition a rank. With momentum they got their
  // velocity, and what fading took counts as not held.
  std::string verifyConservation(const Reference& reference, const std::vector<Elements>& gradients,
                                 const std::vector<std::vector<double>>& before, size_t s) const {
    if (case_.preset == "dense" || case_.has(SPARSECOLL_NO_RESIDUAL)) return "";
    const double scale = reference.round(case_.params.inputScale);
    const double decay = case_.params.residualDecay != 0 ? reference.round(case_.params.residualDecay) : 1;
    const bool plain = case_.params.momentum == 0 && case_.params.clipNorm == 0 && decay == 1;
    const bool exact =
        plain && case_.numbers == Numbers::kIntegers && std::ldexp(scale, 2) == std::rint(std::ldexp(scale, 2));
    const double unit = case_.type == sparsecollFloat64 ? 0x1p-53 : 0x1p-24;
    for (uint64_t i = 0; i < case_.n; ++i) {
      double held = 0;
      double kept = 0;
      double size = 0;
      for (size_t r = 0; r < seen_.size(); ++r) {
        const double input = plain ? scale * gradients[r][i] : reference.input(r)[i];
        held += decay * before[r][i] + input;
        size += std::abs(before[r][i]) + std::abs(input);
        kept += seen_[r][s].residual[i];
      }
      const double allowed = exact ? 0 : 2 * static_cast<double>(case_.ranks + 1) * unit * size;
      if (std::abs(held - kept - reference.sum()[i]) > allowed)
        return at("conservation", i, held, kept + reference.sum()[i]);
    }
    return "";
  }

  static std::string at(const char* what, uint64_t i, double is, double wanted) {
    std::ostringstream text;
    text.precision(17);
    text << what << "[" << i << "] is " << is << ", the reference says " << wanted;
    return text.str();
  }

  const RandomCase& case_;
  sparsecollReducerInfo_t info_{};
  std::vector<std::vector<Elements>> gradients_;  // by step, then rank
  std::vector<std::vector<Seen>> seen_;           // by rank, then step
};

}  // namespace

TEST_CASE("random cases against the reference") {
  const char* const only = std::getenv("SPARSECOLL_CASE");
  const uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : kFirstSeed;
  const uint64_t count = only != nullptr ? 1 : kCases;
  std::cout << "seeds " << first << " to " << first + count - 1 << " (" << count << " cases"
            << (kCases < 10000 ? ", fewer because of the sanitizer" : "") << ")\n";
  size_t problems = 0;
  for (uint64_t seed = first; seed < first + count && problems < 10; ++seed) {
    const RandomCase which(seed);
    const std::string problem = CaseRun(which).problem();
    if (problem.empty()) continue;
    ++problems;
    UNSCOPED_INFO(which.text() << ": " << problem);
  }
  CHECK(problems == 0);
}

TEST_CASE("the conversions of the tests themselves") {
  for (const sparsecollDataType_t type : {sparsecollFloat16, sparsecollBfloat16})
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const double value = decode16(type, static_cast<uint16_t>(bits));
      if (std::isnan(value)) continue;
      if (encode16(type, value) != bits || roundTo(type, value) != value) FAIL(nameOf(type) << " bits " << bits);
    }
  CHECK(roundTo(sparsecollFloat16, 65519.99) == 65504);
  CHECK(std::isinf(roundTo(sparsecollFloat16, 65520)));
  CHECK(roundTo(sparsecollFloat16, 2049) == 2048);
  CHECK(roundTo(sparsecollFloat16, 0x1p-25) == 0);
  CHECK(roundTo(sparsecollBfloat16, 257) == 256);
  CHECK(roundTo(sparsecollBfloat16, 259) == 260);
}
