#include <algorithm>
#include <cmath>

#include "selectors/rules.h"
#include "selectors/sampled_threshold.h"

namespace sparsecoll {

namespace {

constexpr double kLeastCorrection = 1.0 / 64;
constexpr double kMostCorrection = 64;

SC_BOTH void correctShare(Control& control) {
  ClosedLoop& state = control.selector.as<ClosedLoop>();
  state.foundNone = control.k != 0 && control.windows[0].found == 0 ? 1 : 0;
  if (control.k == 0) return;
  const Window& window = control.windows[0];
  const auto wanted = static_cast<double>(control.k);
  const auto found = static_cast<double>(std::max<uint64_t>(std::max(window.kept, window.found), 1));
  const double factor = std::sqrt(clamped(wanted / found, 0.5, 2.0));
  state.correction = clamped(detail::correctionOf(control) * factor, kLeastCorrection, kMostCorrection);
}

}  // namespace

constinit const Rule kCorrectShare = ruleOf<correctShare>("correct-share");

}  // namespace sparsecoll
