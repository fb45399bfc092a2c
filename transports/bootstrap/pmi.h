// The launcher by PMI-1, as MPICH's hydra, its relatives and Flux speak it: lines over a socket that each rank has
// inherited, whose number is in PMI_FD. It needs no library.
//
// A rank can end this talk once only, and has to, else hydra takes its end for a crash and kills the job. So it is
// ended as soon as the word is known. Neither a second program that the rank runs nor MPI can begin it again: where MPI
// is in the process, the socket is left to it.
#pragma once

#include <memory>

#include "transports/bootstrap/launcher.h"

namespace sparsecoll::bootstrap {

// Errors: Unsupported (MPI is here, or the number is no socket that another process has made).
Result<std::unique_ptr<Launcher>> pmiLauncher(int socket);

// The same over any socket.
std::unique_ptr<Launcher> pmiOver(int socket);

}  // namespace sparsecoll::bootstrap
