// fmt::print, for programs that include no more than the core of the formatting library (core/text.cpp).
#include <fmt/format.h>

namespace bench {

[[gnu::used]] constexpr void (*kPrint)(fmt::string_view, fmt::format_args) = fmt::vprint;
[[gnu::used]] constexpr void (*kPrintTo)(std::FILE*, fmt::string_view, fmt::format_args) = fmt::vprint;

}  // namespace bench
