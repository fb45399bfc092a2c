#include "bench/perf/turns.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <string_view>
#include <thread>
#include <utility>

#include "bench/common/clock.h"
#include "bench/common/random.h"
#include "bench/perf/library.h"
#include "bench/perf/steps.h"

namespace bench {

namespace {

constexpr uint64_t kLeastRounds = 3;
constexpr uint64_t kFirstSteps = 5;    // of a method, before the rounds, if they are short:
constexpr double kFirstSeconds = 0.2;  // no other one begins after that
constexpr double kSlow = 2;            // times the shortest step, before the rounds
constexpr double kSlowLater = 1.5;     // after kLeastRounds

// What ranks tell each other of a step.
struct Told {
  Step step;
  uint64_t entries = 0;  // of this rank's part of the sum
};

// What a rank knows of a method; the same on all ranks but for the reducer.
struct Known {
  std::unique_ptr<Reducer> reducer;  // nullptr: it takes no more steps
  std::vector<Steps> steps;          // of every rank
  std::vector<double> totals;        // microseconds of the slowest rank
  uint64_t entries = 0;              // of the latest sum
  sparsecollReducerInfo_t info{};
};

class Runner {
 public:
  Runner(std::vector<Case> cases, const Gradients& gradients, const Turns& turns)
      : cases_(std::move(cases)),
        gradients_(gradients),
        turns_(turns),
        shape_(cases_.front().shape),
        team_(shape_.ranks, shape_.device, shape_.world),
        told_(static_cast<size_t>(shape_.ranks)) {}

  std::vector<Turn> run() {
    team_.run([this](Rank& rank) { OfRank(*this, rank).run(); });
    return std::move(results_);
  }

 private:
  class OfRank {
   public:
    OfRank(Runner& all, Rank& rank)
        : all_(all),
          rank_(rank),
          cases_(all.cases_),
          out_(all.shape_.n * all.shape_.type->bytes),
          known_(cases_.size()) {}

    void run() {
      for (size_t i = 0; i < known_.size(); ++i) begin(i);
      for (Known& known : known_) {
        if (known.reducer == nullptr) continue;  // its first steps are all there is
        for (Steps& steps : known.steps) steps.clear();
        known.totals.clear();
      }
      const double start = now_;
      for (uint64_t round = 0; round < all_.turns_.most; ++round) {
        if (round >= kLeastRounds && now_ - start > all_.turns_.seconds) break;
        for (const size_t i : orderIn(round))
          if (known_[i].reducer != nullptr) step(i, true);
        if (round + 1 >= kLeastRounds) leaveOut(kSlowLater);
      }
      if (rank_.leads()) report();
      rank_.sync();
    }

   private:
    // Another one in every round, so that nobody always follows the same method; the same on all ranks.
    std::vector<size_t> orderIn(uint64_t round) const {
      std::vector<size_t> order(known_.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::sort(order, {}, [&](size_t i) { return mixBits(round * order.size() + i); });
      return order;
    }

    void begin(size_t i) {
      make(i);
      uint64_t ofTopK = 0;
      if (all_.turns_.asMuchAsTopK && !cases_[i].dense && cases_[i].method.preset != kAuto)
        for (size_t other = 0; other < i; ++other)
          if (cases_[other].method.preset == kTopK) ofTopK = known_[other].entries;
      takeFirst(i);
      if (countsAllRanks(known_[i].entries, ofTopK, rank_.ranks)) {
        const double density = std::min(1.0, cases_[i].method.density * rank_.ranks);
        known_[i] = {};
        cases_[i].method.density = density;
        make(i);
        takeFirst(i);
      }
      leaveOut(kSlow);
    }

    void make(size_t i) {
      Known& known = known_[i];
      known.reducer = std::make_unique<Reducer>(cases_[i].method, all_.shape_.n, *all_.shape_.type, rank_.comm);
      known.steps.resize(static_cast<size_t>(rank_.ranks));
    }

    void takeFirst(size_t i) {
      constexpr std::string_view kUndecided = "auto: ";
      for (uint64_t s = 0; s < all_.turns_.warmup; ++s) step(i, false);
      for (uint64_t s = 0; cases_[i].method.preset == kAuto && s < kAutoSteps; ++s) {
        if (!std::string_view(known_[i].reducer->info().reason).starts_with(kUndecided)) break;
        step(i, false);
      }
      const double start = now_;
      for (uint64_t s = 0; s < kFirstSteps && (s == 0 || now_ - start < kFirstSeconds); ++s) step(i, true);
    }

    void step(size_t i, bool timed) {
      Known& known = known_[i];
      Told told;
      if (all_.turns_.restMs != 0) {
        rank_.sync();
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(all_.turns_.restMs));
      }
      rank_.sync();
      const uint64_t cpu = cpuNs();
      told.step.startNs = nowNs();
      known.reducer->run(gradients().of(rank_, steps_++), out_.as<>());
      told.step.endNs = nowNs();
      told.step.cpuNs = cpuNs() - cpu;
      told.step.stats = known.reducer->stats();
      const uint64_t n = all_.shape_.n;
      told.entries = nonZerosIn(out_, *all_.shape_.type, rank_.begin(n), rank_.end(n));
      all_.told_[rank_.slot()] = told;
      rank_.sync();
      rank_.share(all_.told_);
      now_ = static_cast<double>(all_.told_.front().step.endNs) * 1e-9;
      if (!timed) return;
      uint64_t longest = 0;
      known.entries = 0;
      for (size_t r = 0; r < known.steps.size(); ++r) {
        const Told& of = all_.told_[r];
        longest = std::max(longest, of.step.endNs - of.step.startNs);
        known.entries += of.entries;
        known.steps[r].push_back(of.step);
      }
      known.totals.push_back(static_cast<double>(longest) / 1e3);
      known.info = known.reducer->info();
    }

    // By the shortest step: what disturbs the machine makes no method slow.
    void leaveOut(double slow) {
      double least = HUGE_VAL;
      for (const Known& known : known_) least = std::min(least, shortest(known));
      for (size_t i = 0; i < known_.size(); ++i) {
        const bool stays = known_[i].totals.empty() || cases_[i].method.preset == kAuto;
        if (!stays && shortest(known_[i]) > slow * least) known_[i].reducer.reset();
      }
    }

    static double shortest(const Known& known) {
      return known.totals.empty() ? HUGE_VAL : *std::ranges::min_element(known.totals);
    }

    void report() {
      for (size_t i = 0; i < known_.size(); ++i) {
        Timing timing = timingOf(known_[i].steps, known_[i].info, all_.shape_);
        timing.unionEntries = known_[i].entries;
        all_.results_.push_back({cases_[i], std::move(timing)});
      }
    }

    const Gradients& gradients() const { return all_.gradients_; }

    Runner& all_;
    Rank& rank_;
    std::vector<Case> cases_;
    Memory out_;
    std::vector<Known> known_;
    uint64_t steps_ = 0;
    double now_ = 0;  // seconds, by the first rank's clock
  };

  const std::vector<Case> cases_;
  const Gradients& gradients_;
  const Turns& turns_;
  const Shape shape_;
  Team team_;
  std::vector<Told> told_;  // by rank
  std::vector<Turn> results_;
};

}  // namespace

std::vector<Turn> timeInTurns(std::vector<Case> cases, const Gradients& gradients, const Turns& turns) {
  return Runner(std::move(cases), gradients, turns).run();
}

bool countsAllRanks(uint64_t entries, uint64_t ofTopK, int ranks) {
  return static_cast<double>(entries) * std::sqrt(ranks) < static_cast<double>(ofTopK);
}

}  // namespace bench
