// The launcher by PMIx, as Open MPI, PRRTE and Slurm offer it. libpmix is found when it is first asked for.
//
// It counts who has begun and who has ended, so a program may use it beside MPI, which has to use the same copy.
// Launchers take a process for crashed that begins and does not end, and libpmix cannot begin again where everybody has
// ended: so the talk ends as soon as the word is known, but where MPI is loaded and may yet begin, when the process
// ends.
//
// Its calls block, some without a deadline: a thread makes them, which a rank that has waited long enough leaves
// behind.
#pragma once

#include <memory>

#include "transports/bootstrap/launcher.h"

namespace sparsecoll::bootstrap {

// file: of the library; nullptr: the system's. Errors: Unsupported (not there, not whole, or MPI uses another copy).
Result<std::unique_ptr<Launcher>> pmixLauncher(const char* file);

}  // namespace sparsecoll::bootstrap
