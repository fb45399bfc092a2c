// sparsecoll/mpi.h as C++11.
#include <sparsecoll/mpi.h>

sparsecollResult_t makeInCxx(sparsecollComm_t* comm);
sparsecollResult_t makeInCxx(sparsecollComm_t* comm) {
  return sparsecollCommInitMpi(comm, MPI_COMM_WORLD, SPARSECOLL_HOST, nullptr);
}
