#include "core/log.h"

#include <cstdio>
#include <string_view>

#include "core/environment.h"

namespace sparsecoll {

namespace {

constexpr const char* kLevels[] = {"off", "error", "warn", "info", "trace"};

int levelFromEnvironment() {
  const char* const wanted = environmentText(variable::kLog);
  if (wanted == nullptr) return 0;
  for (int level = sparsecollLogError; level <= sparsecollLogTrace; ++level)
    if (std::string_view(wanted) == kLevels[level]) return level;
  return sparsecollLogWarn;
}

}  // namespace

Logger::Logger(std::string name, sparsecollLogFn_t function, void* user)
    : name_(std::move(name)), function_(function), user_(user) {
  level_ = function != nullptr ? sparsecollLogTrace : levelFromEnvironment();
}

void Logger::deliver(sparsecollLogLevel_t level, const char* subsystem, const Line& text) const {
  const auto line = Line::format("{} {}", name_, text);
  if (function_ != nullptr) {
    function_(user_, level, subsystem, line.c_str());
    return;
  }
  std::fprintf(stderr, "sparsecoll %s %s %s\n", kLevels[level], subsystem, line.c_str());
}

}  // namespace sparsecoll
