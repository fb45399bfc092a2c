// SPDX-License-Identifier: Apache-2.0
#include "examples/speech/alphabet.h"

#include <stdexcept>

namespace examples {

namespace {

constexpr std::string_view kCharacters = "abcdefghijklmnopqrstuvwxyz' ";
static_assert(kCharacters.size() + 1 == kLabels);

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool isSpace(char c) { return std::string_view(" \t\r\n\v\f").find(c) != std::string_view::npos; }

}  // namespace

std::string cleanTranscript(std::string_view text) {
  std::string clean;
  bool gap = false;
  for (const char c : text) {
    if (isSpace(c)) {
      gap = true;
      continue;
    }
    if (kCharacters.find(lower(c)) == kCharacters.npos)
      throw std::runtime_error(std::string("'") + c + "' is none of a to z, apostrophe and space");
    if (gap && !clean.empty()) clean += ' ';
    gap = false;
    clean += lower(c);
  }
  if (clean.empty()) throw std::runtime_error("no words");
  return clean;
}

std::vector<Label> spell(std::string_view text) {
  std::vector<Label> labels;
  for (const char c : text) labels.push_back(static_cast<Label>(1 + kCharacters.find(c)));
  return labels;
}

std::string spelled(const std::vector<Label>& labels) {
  std::string text;
  for (const Label label : labels)
    if (label != kBlank) text += kCharacters.at(label - size_t{1});
  return text;
}

size_t stepsToSpell(const std::vector<Label>& labels) {
  size_t steps = labels.size();
  for (size_t i = 1; i < labels.size(); ++i) steps += labels[i] == labels[i - 1] ? 1 : 0;
  return steps;
}

}  // namespace examples
