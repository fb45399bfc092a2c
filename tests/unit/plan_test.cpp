// What an auto reducer's plan says about its decision, and plans that have nothing to try.
#include "src/plan.h"
#include "tests/support/catch.h"

#include <string>
#include <vector>

using namespace sparsecoll;

namespace {

const Plan::Candidate kTopk{"topka", sparsecollSelectTopK, sparsecollCollAllGather};
const Plan::Candidate kSplit{"sparcml-split", sparsecollSelectTopK, sparsecollCollSplitGather};
const Plan::Candidate kDense{"dense", sparsecollSelectTopK, sparsecollCollDense};

struct Given {
  Plan::Candidate candidate;
  uint8_t able;
  StepCost cost;
};

struct Trials {
  Trials(std::vector<Given> all, const Plan::Shape& shape) : given(std::move(all)), plan(candidates(), shape) {}

  std::vector<Plan::Candidate> candidates() const {
    std::vector<Plan::Candidate> found;
    for (const Given& one : given) found.push_back(one.candidate);
    return found;
  }
  void start(uint64_t k) {
    std::vector<uint8_t> able;
    for (const Given& one : given) able.push_back(one.able);
    plan.start(k, able);
  }
  size_t step() {
    if (plan.meets()) plan.hear(std::vector{plan.own()});
    const size_t ran = plan.next();
    plan.stepped(true, given[ran].cost);
    return ran;
  }
  // The line once it was decided for k entries.
  std::string lineFor(uint64_t k) {
    start(k);
    for (int steps = 0; steps < 100 && plan.decisions() == 0; ++steps) (void)step();
    return std::string(plan.line().view());
  }

  std::vector<Given> given;
  Plan plan;
};

}  // namespace

TEST_CASE("the line tells both sides' time, from which density on dense wins, and how fast the link seems") {
  Trials trials({{kTopk, 1, {1000000, 500000}}, {kDense, 1, {2000000, 0}}}, {2000000, 4, 4});
  CHECK(trials.lineFor(2000) == "n 2M P 4: topka, 1 ms; dense 2 ms; break-even density 0.003; link 48 Gbit/s measured");
}

TEST_CASE("where nothing travels no density makes dense win, and where the rest takes too long any does") {
  Trials alone({{kTopk, 1, {6400, 0}}, {kDense, 1, {12800, 0}}}, {500, 4, 1});
  CHECK(alone.lineFor(5) == "n 500 P 1: topka, 6.4 us; dense 13 us; break-even density 1");
  Trials slow({{kTopk, 1, {12800, 0}}, {kDense, 1, {6400, 0}}}, {500, 4, 1});
  CHECK(slow.lineFor(5) == "n 500 P 1: dense, 6.4 us; topka 13 us; dense at any density");
}

TEST_CASE("the line names only what has a time") {
  Trials noDense({{kTopk, 1, {128000, 0}}, {kSplit, 1, {192000, 0}}}, {5000, 4, 2});
  CHECK(noDense.lineFor(50) == "n 5k P 2: topka, 0.13 ms");
  for (const auto& [n, text] : {std::pair<uint64_t, const char*>{999, "n 999 P 2: topka, 0 us"},
                                {1000, "n 1k P 2: topka, 0 us"},
                                {1000000, "n 1M P 2: topka, 0 us"}})
    CHECK(Trials({{kTopk, 1, {128000, 0}}}, {n, 4, 2}).lineFor(50) == text);
  Trials unableDense({{kTopk, 1, {128000, 0}}, {kSplit, 1, {64000, 0}}, {kDense, 0, {}}}, {5000, 4, 2});
  CHECK(unableDense.lineFor(50) == "n 5k P 2: sparcml-split, 64 us");
  Trials denseAlone({{kTopk, 0, {}}, {kDense, 1, {}}}, {5000, 4, 2});
  CHECK(denseAlone.lineFor(50) == "n 5k P 2: dense, 0 us");
  Trials callersDense({{kTopk, 0, {}}, {kDense, 1, {}}}, {5000, 4, 2});
  callersDense.plan.knowDense(160000);
  CHECK(callersDense.lineFor(50) == "n 5k P 2: dense, 0.16 ms; link 1 Gbit/s by the caller");
}

TEST_CASE("candidates run two steps each, four the other way round, and four more as at first") {
  Trials trials({{kTopk, 1, {128000, 0}}, {kSplit, 1, {128000, 0}}, {kDense, 1, {128000, 0}}}, {5000, 4, 2});
  trials.start(50);
  std::string ran;
  while (trials.plan.decisions() == 0 && ran.size() < 100) ran += static_cast<char>('0' + trials.step());
  CHECK(ran == "001122" "222211110000" "000011112222" "2");
}

TEST_CASE("a lucky step makes no candidate the fastest, and one that was disturbed makes none slow") {
  Trials trials({{kTopk, 1, {}}, {kSplit, 1, {}}}, {5000, 4, 2});
  trials.start(50);
  constexpr int kLucky = 6, kDisturbed = 10;  // of the turns 0011, 11110000 and 00001111
  for (int steps = 0; steps < 100 && trials.plan.decisions() == 0; ++steps) {
    trials.given[0].cost = {steps == kDisturbed ? uint64_t{512000} : 89600, 0};
    trials.given[1].cost = {steps == kLucky ? uint64_t{64000} : 102400, 0};
    (void)trials.step();
  }
  CHECK(trials.plan.line().view() == "n 5k P 2: topka, 90 us");
}

TEST_CASE("where trials do not tell candidates apart the first is taken, even if another one's median is shorter") {
  const auto chosen = [](uint64_t quicker) {
    Trials trials({{kTopk, 1, {}}, {kSplit, 1, {102400, 0}}}, {5000, 4, 2});
    trials.start(50);
    for (int steps = 0; steps < 100 && trials.plan.decisions() == 0; ++steps) {
      trials.given[0].cost = {steps % 2 == 1 && steps > 8 && steps < 14 ? quicker : 115200, 0};
      (void)trials.step();
    }
    return std::string(trials.plan.line().view());
  };
  // Of seven steps three are quicker: the lower quartile, not the median.
  CHECK(chosen(102400) == "n 5k P 2: topka, 0.12 ms");
  CHECK(chosen(110080) == "n 5k P 2: sparcml-split, 0.1 ms");
}

TEST_CASE("a plan that replays goes on so after it took over the state of trials that were under way") {
  const std::vector<Given> given{{kTopk, 1, {1000, 0}}, {kDense, 1, {2000, 0}}};
  Trials from(given, {5000, 4, 2});
  from.start(50);
  (void)from.step();
  Writer state;
  from.plan.save(state, 0);

  Trials replaying(given, {5000, 4, 2});
  const sparsecollChoice_t recorded[] = {{0, kDense.selector, kDense.collective}};
  REQUIRE(replaying.plan.replay(recorded).ok());
  Reader reader(state.bytes());
  REQUIRE(replaying.plan.load(reader).ok());
  for (int step = 0; step < 5; ++step) {
    CHECK(!replaying.plan.meets());
    CHECK(!replaying.plan.measures());
    CHECK(replaying.step() == 1);
  }
  CHECK(replaying.plan.decisions() == 0);
}

TEST_CASE("trials that a state has under way begin with no times of this plan's own") {
  const std::vector<Given> given{{kTopk, 1, {128000, 0}}, {kSplit, 1, {128000, 0}}, {kDense, 1, {128000, 0}}};
  Trials from(given, {5000, 4, 2}), to(given, {5000, 4, 2});
  from.start(50);
  (void)from.step();
  Writer state;
  from.plan.save(state, 0);
  CHECK(to.lineFor(50).starts_with("n 5k P 2: dense, 0.13 ms"));
  Reader reader(state.bytes());
  REQUIRE(to.plan.load(reader).ok());
  for (Given& one : to.given) one.cost = {256000, 0};
  for (int steps = 0; steps < 100 && to.plan.decisions() == 1; ++steps) (void)to.step();
  CHECK(to.plan.line().view().starts_with("n 5k P 2: dense, 0.26 ms"));
}

TEST_CASE("a larger density leaves out nobody that may be the fastest: what a step waits for may not grow with it") {
  Trials trials({{kTopk, 1, {520'000, 480'000}}, {kSplit, 1, {560'000, 500'000}}, {kDense, 1, {5'400'000, 0}}},
                {1'000'000, 4, 4});
  CHECK(trials.lineFor(1000).starts_with("n 1M P 4: topka, 0.52 ms; dense 5.4 ms"));
  trials.given[0].cost = {2'420'000, 2'380'000};
  trials.given[1].cost = {2'800'000, 2'700'000};
  trials.start(100'000);
  for (int steps = 0; steps < 100 && trials.plan.decisions() == 1; ++steps) (void)trials.step();
  CHECK(trials.plan.decisions() == 2);
  CHECK(trials.plan.line().view().starts_with("n 1M P 4: topka, 2.4 ms; dense 5.4 ms"));
}

TEST_CASE("dense's time by the caller whose state this is counts for its decision, not for what is decided here") {
  const std::vector<Given> given{{kTopk, 1, {256'000, 128'000}}, {kDense, 1, {64'000, 0}}};
  Trials from(given, {5000, 4, 2});
  from.plan.knowDense(1000);
  CHECK(from.lineFor(50).starts_with("n 5k P 2: dense, 1 us"));
  Writer state;
  from.plan.save(state, 1);

  Trials to(given, {5000, 4, 2});
  Reader reader(state.bytes());
  REQUIRE(to.plan.load(reader).ok());
  CHECK(to.step() == 1);
  CHECK(to.plan.line().view().starts_with("n 5k P 2: dense, 1 us"));
  const std::string line = to.lineFor(100);
  CHECK_THAT(line, Catch::StartsWith("n 5k P 2: dense, 64 us") && Catch::EndsWith("measured"));
}
