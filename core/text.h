// Text of limited length that needs no memory: what a failure says must not itself fail. What does not fit is cut off.
#pragma once

#include "core/portable.h"

#if SC_FORMATS
#include <fmt/core.h>
#endif

#include <cstddef>
#include <string_view>
#include <utility>

namespace sparsecoll {

#if SC_FORMATS
// Writes up to `room` characters and returns how many that were. In text.cpp, the one file that includes all of the
// formatting library: whoever includes its core alone compiles in a tenth of the time.
size_t formatInto(char* to, size_t room, fmt::string_view pattern, fmt::format_args args);
#endif

template <size_t kSize>
class Text {
 public:
  Text() = default;
  Text(const char* text) { add(text); }
  Text(std::string_view text) { add(text); }

#if SC_FORMATS
  template <class... Args>
  static Text format(fmt::format_string<Args...> pattern, Args&&... args) {
    Text text;
    text.append(pattern, std::forward<Args>(args)...);
    return text;
  }

  template <class... Args>
  void append(fmt::format_string<Args...> pattern, Args&&... args) {
    length_ += formatInto(bytes_ + length_, kSize - 1 - length_, pattern, fmt::make_format_args(args...));
    bytes_[length_] = 0;
  }
#endif

  bool empty() const { return length_ == 0; }
  const char* c_str() const { return bytes_; }
  std::string_view view() const { return {bytes_, length_}; }
  friend bool operator==(const Text& a, std::string_view b) { return a.view() == b; }

 private:
  void add(std::string_view text) { length_ = text.copy(bytes_, kSize - 1); }

  size_t length_ = 0;
  char bytes_[kSize] = {};
};

}  // namespace sparsecoll

#if SC_FORMATS
template <size_t kSize>
struct fmt::formatter<sparsecoll::Text<kSize>> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const sparsecoll::Text<kSize>& text, Context& context) const {
    auto out = context.out();
    for (const char letter : text.view()) *out++ = letter;
    return out;
  }
};
#endif
