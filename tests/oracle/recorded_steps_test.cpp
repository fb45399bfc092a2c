// Every preset over inputs of several shapes, beside a record of what came out: recorded_steps.txt has a line for each
// run. Other tests say whether steps are right. This one says whether they are what they were: what is selected, kept,
// counted, sent, planned and saved, to the bit. A change that is meant is recorded anew, and shows in the commit:
//
//   SPARSECOLL_RECORD=1 build/release/bin/recorded_steps_test
#include "tests/support/catch.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/group.h"
#include "tests/support/hash.h"
#include "tests/support/presets.h"

using namespace sparsecoll::test;

namespace {

constexpr const char* kHead =
    "# run; out, residuals, counters of every step and the saved states as hashes; over all steps and ranks: entries "
    "sent,\n# candidates, exact selections repeated, full messages, rounds, messages, bytes; planned: k, capacity, "
    "workspace, bound\n";

enum class Course { kEven, kGrows, kFalls, kSpikes, kSigns, kCorner };

struct Shape {
  std::string name;
  int ranks;
  sparsecollDataType_t type;
  uint64_t n;
  double density;
  Course course;
  int steps;
};
// What presets select from, each for all ranks at once.
const Shape kPlain[] = {
    {"grows", 4, sparsecollFloat32, 20011, 0.01, Course::kGrows, 8},
    {"falls", 2, sparsecollFloat64, 6007, 0.03, Course::kFalls, 8},
    {"spikes", 3, sparsecollBfloat16, 9001, 0.05, Course::kSpikes, 6},
    {"signs", 5, sparsecollFloat32, 3001, 0.02, Course::kSigns, 5},
    {"corner", 7, sparsecollFloat32, 5003, 0.01, Course::kCorner, 6},
};
const Shape kSmall[] = {
    {"dense", 4, sparsecollFloat16, 1000, 0.6, Course::kEven, 4},
    {"few", 2, sparsecollFloat32, 100, 0.05, Course::kEven, 6},
    {"short", 3, sparsecollFloat32, 7, 0.3, Course::kEven, 4},
};
const Shape kLong = {"long", 2, sparsecollFloat32, 200003, 0.001, Course::kEven, 4};
const Shape kWarmUp = {"warm-up", 3, sparsecollFloat32, 8009, 0.01, Course::kEven, 6};
const Shape kTensors = {"tensors", 4, sparsecollFloat32, 12011, 0.02, Course::kGrows, 5};
const Shape kShares = {"shares", 4, sparsecollFloat32, 12011, 0.02, Course::kGrows, 5};
const Shape kUndone = {"undone", 3, sparsecollFloat32, 4001, 0.02, Course::kEven, 4};
const Shape kShaped = {"shaped", 3, sparsecollFloat32, 5003, 0.02, Course::kEven, 6};
const Shape kNodes = {"nodes", 6, sparsecollFloat32, 9001, 0.02, Course::kGrows, 5};

double elementOf(const Shape& shape, Random& random, uint64_t i, int step) {
  const double x = random.bell();
  switch (shape.course) {
    case Course::kGrows:
      return x * std::ldexp(1.0, step);
    case Course::kFalls:
      return x * std::ldexp(1.0, -step);
    case Course::kSpikes:
      return random.chance(0.1) ? 50 * x * x * x : 0;
    case Course::kSigns:
      return x < 0 ? -1 : 1;
    case Course::kCorner:
      return i < shape.n / 9 ? x : x / 1024;
    case Course::kEven:
      break;
  }
  return x;
}

// By step and rank.
using Inputs = std::vector<std::vector<Elements>>;
Inputs inputsOf(const Shape& shape) {
  Inputs inputs;
  for (int step = 0; step < shape.steps; ++step) {
    std::vector<Elements>& ranks = inputs.emplace_back();
    for (int rank = 0; rank < shape.ranks; ++rank) {
      Random random(shape.n * 4096 + static_cast<uint64_t>(step * 64 + rank));
      Elements& gradient = ranks.emplace_back(shape.type, shape.n);
      for (uint64_t i = 0; i < shape.n; ++i) gradient.set(i, elementOf(shape, random, i, step));
    }
  }
  return inputs;
}

// What goes into a hash one after the other.
class Digest {
 public:
  template <class T>
  void add(const T& value) {
    addBytes(&value, sizeof value);
  }
  void addBytes(const void* data, size_t bytes) { hash_ = hashBytes(data, bytes, hash_); }
  std::string text() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash_));
    return text;
  }

 private:
  uint64_t hash_ = 1;
};

struct Setting {
  sparsecollParams_t params{};
  sparsecollReducerConfig_t reducer = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  sparsecollConfig_t comm = SPARSECOLL_INIT(sparsecollConfig_t);
};

// The line without its name.
std::string lineOf(const Shape& shape, const Inputs& inputs, const Setting& setting) {
  Group group(shape.ranks, shape.n, shape.type, setting.params, &setting.reducer, &setting.comm);
  if (group.created() != all(shape.ranks, sparsecollSuccess))
    return std::string(sparsecollGetErrorString(group.created()[0]));
  Digest outs, residuals, counters, states;
  uint64_t sent = 0, candidates = 0, fallbacks = 0, overflows = 0, rounds = 0, messages = 0, bytes = 0;
  for (const std::vector<Elements>& gradients : inputs) {
    group.gradients = gradients;
    for (const sparsecollResult_t result : group.step()) counters.add(result);
    for (int rank = 0; rank < shape.ranks; ++rank) {
      const Elements& out = group.outs[static_cast<size_t>(rank)];
      outs.addBytes(out.data(), out.byteCount());
      const Elements residual = group.residual(rank);
      residuals.addBytes(residual.data(), residual.byteCount());
      const sparsecollStats_t stats = group.stats(rank);
      for (const uint64_t count :
           {stats.opsCompleted, stats.opsDense, stats.opsNonFinite, stats.opsFallback, stats.opsOverflow,
            stats.bytesDense, stats.bytesSent, stats.bytesReceived, stats.lastRequested, stats.lastSelected,
            stats.lastUnion, stats.lastCandidates, stats.entriesLost, stats.lastRounds, stats.lastMessagesSent,
            stats.bytesSentBetweenNodes, stats.bytesReceivedBetweenNodes})
        counters.add(count);
      for (const double number : {stats.lastThreshold, stats.lastImbalance}) counters.add(number);
      sent += stats.lastSelected;
      candidates += stats.lastCandidates;
      rounds += stats.lastRounds;
      messages += stats.lastMessagesSent;
    }
  }
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const Blob blob = exported(group.reducer(rank));
    states.addBytes(blob.data(), blob.size());
    const sparsecollStats_t stats = group.stats(rank);
    fallbacks += stats.opsFallback;
    overflows += stats.opsOverflow;
    bytes += stats.bytesSent;
  }
  const sparsecollReducerInfo_t info = group.info();
  std::ostringstream line;
  line << outs.text() << " " << residuals.text() << " " << counters.text() << " " << states.text() << " " << sent << " "
       << candidates << " " << fallbacks << " " << overflows << " " << rounds << " " << messages << " " << bytes << " "
       << info.k << " " << info.capacity << " " << info.workspaceBytes << " " << info.memoryBoundBytes;
  return line.str();
}

using Lines = std::map<std::string, std::string>;

Lines read() {
  Lines lines;
  std::ifstream file(SPARSECOLL_TEST_RECORD);
  for (std::string line; std::getline(file, line);) {
    const size_t end = line.find(' ');
    if (line.starts_with("#") || end == std::string::npos) continue;
    lines[line.substr(0, end)] = line.substr(end + 1);
  }
  return lines;
}

void write(const Lines& lines) {
  std::ofstream file(SPARSECOLL_TEST_RECORD);
  file << kHead;
  for (const auto& [name, line] : lines) file << name << " " << line << "\n";
}

// Every preset by each of its rules. change: what the setting and the inputs have beside the shape.
template <class Change>
Lines linesOf(const Shape& shape, Change change) {
  Lines lines;
  Inputs inputs = inputsOf(shape);
  for (const std::string& name : sparsePresets()) {
    if (name == "auto") continue;  // what it takes depends on the time
    for (const int rule : {0, 1, 2}) {
      if (rule == 2 && name != "gaussiank" && name != "sage") continue;
      Setting setting;
      setting.params = preset(name.c_str(), shape.density);
      setting.params.faithful = rule;
      setting.params.op = sparsecollAvg;
      setting.params.seed = 11;
      change(setting, inputs);
      lines[shape.name + "/" + name + (rule == 0 ? "" : "/" + std::to_string(rule))] = lineOf(shape, inputs, setting);
    }
  }
  return lines;
}

// That of SPARSECOLL_ISA, where it is set: the library reads it once a process.
bool hasInstructionSet() {
  const char* const wanted = std::getenv("SPARSECOLL_ISA");
  const std::string info = sparsecollGetBuildInfo();
  return wanted == nullptr || info.find("\"isa\": \"" + std::string(wanted) + '"') != std::string::npos;
}

template <class Change>
void checkRecord(const Shape& shape, Change change) {
  if (!hasInstructionSet()) {
    const std::string wanted = std::getenv("SPARSECOLL_ISA");
    REQUIRE((wanted == "avx2" || wanted == "avx512"));
    std::printf("skipped: this machine has no %s\n", wanted.c_str());
    std::exit(77);
  }
  const Lines now = linesOf(shape, change);
  Lines before = read();
  if (std::getenv("SPARSECOLL_RECORD") != nullptr) {
    std::erase_if(before, [&](const auto& entry) { return entry.first.starts_with(shape.name + "/"); });
    before.insert(now.begin(), now.end());
    write(before);
  }
  int shown = 0;
  for (const auto& [name, line] : now) {
    const auto found = before.find(name);
    const std::string was = found == before.end() ? "nothing" : found->second;
    if (was == line || ++shown > 5) continue;
    UNSCOPED_INFO(name << "\n  recorded " << was << "\n  now      " << line);
  }
  CHECK(shown == 0);
}

void asItIs(Setting&, Inputs&) {}

}  // namespace

TEST_CASE("steps are as recorded") {
  for (const Shape& shape : kPlain) checkRecord(shape, asItIs);
}

TEST_CASE("steps are as recorded: of short vectors") {
  for (const Shape& shape : kSmall) checkRecord(shape, asItIs);
}

TEST_CASE("steps are as recorded: of long vectors") { checkRecord(kLong, asItIs); }

TEST_CASE("steps are as recorded: with a warm-up") {
  const double densities[] = {0.25, 0.06};
  checkRecord(kWarmUp, [&](Setting& setting, Inputs&) {
    setting.reducer.densitySchedule = densities;
    setting.reducer.densityScheduleCount = 2;
    setting.reducer.scheduleSteps = 2;
  });
}

TEST_CASE("steps are as recorded: with tensors") {
  const sparsecollSegment_t tensors[] = {{5000, 0, 0, 0}, {11, 0, 1, 0}, {4000, 0, 0, 0}, {3000, 0, 0, 0}};
  checkRecord(kTensors, [&](Setting& setting, Inputs&) {
    setting.reducer.segments = tensors;
    setting.reducer.segmentCount = 4;
  });
  const sparsecollSegment_t shares[] = {{5000, 0.01, 0, 0}, {11, 0.5, 0, 0}, {4000, 0.1, 0, 0}, {3000, 0, 0, 0}};
  checkRecord(kShares, [&](Setting& setting, Inputs&) {
    setting.reducer.segments = shares;
    setting.reducer.segmentCount = 4;
  });
}

TEST_CASE("steps are as recorded: where one is undone") {
  checkRecord(kUndone, [](Setting& setting, Inputs& inputs) {
    setting.reducer.transactional = 1;
    inputs[2][1].set(1234, NAN);
  });
}

TEST_CASE("steps are as recorded: with momentum, a clipped norm and a residual that fades") {
  checkRecord(kShaped, [](Setting& setting, Inputs&) {
    setting.params.momentum = 0.7;
    setting.params.flags |= SPARSECOLL_NESTEROV;
    setting.params.clipNorm = 40;
    setting.params.residualDecay = 0.9;
    setting.params.inputScale = 0.3;
    setting.params.outputScale = 3;
  });
}

TEST_CASE("steps are as recorded: over nodes") {
  checkRecord(kNodes, [](Setting& setting, Inputs&) {
    setting.comm.ranksPerNode = 2;
    setting.params.betweenNodes = setting.params.collective;
    setting.params.collective = sparsecollCollHierarchical;
  });
}
