// SPDX-License-Identifier: Apache-2.0
// From the probabilities that CTC trains to text, and how far that is from the transcript.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "examples/speech/alphabet.h"

namespace examples {

/// Logarithms of probabilities: a row for each step, in it one for each label, the blank first.
struct LabelScores {
  const float* values;
  size_t steps;
  size_t labels;

  const float* row(size_t step) const { return values + step * labels; }
};

/// The likeliest label of each step; repeats are one label, blanks none.
std::vector<Label> decodeGreedy(const LabelScores& scores);

/// The likeliest text over all ways to spell it, by prefix beam search (Hannun et al. 2014) without a language model.
/// width: prefixes that are kept after each step. A label whose logarithm is below floor does not lengthen a prefix in
/// that step. With a width that no step fills and no floor it is the exact maximum.
std::vector<Label> decodeBeam(const LabelScores& scores, size_t width, float floor);

/// Fewest insertions, deletions and replacements that make one text of the other.
size_t wrongCharacters(std::string_view text, std::string_view reference);
size_t wrongWords(std::string_view text, std::string_view reference);
size_t countWords(std::string_view text);

}  // namespace examples
