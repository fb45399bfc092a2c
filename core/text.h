// Text of limited length that needs no memory: what a failure says must not itself fail. What does not fit is cut off.
#pragma once

#include "core/portable.h"

#if SC_FORMATS
#include <fmt/format.h>
#endif

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace sparsecoll {

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
    const size_t room = kSize - 1 - length_;
    const auto end = fmt::format_to_n(bytes_ + length_, room, pattern, std::forward<Args>(args)...);
    length_ += std::min(end.size, room);
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
struct fmt::formatter<sparsecoll::Text<kSize>> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const sparsecoll::Text<kSize>& text, Context& context) const {
    return fmt::formatter<std::string_view>::format(text.view(), context);
  }
};
#endif
