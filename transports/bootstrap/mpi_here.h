// Whether the program uses MPI beside this library, which then has the first claim to what the launcher offers.
#pragma once

namespace sparsecoll::bootstrap {

enum class MpiHere { kAbsent, kLoaded, kInitialised };

// Looks for a library of MPI among those that are loaded, whoever has loaded it. One that is linked in statically and
// exports no names is not seen.
MpiHere mpiHere();

}  // namespace sparsecoll::bootstrap
