// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace examples {

/// Counts words and numbers them: the most frequent first, of equally frequent ones the one met first.
class Vocabulary {
 public:
  /// The id of a word while counting: in the order of the first meetings.
  int32_t count(std::string_view word);

  /// Ends counting. Fixed words take the first ids whether or not they were counted; all others follow by frequency,
  /// until there are limit words in all (0: no limit). Returns the new id of each counting id; -1 for a word left out.
  std::vector<int32_t> freeze(const std::vector<std::string>& fixed, size_t limit);

  /// After freeze: the id, or -1.
  int32_t find(std::string_view word) const;
  size_t size() const { return words_.size(); }
  const std::string& word(size_t id) const { return words_[id]; }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::vector<std::string> words_;
  std::vector<uint64_t> counts_;
};

}  // namespace examples
