/* sparsecoll/mpi.h as C99. */
#include <sparsecoll/mpi.h>

sparsecollResult_t makeInC(sparsecollComm_t* comm);
sparsecollResult_t makeInC(sparsecollComm_t* comm) {
  return sparsecollCommInitMpi(comm, MPI_COMM_WORLD, SPARSECOLL_HOST, NULL);
}
