// Numbers as people write them.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace bench {

// Nothing unless all of the text is one finite number that the type can hold: no sign for unsigned ones, no blanks.
template <class Number>
requires std::integral<Number> || std::floating_point<Number> std::optional<Number> numberIn(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::floating_point<Number>)
    if (!std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace bench
