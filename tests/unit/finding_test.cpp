// What findings of list rules and devices say once the host has made failures of them.
#include "core/finding.h"

#include "core/status.h"
#include "tests/support/catch.h"

#include <set>
#include <string>

namespace sparsecoll {
namespace {

struct Row {
  Found what;
  std::string field;
  std::string text;  // of value 12 and limit 5
};
const Row kRows[] = {
    {Found::kSequence, "sequence", "the ranks are at different operations of the communicator"},
    {Found::kPlan, "order", "the ranks called different operations, or one reducer with different densities"},
    {Found::kFlags, "", "a frame's header is not sound"},
    {Found::kCount, "", "12 entries where there is room for 5"},
    {Found::kCountsDiffer, "", "frame has 12 values for 5 indices"},
    {Found::kIndex, "", "index 12 in a vector of 5 elements"},
    {Found::kOrder, "", "entry 12 is not above the one before it"},
    {Found::kParts, "", "12 entries are not 5 lists of equal length"},
    {Found::kOwners, "", "12 entries where an owner may have 5"},
    {Found::kOutput, "", "the union has 12 entries, the output 5 slots"},
    {Found::kShares, "share", "the ranks' teams give different shares"},
    {Found::kNonFinite, "", "some rank's gradient or residual had NaN or Inf in operation 12"},
    {Found::kWindow, "", "window 12 came to have 5 elements, which its plan had ruled out"},
    {Found::kEnded, "", "a rank aborted or destroyed its communicator"},
};

}  // namespace

TEST_CASE("each finding has its result, its rank, its field and a text with its numbers") {
  std::set<uint32_t> seen;
  for (const Row& row : kRows) {
    const auto what = static_cast<uint32_t>(row.what);
    const Status status = statusOf({sparsecollCorrupted, 3, what, 12, 5});
    CHECK(status.result() == sparsecollCorrupted);
    CHECK(status.failure().peer == 3);
    CHECK(std::string(status.failure().field.c_str()) == row.field);
    CHECK(std::string(status.failure().text.c_str()) == row.text);
    seen.insert(what);
  }
  for (auto what = static_cast<uint32_t>(Found::kSequence); what <= static_cast<uint32_t>(Found::kEnded); ++what)
    CHECK(seen.contains(what));
}

TEST_CASE("no finding is no failure") { CHECK(statusOf({0, -1, static_cast<uint32_t>(Found::kCount), 12, 5}).ok()); }

}  // namespace sparsecoll
