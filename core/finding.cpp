#include "core/finding.h"

#include "core/status.h"

namespace sparsecoll {

namespace {

struct Row {
  Found what;
  const char* field;  // of a mismatch
  const char* text;   // {0}: value, {1}: limit
};

constexpr Row kRows[] = {
    {Found::kSequence, "sequence", "the ranks are at different operations of the communicator"},
    {Found::kPlan, "order", "the ranks called different operations, or one reducer with different densities"},
    {Found::kFlags, "", "a frame's header is not sound"},
    {Found::kCount, "", "{0} entries where there is room for {1}"},
    {Found::kCountsDiffer, "", "frame has {0} values for {1} indices"},
    {Found::kIndex, "", "index {0} in a vector of {1} elements"},
    {Found::kOrder, "", "entry {0} is not above the one before it"},
    {Found::kParts, "", "{0} entries are not {1} lists of equal length"},
    {Found::kOwners, "", "{0} entries where an owner may have {1}"},
    {Found::kOutput, "", "the union has {0} entries, the output {1} slots"},
    {Found::kShares, "share", "the ranks' teams give different shares"},
    {Found::kNonFinite, "", "some rank's gradient or residual had NaN or Inf in operation {0}"},
    {Found::kWindow, "", "window {0} came to have {1} elements, which its plan had ruled out"},
    {Found::kEnded, "", "a rank aborted or destroyed its communicator"},
};

}  // namespace

Status statusOf(const Finding& finding) {
  if (finding.result == 0) return {};
  Failure failure;
  failure.result = static_cast<sparsecollResult_t>(finding.result);
  failure.peer = finding.peer;
  for (const Row& row : kRows) {
    if (static_cast<uint32_t>(row.what) != finding.what) continue;
    failure.field = row.field;
    failure.text = Text<256>::format(fmt::runtime(row.text), finding.value, finding.limit);
  }
  return Status(failure);
}

}  // namespace sparsecoll
