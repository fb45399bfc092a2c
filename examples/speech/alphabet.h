// SPDX-License-Identifier: Apache-2.0
// What speech is spelled in: 28 characters and the blank of CTC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

using Label = uint8_t;

constexpr Label kBlank = 0;  // where LibTorch's CTC loss has it by default
constexpr size_t kLabels = 29;

/// A transcript as models spell it: lower case, one space between words, none at the ends. Errors: std::runtime_error
/// names what is none of a to z, apostrophe and white space, or that there is nothing.
std::string cleanTranscript(std::string_view text);

/// Of a clean transcript.
std::vector<Label> spell(std::string_view text);

/// Blanks spell nothing.
std::string spelled(const std::vector<Label>& labels);

/// The fewest steps that CTC can spell labels in: equal neighbours need a blank between them.
size_t stepsToSpell(const std::vector<Label>& labels);

}  // namespace examples
