// What a tuner file changes for the preset auto: fewer trials, or none, and nothing else.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "src/auto_reducer.h"
#include "src/communicator.h"
#include "tests/oracle/auto_group.h"
#include "tests/support/catch.h"

using namespace sparsecoll::test;

namespace {

constexpr const char* kVariable = "SPARSECOLL_TUNER_FILE";

// Times of topka, sparcml-split, spardl and dense, in milliseconds.
using Times = std::array<double, sparsecoll::kCandidateCount>;

std::string lineOf(uint64_t elements, const char* density, const Times& times) {
  std::string line = std::to_string(elements) + "," + density;
  for (const double ms : times) line += "," + std::to_string(ms);
  return line + "\n";
}

// The environment names a file with these lines behind its head.
class TunerFileInPlace {
 public:
  explicit TunerFileInPlace(const std::string& lines,
                            const std::string& maker = "ranks,3\nnodes,1\nengine,threads\ntype,f32\n")
      : path_(std::filesystem::temp_directory_path() /
              ("auto-tuner-test-" + std::to_string(getpid()) + "-" + std::to_string(count_++))) {
    std::ofstream(path_) << "# sparsecoll tuner file 1\n"
                         << maker << "elements,density,topka,sparcml-split,spardl,dense\n"
                         << lines;
    (void)setenv(kVariable, path_.c_str(), 1);
  }
  ~TunerFileInPlace() {
    (void)unsetenv(kVariable);
    std::filesystem::remove(path_);
  }
  TunerFileInPlace(const TunerFileInPlace&) = delete;
  TunerFileInPlace& operator=(const TunerFileInPlace&) = delete;

 private:
  static inline int count_ = 0;
  const std::filesystem::path path_;
};

const std::string kAllTrials =
    "0 allgather, 2 split_gather, 4 spardl, 6 dense, 12 split_gather, 16 allgather, 20 split_gather, ";
const Times kSpardlAlone = {2, 3, 1, 4};

}  // namespace

TEST_CASE("where the tuner file leaves one candidate no trials are run") {
  const CostsInPlace costs(kSplitWins);
  const std::pair<Times, const char*> kFastest[] = {{{1, 2, 2, 2}, "0 allgather, "},
                                                    {{2, 1, 2, 2}, "0 split_gather, "},
                                                    {{2, 3, 1, 4}, "0 spardl, "},
                                                    {{2, 3, 4, 1}, "0 dense, "}};
  for (const auto& [times, plan] : kFastest) {
    CAPTURE(plan);
    const TunerFileInPlace file(lineOf(kLength, "0.01", times));
    AutoGroup group;
    for (uint64_t step = 0; step < 10; ++step) conservingStep(group, step);
    for (int rank = 0; rank < kRanks; ++rank) CHECK(group.plan(rank) == plan);
    CHECK_THAT(group.reason(), Catch::Contains(", 1 ms by the tuner file; "));
    CHECK_FALSE(Catch::Contains("break-even").match(group.reason()));
  }
}

TEST_CASE("where it leaves several they alone have trials") {
  const CostsInPlace costs(kSplitWins);
  const TunerFileInPlace file(lineOf(kLength, "0.01", {1, 1.1, 1.2, 1.14}));
  AutoGroup group;
  group.run(30);
  CHECK(group.plan() ==
        "0 allgather, 2 split_gather, 4 dense, 10 split_gather, 14 allgather, 18 split_gather, ");
  CHECK_THAT(group.reason(), Catch::Contains("sparcml-split, 0.1 ms; dense 0.15 ms; break-even density 0.02; link"));
  CHECK_THAT(group.reason(), Catch::EndsWith("measured"));
}

TEST_CASE("dense that is left out by the file is compared all the same") {
  const CostsInPlace costs(kTopkaWins);
  const TunerFileInPlace file(lineOf(kLength, "0.01", {1, 1.1, 1.2, 4}));
  AutoGroup group;
  group.run(30);
  CHECK(group.collective() == "allgather");
  CHECK(group.stats(0).opsDense == 0);
  CHECK_THAT(group.reason(), Catch::Contains("topka, 0.1 ms; dense 4 ms; ") && Catch::EndsWith("by the tuner file"));
}

TEST_CASE("the caller's own dense sum takes the place of the file's") {
  const CostsInPlace costs(kSplitWins);
  const TunerFileInPlace file(lineOf(kLength, "0.01", {1, 2, 2, 0.5}));
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.denseNs = 3000 * kUs;
  AutoGroup group(0.01, sparsecollFloat32, &config);
  group.run(10);
  CHECK(group.plan() == "0 allgather, ");
  CHECK_THAT(group.reason(),
             Catch::Contains("topka, 1 ms by the tuner file; dense 3 ms; ") && Catch::EndsWith("by the caller"));
}

TEST_CASE("a file of other ranks, nodes, engines or types is not used, and rank 0 says so once") {
  const CostsInPlace costs(kSplitWins);
  static std::atomic<int> told = 0;
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  config.logFn = [](void*, sparsecollLogLevel_t level, const char*, const char* text) {
    if (std::string_view(text).find("SPARSECOLL_TUNER_FILE is not used") == std::string_view::npos) return;
    told += level == sparsecollLogInfo ? 1 : 100;
  };
  for (const char* const maker :
       {"ranks,4\nnodes,1\nengine,threads\ntype,f32\n", "ranks,3\nnodes,3\nengine,threads\ntype,f32\n",
        "ranks,3\nnodes,1\nengine,tcp\ntype,f32\n", "ranks,3\nnodes,1\nengine,threads\ntype,f64\n"}) {
    CAPTURE(maker);
    told = 0;
    const TunerFileInPlace file(lineOf(kLength, "0.01", kSpardlAlone), maker);
    AutoGroup group(0.01, sparsecollFloat32, nullptr, &config);
    group.run(26);
    CHECK(group.plan() == kAllTrials);
    CHECK(told == 1);
    const Reducers again(group.ranks(), kLength, sparsecollFloat32, preset("auto", 0.01));
    CHECK(told == 1);
  }
}

TEST_CASE("what is far from all that was measured has its trials") {
  const CostsInPlace costs(kSplitWins);
  for (const std::string& lines :
       {lineOf(2 * kLength + 1, "0.01", kSpardlAlone), lineOf(kLength, "0.03", kSpardlAlone)}) {
    CAPTURE(lines);
    const TunerFileInPlace file(lines);
    AutoGroup group;
    group.run(26);
    CHECK(group.plan() == kAllTrials);
  }
}

TEST_CASE("a recorded plan goes before the tuner file, which is not even read") {
  const CostsInPlace costs(kSplitWins);
  Choices recorded;
  {
    AutoGroup first;
    first.run(26);
    recorded = choicesOf(first.reducer(0));
  }
  const TunerFileInPlace file("no line of one\n");
  const sparsecollReducerConfig_t config = planned(recorded);
  AutoGroup again(0.01, sparsecollFloat32, &config);
  again.run(26);
  CHECK(again.plan() == kAllTrials);
  CHECK_THAT(again.reason(), Catch::Contains("replays"));
}

TEST_CASE("what was decided by the file can be replayed without it, bit for bit") {
  std::vector<Elements> outs;
  Choices recorded;
  {
    const TunerFileInPlace file(lineOf(kLength, "0.01", kSpardlAlone));
    AutoGroup first;
    for (int step = 0; step < 5; ++step) {
      first.run(1);
      outs.push_back(first.outs[0]);
    }
    recorded = choicesOf(first.reducer(0));
    // And a state of it goes on in a reducer that decides otherwise.
    const Blob blob = exported(first.reducer(0));
    const std::string reason = first.reason();
    AutoGroup second;
    REQUIRE(importInto(second.reducer(0), blob) == sparsecollSuccess);
    CHECK(second.reason() == reason);
  }
  const sparsecollReducerConfig_t config = planned(recorded);
  AutoGroup again(0.01, sparsecollFloat32, &config);
  for (const Elements& out : outs) {
    again.run(1);
    CHECK(again.outs[0] == out);
  }
}

TEST_CASE("a file that is none makes no auto reducer, and concerns no other preset") {
  const TunerFileInPlace file("1000,0.1,1,2,3\n");
  Group group(kRanks, kLength, sparsecollFloat32, preset("auto", 0.01));
  CHECK(group.created() == all(kRanks, sparsecollInvalidArgument));
  sparsecollComm_t comm = nullptr;
  REQUIRE(sparsecollCommInitAll(&comm, 1, nullptr, nullptr) == sparsecollSuccess);
  const sparsecollParams_t params = preset("auto", 0.01);
  sparsecollReducer_t reducer = nullptr;
  CHECK(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm) ==
        sparsecollInvalidArgument);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains(":7: '' is no time of dense"));
  (void)setenv(kVariable, "/nowhere/tuned.csv", 1);
  CHECK(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, nullptr, comm) == sparsecollSystemError);
  CHECK_THAT(sparsecollGetLastError(), Catch::Contains("SPARSECOLL_TUNER_FILE: /nowhere/tuned.csv: No such file"));
  // The communicator lives.
  Group named(kRanks, kLength, sparsecollFloat32, preset("topka", 0.01));
  CHECK(named.created() == all(kRanks, sparsecollSuccess));
  const sparsecollParams_t topka = preset("topka", 0.01);
  CHECK(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &topka, nullptr, comm) == sparsecollSuccess);
  CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
}

TEST_CASE("ranks whose files say something else get Mismatch, all of them, and it names the file") {
  using namespace sparsecoll;
  const std::vector<int> places(kRanks, SPARSECOLL_HOST);
  auto comms = Communicator::inProcess(places, CommunicatorConfig());
  REQUIRE(comms.ok());
  const sparsecollParams_t params = preset("auto", 0.01);
  const auto specOf = [&] { return readAutoSpec(kLength, sparsecollFloat32, &params, nullptr, true); };
  for (const bool onAll : {true, false}) {  // another one, or none
    CAPTURE(onAll);
    std::vector<Result<std::optional<AutoSpec>>> specs;
    {
      const TunerFileInPlace file(lineOf(kLength, "0.01", {1, 2, 3, 4}));
      specs.push_back(specOf());
    }
    {
      const TunerFileInPlace file(lineOf(kLength, "0.01", {1, 2, 3, 5}));
      specs.push_back(specOf());
      if (!onAll) (void)unsetenv(kVariable);
      specs.push_back(specOf());
    }
    std::vector<Failure> failures(kRanks);
    RankThreads::ofProcess().run(kRanks, [&](int rank) {
      const auto r = static_cast<size_t>(rank);
      auto made = AutoReducer::make((*comms)[r], "ReducerCreate", **std::move(specs[r]));
      if (!made.ok()) failures[r] = made.takeStatus().failure();
    });
    for (const Failure& failure : failures) {
      CHECK(failure.result == sparsecollMismatch);
      CHECK(failure.field.view() == "tunerFile");
    }
  }
}

TEST_CASE("the file decides where the warm-up of the density ends, and again for another density") {
  const CostsInPlace costs(kSplitWins);
  const TunerFileInPlace file(lineOf(kLength, "0.01", kSpardlAlone) + lineOf(kLength, "0.1", {3, 1, 4, 2}));
  const double densities[] = {0.25};
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.densitySchedule = densities;
  config.densityScheduleCount = 1;
  config.scheduleSteps = 4;
  config.maxDensity = 0.25;
  AutoGroup group(0.01, sparsecollFloat32, &config);
  for (uint64_t step = 0; step < 8; ++step) conservingStep(group, step);
  CHECK(group.plan() == "0 allgather, 4 spardl, ");
  CHECK(group.stats(0).lastUnion >= 30);  // no fewer than topka delivers
  REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerSetDensity(reducer, 0.1); }) ==
          all(kRanks, sparsecollSuccess));
  for (uint64_t step = 8; step < 16; ++step) conservingStep(group, step);
  CHECK(group.plan() == "0 allgather, 4 spardl, 8 split_gather, ");
  REQUIRE(group.each([](int, sparsecollReducer_t reducer) { return sparsecollReducerReset(reducer, nullptr); }) ==
          all(kRanks, sparsecollSuccess));
  group.run(6);
  CHECK(group.plan().starts_with("0 allgather, 4 "));
}
