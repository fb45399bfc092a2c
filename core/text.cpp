#include "core/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace sparsecoll {

size_t formatInto(char* to, size_t room, fmt::string_view pattern, fmt::format_args args) {
  return std::min(fmt::vformat_to_n(to, room, pattern, args).size, room);
}

// fmt::format, which the library's core only declares.
[[gnu::used]] constexpr std::string (*kFormat)(fmt::string_view, fmt::format_args) = fmt::vformat;

}  // namespace sparsecoll
