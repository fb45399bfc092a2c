// The logger of a communicator. Silent unless the caller gives a function or the environment sets SPARSECOLL_LOG.
#pragma once

#include <string>

#include "core/text.h"
#include "sparsecoll/sparsecoll.h"

namespace sparsecoll {

class Logger {
 public:
  Logger() = default;
  // name: shown in every line. function: nullptr for stderr at the level of SPARSECOLL_LOG (error, warn, info, trace).
  Logger(std::string name, sparsecollLogFn_t function, void* user);

  template <class... Args>
  void write(sparsecollLogLevel_t level, const char* subsystem, fmt::format_string<Args...> text,
             Args&&... args) const {
    if (level <= level_) deliver(level, subsystem, Line::format(text, std::forward<Args>(args)...));
  }

 private:
  using Line = Text<512>;
  void deliver(sparsecollLogLevel_t level, const char* subsystem, const Line& text) const;

  std::string name_;
  sparsecollLogFn_t function_ = nullptr;
  void* user_ = nullptr;
  int level_ = 0;
};

}  // namespace sparsecoll
