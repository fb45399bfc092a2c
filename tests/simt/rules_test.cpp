// Every rule of every method leaves the same control block on the host and on a device, in the steps of reducers.
#include <algorithm>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "tests/oracle/scenario.h"
#include "tests/simt/checked_rule.h"
#include "tests/simt/simt.h"
#include "tests/support/catch.h"

namespace sparsecoll::test {
namespace {

struct Record {
  RuleCheck rule;
  uint64_t runs = 0;
  uint64_t differences = 0;
};

// Ranks are threads of their own.
struct Records {
  std::mutex mutex;
  std::map<void (*)(Control&), Record> byRule;

  static Records& all() {
    static Records instance;
    return instance;
  }
};

// The control block and the tables behind it.
class Memory {
 public:
  explicit Memory(Control& control)
      : all_(reinterpret_cast<std::byte*>(&control), std::max<uint64_t>(control.bytes, sizeof control)) {}

  std::vector<std::byte> bytes() const { return {all_.begin(), all_.end()}; }
  void put(const std::vector<std::byte>& bytes) { std::copy(bytes.begin(), bytes.end(), all_.begin()); }

 private:
  std::span<std::byte> all_;
};

}  // namespace

bool announce(const RuleCheck& rule) {
  Records::all().byRule[rule.onHost].rule = rule;
  return true;
}

void applyBoth(const RuleCheck& rule, Control& control) {
  Memory memory(control);
  const std::vector<std::byte> before = memory.bytes();
  rule.onHost(control);
  const std::vector<std::byte> expected = memory.bytes();
  memory.put(before);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(rule.threads);
  const bool launched = cudaLaunchKernelEx(&config, rule.onDevice, &control) == cudaSuccess;
  const bool same = launched && memory.bytes() == expected;
  memory.put(expected);
  Records& records = Records::all();
  const std::scoped_lock lock(records.mutex);
  Record& record = records.byRule[rule.onHost];
  ++record.runs;
  if (!same) ++record.differences;
}

namespace {

// What the scenarios leave out: every estimator as it was published, and segments for the methods that see them.
std::vector<Scenario> moreScenarios() {
  std::vector<Scenario> list;
  for (const char* const preset : {"sage", "sidco-e", "sidco-gp", "sidco-p", "gaussiank", "redsync", "dgc",
                                   "spardl-bsag", "exdyna", "micro", "deft", "oktopk"})
    for (const bool faithful : {false, true}) {
      list.push_back({preset, preset, faithful, 4, sparsecollFloat32, 50021, 0.02, 0, 12});
      list.push_back({preset, preset, faithful, 4, sparsecollFloat64, 9001, 0.3, 0, 8, true});
    }
  list.push_back({"gaussiank", "gaussiank", 2, 4, sparsecollFloat32, 50021, 0.02, 0, 12});
  return list;
}

TEST_CASE("rules leave the same control blocks on the host and on a device") {
  std::vector<Scenario> list = scenarios();
  for (const Scenario& scenario : moreScenarios()) list.push_back(scenario);
  for (const Scenario& scenario : list) {
    CAPTURE(scenario.name, scenario.faithful);
    CHECK(runScenario(scenario).ran);
  }
  CHECK(Records::all().byRule.size() >= 40);
  for (const auto& [onHost, record] : Records::all().byRule) {
    CAPTURE(record.rule.file, record.rule.name);
    CHECK(record.runs > 0);
    CHECK(record.differences == 0);
  }
  for (const simt::Error& error : simt::errors()) FAIL_CHECK(error.message);
}

}  // namespace
}  // namespace sparsecoll::test
