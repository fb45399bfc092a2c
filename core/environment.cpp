#include "core/environment.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace sparsecoll {

const char* environmentText(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr && *text != '\0' ? text : nullptr;
}

Result<uint64_t> environmentNumber(const char* variable, uint64_t otherwise, const Allowed& allowed) {
  const char* const given = environmentText(variable);
  if (given == nullptr) return otherwise;
  const std::string_view text = given;
  const char* const end = text.data() + text.size();
  uint64_t number = 0;
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || parsed != end || number < allowed.least || number > allowed.most)
    return invalid("{} is '{}': it takes {} from {} to {}", variable, text, allowed.what, allowed.least, allowed.most);
  return number;
}

}  // namespace sparsecoll
