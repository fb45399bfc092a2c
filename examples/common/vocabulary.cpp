// SPDX-License-Identifier: Apache-2.0
#include "examples/common/vocabulary.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace examples {

int32_t Vocabulary::count(std::string_view word) {
  auto found = ids_.find(word);
  if (found == ids_.end()) {
    found = ids_.emplace(word, static_cast<int32_t>(words_.size())).first;
    words_.emplace_back(word);
    counts_.push_back(0);
  }
  ++counts_[static_cast<size_t>(found->second)];
  return found->second;
}

std::vector<int32_t> Vocabulary::freeze(const std::vector<std::string>& fixed, size_t limit) {
  std::vector<size_t> order(words_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](size_t a, size_t b) { return counts_[a] > counts_[b]; });

  std::vector<std::string> kept = fixed;
  std::vector<int32_t> newId(words_.size(), -1);
  for (size_t i = 0; i < fixed.size(); ++i) {
    const auto found = ids_.find(fixed[i]);
    if (found != ids_.end()) newId[static_cast<size_t>(found->second)] = static_cast<int32_t>(i);
  }
  for (const size_t old : order) {
    if (newId[old] >= 0) continue;
    if (limit != 0 && kept.size() >= limit) break;
    newId[old] = static_cast<int32_t>(kept.size());
    kept.push_back(words_[old]);
  }
  words_ = std::move(kept);
  ids_.clear();
  for (size_t i = 0; i < words_.size(); ++i) ids_.emplace(words_[i], static_cast<int32_t>(i));
  return newId;
}

int32_t Vocabulary::find(std::string_view word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? -1 : found->second;
}

}  // namespace examples
