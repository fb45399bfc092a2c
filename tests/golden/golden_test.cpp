// `faithful` against what the authors' programs did with the same inputs. scripts/golden/record ran those and wrote
// METHOD.txt; their code is no part of this project. `make golden` prints the comparison as a table.
#include "tests/support/catch.h"

#include <cmath>
#include <cstdio>
#include <span>
#include <string>

#include "bench/common/course.h"
#include "tests/golden/inputs.h"
#include "tests/support/group.h"

namespace sparsecoll::test {
namespace {

// A program of which every step is known: the same places in the sum and the same bits in every residual.
struct Program {
  const char* record;
  const char* preset;
  sparsecollColl_t collective = sparsecollCollAuto;  // where the program exchanges in another way than the preset
  int32_t rule = 1;                                  // params.faithful
  int32_t teams = 0;                                 // SparDL's
  double threshold = 0;                              // the first one, where its user gives it
  double thresholdsWithin = 1e-12;                   // relative; the programs have some as floats
  bool smallTensorsDense = false;                    // those of at most 32 elements
  uint64_t otherResiduals = 0;                       // steps in which they have other bits at the same places
};
constexpr Program kExact[] = {
    {.record = "topk", .preset = "topka", .collective = sparsecollCollIndexUnion},
    {.record = "cltk", .preset = "cltk"},
    {.record = "micro", .preset = "micro"},
    {.record = "exdyna", .preset = "exdyna"},
    {.record = "deft", .preset = "deft"},
    {.record = "threshold", .preset = "threshold"},
    {.record = "gtopk", .preset = "gtopk"},
    {.record = "spardl", .preset = "spardl"},
    {.record = "dgc", .preset = "dgc", .smallTensorsDense = true},
    {.record = "sidco-e", .preset = "sidco-e"},
    {.record = "sidco-gp", .preset = "sidco-gp"},
    {.record = "sidco-p", .preset = "sidco-p"},
    {.record = "redsync", .preset = "redsync"},
    {.record = "gaussiank", .preset = "gaussiank"},
    {.record = "gaussiank-oktopk", .preset = "gaussiank", .rule = 2},
    {.record = "sage-exdyna", .preset = "sage", .thresholdsWithin = 1e-5},
    {.record = "sage",
     .preset = "sage",
     .collective = sparsecollCollAllGather,
     .rule = 2,
     .threshold = 0.5,
     .thresholdsWithin = 1e-5},
    {.record = "oktopk", .preset = "oktopk"},
    {.record = "spardl-bsag", .preset = "spardl-bsag", .teams = 2, .otherResiduals = 8},
};

// Draws that cannot be repeated: what can be held to is how many entries are sent. Both sides go on from their own
// residuals.
constexpr Program kCounted[] = {
    {.record = "randomk", .preset = "randomk"},
};

struct Comparison {
  uint64_t steps = 0;
  uint64_t samePlaces = 0;
  uint64_t sameResiduals = 0;   // on all ranks
  uint64_t sameThresholds = 0;  // where the program has none they count as the same
  uint64_t theirs = 0;          // entries of all sums
  uint64_t ours = 0;
  uint64_t closeSteps = 0;               // counts within a tenth of each other
  bench::Course theirsOverK, oursOverK;  // entries of a sum over those asked for
  bench::Course longest;                 // of the ranks' lists here, over the mean one
};

sparsecollParams_t paramsOf(const Program& program, double density) {
  sparsecollParams_t params = preset(program.preset, density);
  if (program.collective != sparsecollCollAuto) params.collective = program.collective;
  params.faithful = program.rule;
  params.momentum = 0;  // what goes in is the gradient
  if (program.teams != 0) params.teams = program.teams;
  if (program.threshold != 0) params.threshold = program.threshold;
  return params;
}

std::vector<float> floatsOf(const Elements& elements) {
  std::vector<float> floats(elements.size());
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(elements[i]);
  return floats;
}

bool sameResiduals(const Group& group, const GoldenStep& theirs) {
  for (int rank = 0; rank < group.count(); ++rank)
    if (fingerprint(floatsOf(group.residual(rank))) != theirs.residuals[static_cast<size_t>(rank)]) return false;
  return true;
}

std::vector<double> thresholdsOf(const Group& group) {
  std::vector<double> thresholds;
  for (int rank = 0; rank < group.count(); ++rank) thresholds.push_back(group.stats(rank).lastThreshold);
  return thresholds;
}

// What they do not tell counts as the same.
bool sameThresholds(const std::vector<double>& ours, const std::vector<double>& theirs, double within) {
  for (size_t rank = 0; rank < ours.size(); ++rank)
    if (!std::isnan(theirs[rank]) && ours[rank] != Approx(theirs[rank]).epsilon(within))
      return false;
  return true;
}

void compare(const Program& program, const Group& group, const std::vector<double>& thresholds,
             const GoldenStep& theirs, Comparison& comparison) {
  std::vector<float> places = floatsOf(group.outs[0]);
  uint64_t entries = 0;
  for (float& place : places) {
    entries += place != 0 ? 1 : 0;
    place = place != 0 ? 1.0F : 0.0F;
  }
  comparison.steps += 1;
  comparison.samePlaces += fingerprint(places) == theirs.places ? 1 : 0;
  comparison.sameResiduals += sameResiduals(group, theirs) ? 1 : 0;
  comparison.sameThresholds += sameThresholds(thresholds, theirs.thresholds, program.thresholdsWithin) ? 1 : 0;
  comparison.theirs += theirs.entries;
  comparison.ours += entries;
  const double apart = std::abs(static_cast<double>(entries) - static_cast<double>(theirs.entries));
  comparison.closeSteps += apart <= 0.1 * static_cast<double>(theirs.entries) ? 1 : 0;
  const auto k = static_cast<double>(group.info().k);
  comparison.theirsOverK.add(static_cast<double>(theirs.entries) / k);
  comparison.oursOverK.add(static_cast<double>(entries) / k);
  comparison.longest.add(group.stats(0).lastImbalance);
}

// Adds the steps of the run to the comparison; nothing if the reducer cannot be made or a step fails.
void replay(const Program& program, const GoldenRun& run, Comparison& comparison) {
  std::vector<sparsecollSegment_t> segments;
  uint64_t n = 0;
  for (const uint64_t length : goldenTensors(run)) {
    segments.push_back({length, 0, program.smallTensorsDense && length <= 32 ? 1 : 0, 0});
    n += length;
  }
  sparsecollReducerConfig_t config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  config.segments = segments.data();
  config.segmentCount = segments.size();
  Group group(run.ranks, n, sparsecollFloat32, paramsOf(program, run.density), &config);
  if (group.created() != all(run.ranks, sparsecollSuccess)) return;
  for (uint64_t step = 0; step < run.steps.size(); ++step) {
    for (int rank = 0; rank < run.ranks; ++rank) {
      const std::vector<float> gradient = goldenGradient(run, step, rank);
      for (uint64_t i = 0; i < n; ++i)
        group.gradients[static_cast<size_t>(rank)].set(i, static_cast<double>(gradient[i]));
    }
    if (group.step() != all(run.ranks, sparsecollSuccess)) return;
    compare(program, group, thresholdsOf(group), run.steps[step], comparison);
  }
}

Comparison compared(const Program& program, const GoldenRecord& record) {
  Comparison comparison;
  for (const GoldenRun& run : record.runs) replay(program, run, comparison);
  return comparison;
}

uint64_t stepsOf(const GoldenRecord& record) {
  uint64_t steps = 0;
  for (const GoldenRun& run : record.runs) steps += run.steps.size();
  return steps;
}

TEST_CASE("faithful does what the authors' programs do, step by step") {
  for (const Program& program : kExact) {
    CAPTURE(program.record);
    const GoldenRecord record = goldenRecord(program.record);
    const Comparison comparison = compared(program, record);
    CHECK(comparison.steps == stepsOf(record));
    CHECK(comparison.samePlaces == comparison.steps);
    CHECK(comparison.sameResiduals + program.otherResiduals >= comparison.steps);
    CHECK(comparison.sameThresholds == comparison.steps);
  }
}

TEST_CASE("faithful sends as many entries as the authors' programs do") {
  for (const Program& program : kCounted) {
    CAPTURE(program.record);
    const GoldenRecord record = goldenRecord(program.record);
    const Comparison comparison = compared(program, record);
    CHECK(comparison.steps == stepsOf(record));
    CHECK(comparison.closeSteps * 10 >= comparison.steps * 9);
    CHECK(static_cast<double>(comparison.ours) == Approx(static_cast<double>(comparison.theirs)).epsilon(0.03));
  }
}

// Not a test: what `make golden` prints.
void printRows(std::span<const Program> programs) {
  for (const Program& program : programs) {
    const GoldenRecord record = goldenRecord(program.record);
    const Comparison c = compared(program, record);
    const Comparison byDefault = compared({.record = program.record,
                                           .preset = program.preset,
                                           .rule = 0,
                                           .teams = program.teams,
                                           .smallTensorsDense = program.smallTensorsDense},
                                          record);
    std::printf("%-16s %5d %12d %14d %15d %12d %14.4f %18s %18s %8.2f %8.2f\n", program.record,
                static_cast<int>(c.steps), static_cast<int>(c.samePlaces), static_cast<int>(c.sameResiduals),
                static_cast<int>(c.sameThresholds), static_cast<int>(c.closeSteps),
                static_cast<double>(c.ours) / static_cast<double>(c.theirs), c.theirsOverK.text().c_str(),
                byDefault.oursOverK.text().c_str(), c.longest.mean(), byDefault.longest.mean());
  }
}

TEST_CASE("table", "[.table]") {
  std::printf("%-16s %5s %12s %14s %15s %12s %14s %18s %18s %8s %8s\n", "record", "steps", "same places",
              "same residuals", "same thresholds", "counts: 10 %", "all counts", "program / k", "default / k",
              "faithful", "default");
  printRows(kExact);
  printRows(kCounted);
  std::printf(
      "program / k, default / k: entries of a sum over those asked for: mean (least-most) of the steps\n"
      "faithful, default: longest / mean list of a rank, mean of the steps\n");
}

}  // namespace
}  // namespace sparsecoll::test
