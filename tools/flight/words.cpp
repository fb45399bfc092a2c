#include "tools/flight/words.h"

#include <algorithm>
#include <cstdio>

namespace flight {

std::string ranksText(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (first != 0) text += ", ";
    text += std::to_string(ranks[first]);
    if (last != first) text += (last == first + 1 ? ", " : "-") + std::to_string(ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string numberText(uint64_t number) {
  constexpr uint64_t kMega = 1000000, kKilo = 1000;
  if (number >= kMega && number % kMega == 0) return std::to_string(number / kMega) + "M";
  if (number >= kKilo && number % kKilo == 0) return std::to_string(number / kKilo) + "k";
  return std::to_string(number);
}

std::string durationText(int64_t ns) {
  const double ms = static_cast<double>(std::max<int64_t>(ns, 0)) * 1e-6;
  char text[32];
  if (ms < 1000)
    std::snprintf(text, sizeof text, "%.0f ms", ms);
  else
    std::snprintf(text, sizeof text, "%.1f s", ms * 1e-3);
  return text;
}

std::string operationText(const Entry& entry) {
  const bool ofReducer = entry.call == "ReducerRun" || entry.call == "ReducerRunSparse";
  std::string text = entry.call;
  if (ofReducer)
    text += " of the reducer with tag " + std::to_string(entry.tag);
  else if (entry.tag != 0)
    text += " with tag " + std::to_string(entry.tag);
  std::string inside;
  const auto add = [&](const std::string& part) { inside += (inside.empty() ? "" : ", ") + part; };
  if (!entry.preset.empty())
    add("preset " + entry.preset);
  else if (!entry.collective.empty())
    add((entry.selector.empty() ? "" : entry.selector + " and ") + entry.collective);
  if (entry.n != 0) add("n " + numberText(entry.n));
  if (entry.k != 0 && entry.k != entry.n) add("k " + numberText(entry.k));
  return inside.empty() ? text : text + " (" + inside + ")";
}

}  // namespace flight
