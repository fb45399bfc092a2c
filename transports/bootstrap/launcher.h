// What launchers do for the ranks of their job besides starting them: they hand a word of rank 0's on to all. PMI-1
// (pmi.h) and PMIx (pmix.h) are two ways to ask for it.
#pragma once

#include <string>
#include <string_view>

#include "core/status.h"
#include "core/wait.h"

namespace sparsecoll::bootstrap {

class Launcher {
 public:
  virtual ~Launcher() = default;

  // Collective over the job's ranks, until it has once succeeded: rank 0's word. After a Timeout the next call goes on
  // where this one stopped, with the word that was given first. A word has neither blanks nor '='.
  // Errors: Unsupported (the launcher is not reached at all, no other rank has heard of this one), Timeout, SystemError
  // (the launcher is gone, refuses, or counts ranks in another way), OutOfMemory.
  virtual Result<std::string> spread(std::string_view word, int rank, const Deadline& deadline) = 0;
};

}  // namespace sparsecoll::bootstrap
