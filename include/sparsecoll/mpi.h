/* SPDX-License-Identifier: Apache-2.0 */
/* sparsecoll/mpi.h - a communicator over MPI 3.0 or later: fills in an engine (sparsecollEngine_t) from an MPI_Comm.

   Header only, valid C99 and C++11: whoever includes it links MPI, the library does not. All functions are static.

   Threads. MPI is called on the threads that call this library. MPI_THREAD_FUNNELED is enough where that is the main
   thread, MPI_THREAD_SERIALIZED where it is one at a time beside the program's own MPI calls, MPI_THREAD_MULTIPLE where
   they overlap. CommAbort from a second thread needs SERIALIZED, too. With a device steps call MPI on a thread of the
   library's, one for each communicator: MULTIPLE is needed, else InvalidUsage.
   Between calls of this library nothing moves, and a rank of MPI that fails is seen as a Timeout: MPI does not tell. */
#ifndef SPARSECOLL_MPI_H_
#define SPARSECOLL_MPI_H_

#include <mpi.h>
#include <sparsecoll/sparsecoll.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPARSECOLL_MPI_BLOCK 64

typedef struct sparsecollMpiRequest_ {
  MPI_Request request;
  int peer;    /* of a receive; of anything else -1 */
  int started; /* 0: the request is free */
  struct sparsecollMpiRequest_* next;
} sparsecollMpiRequest_;

typedef struct sparsecollMpiBlock_ {
  sparsecollMpiRequest_ requests[SPARSECOLL_MPI_BLOCK];
  struct sparsecollMpiBlock_* next;
} sparsecollMpiBlock_;

typedef struct {
  MPI_Comm comm; /* a copy of the caller's: no message meets one of the caller's */
  int ranks;
  double releaseSeconds;
  uint64_t *sent, *received, *due; /* messages to and from every rank, and those that were sent to this one */
  sparsecollMpiRequest_* free;
  sparsecollMpiBlock_* blocks;
} sparsecollMpi_;

/* Requests come from a pool, so that a step in the long run allocates nothing. */
static inline sparsecollMpiRequest_* sparsecollMpiTake_(sparsecollMpi_* mpi, int peer) {
  sparsecollMpiRequest_* taken;
  int i;
  if (mpi->free == NULL) {
    sparsecollMpiBlock_* const block = (sparsecollMpiBlock_*)malloc(sizeof(sparsecollMpiBlock_));
    if (block == NULL) return NULL;
    block->next = mpi->blocks;
    mpi->blocks = block;
    for (i = 0; i < SPARSECOLL_MPI_BLOCK; ++i) {
      block->requests[i].started = 0;
      block->requests[i].next = mpi->free;
      mpi->free = &block->requests[i];
    }
  }
  taken = mpi->free;
  mpi->free = taken->next;
  taken->peer = peer;
  taken->started = 1;
  return taken;
}

static inline int sparsecollMpiOver_(void) {
  int finalized = 0;
  (void)MPI_Finalized(&finalized);
  return finalized;
}

static inline int sparsecollMpiStarted_(sparsecollMpi_* mpi, sparsecollMpiRequest_* one, int code, void** request) {
  if (code == MPI_SUCCESS) {
    *request = one;
    return 0;
  }
  one->started = 0;
  one->next = mpi->free;
  mpi->free = one;
  return code;
}

static inline int sparsecollMpiIsend_(void* user, int peer, int tag, const void* data, size_t bytes, void** request) {
  sparsecollMpi_* const mpi = (sparsecollMpi_*)user;
  sparsecollMpiRequest_* const one = sparsecollMpiTake_(mpi, -1);
  int code;
  if (one == NULL) return MPI_ERR_NO_MEM;
  code = MPI_ERR_OTHER;
  if (!sparsecollMpiOver_()) code = MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, mpi->comm, &one->request);
  if (code == MPI_SUCCESS) ++mpi->sent[peer];
  return sparsecollMpiStarted_(mpi, one, code, request);
}

static inline int sparsecollMpiIrecv_(void* user, int peer, int tag, void* data, size_t capacity, void** request) {
  sparsecollMpi_* const mpi = (sparsecollMpi_*)user;
  sparsecollMpiRequest_* const one = sparsecollMpiTake_(mpi, peer);
  if (one == NULL) return MPI_ERR_NO_MEM;
  return sparsecollMpiStarted_(mpi, one, MPI_Irecv(data, (int)capacity, MPI_BYTE, peer, tag, mpi->comm, &one->request),
                               request);
}

/* Half precision MPI does not have. */
static inline int sparsecollMpiIallreduce_(void* user, const void* in, void* out, uint64_t count, int32_t dataType,
                                           int32_t op, void** request) {
  sparsecollMpi_* const mpi = (sparsecollMpi_*)user;
  const MPI_Datatype type = dataType == sparsecollFloat64 ? MPI_DOUBLE : MPI_FLOAT;
  sparsecollMpiRequest_* one;
  if ((dataType != sparsecollFloat32 && dataType != sparsecollFloat64) || op != sparsecollSum || count > INT32_MAX)
    return sparsecollUnsupported;
  one = sparsecollMpiTake_(mpi, -1);
  if (one == NULL) return MPI_ERR_NO_MEM;
  return sparsecollMpiStarted_(
      mpi, one, MPI_Iallreduce(in == out ? MPI_IN_PLACE : in, out, (int)count, type, MPI_SUM, mpi->comm, &one->request),
      request);
}

static inline int sparsecollMpiTest_(void* user, void** request, int* done, size_t* receivedBytes) {
  sparsecollMpi_* const mpi = (sparsecollMpi_*)user;
  sparsecollMpiRequest_* const one = (sparsecollMpiRequest_*)*request;
  MPI_Status status;
  int flag = 0, cancelled = 0, bytes = 0;
  const int code = sparsecollMpiOver_() ? MPI_ERR_OTHER : MPI_Test(&one->request, &flag, &status);
  *done = 0;
  if (code == MPI_SUCCESS && !flag) return 0;
  if (one->peer >= 0 && code == MPI_SUCCESS) {
    (void)MPI_Test_cancelled(&status, &cancelled);
    if (!cancelled) (void)MPI_Get_count(&status, MPI_BYTE, &bytes);
  }
  if (one->peer >= 0 && !cancelled) ++mpi->received[one->peer];
  *receivedBytes = (size_t)bytes;
  *done = 1;
  *request = NULL;
  one->started = 0;
  one->next = mpi->free;
  mpi->free = one;
  return code == MPI_SUCCESS ? 0 : code;
}

/* MPI cancels receives. Sends and sums it ends in its own time, if their peers come. */
static inline int sparsecollMpiCancel_(void* user, void** request) {
  sparsecollMpiRequest_* const one = (sparsecollMpiRequest_*)*request;
  (void)user;
  return one->peer >= 0 && !sparsecollMpiOver_() ? MPI_Cancel(&one->request) : 0;
}

/* Takes in what was sent to this rank and never received: it would meet the receives of a later communicator.
   Collective over the ranks, until the deadline. Returns 1 if nothing is left. */
static inline int sparsecollMpiDrain_(sparsecollMpi_* mpi) {
  const double deadline = MPI_Wtime() + mpi->releaseSeconds;
  MPI_Request request;
  int peer, flag = 0;
  if (MPI_Ialltoall(mpi->sent, 1, MPI_UINT64_T, mpi->due, 1, MPI_UINT64_T, mpi->comm, &request) != MPI_SUCCESS)
    return 0;
  while (!flag) {
    if (MPI_Test(&request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) return 0;
    if (!flag && MPI_Wtime() > deadline) return 0;
  }
  for (peer = 0; peer < mpi->ranks; ++peer)
    while (mpi->received[peer] < mpi->due[peer]) {
      MPI_Status status;
      void* bytes;
      int count = 0, code;
      if (MPI_Iprobe(peer, MPI_ANY_TAG, mpi->comm, &flag, &status) != MPI_SUCCESS) return 0;
      if (!flag && MPI_Wtime() > deadline) return 0;
      if (!flag) continue;
      (void)MPI_Get_count(&status, MPI_BYTE, &count);
      bytes = malloc(count > 0 ? (size_t)count : 1);
      if (bytes == NULL) return 0;
      code = MPI_Recv(bytes, count, MPI_BYTE, peer, status.MPI_TAG, mpi->comm, MPI_STATUS_IGNORE);
      free(bytes);
      if (code != MPI_SUCCESS) return 0;
      ++mpi->received[peer];
    }
  return 1;
}

/* Where a rank does not come, or something is still under way, MPI keeps its copy of the communicator, and this memory.
 */
static inline void sparsecollMpiRelease_(void* user) {
  sparsecollMpi_* const mpi = (sparsecollMpi_*)user;
  sparsecollMpiBlock_* block;
  int i;
  for (block = mpi->blocks; block != NULL; block = block->next)
    for (i = 0; i < SPARSECOLL_MPI_BLOCK; ++i)
      if (block->requests[i].started) return;
  if (!sparsecollMpiOver_() && (!sparsecollMpiDrain_(mpi) || MPI_Comm_free(&mpi->comm) != MPI_SUCCESS)) return;
  while (mpi->blocks != NULL) {
    block = mpi->blocks;
    mpi->blocks = block->next;
    free(block);
  }
  free(mpi->sent);
  free(mpi);
}

/* Makes this rank's communicator over a copy of the caller's MPI_Comm. Collective over it, and so is CommDestroy,
   which waits up to abortTimeoutMs for what is still under way, and again as long for the others to come to theirs;
   it may be called after MPI_Finalize, but then frees less. MPI_Comm_dup makes the copy, without a deadline: it waits
   for all ranks, however long they take. device: as in sparsecollCommInitEngine. Errors: as there; InvalidArgument
   (MPI_COMM_NULL, an intercommunicator); SystemError (MPI); InvalidUsage (MPI is not initialized, or for fewer
   threads than a device needs). */
static inline sparsecollResult_t sparsecollCommInitMpi(sparsecollComm_t* comm, MPI_Comm mpiComm, int device,
                                                       const sparsecollConfig_t* config) {
  sparsecollEngine_t engine = SPARSECOLL_INIT(sparsecollEngine_t);
  sparsecollMpi_* mpi;
  sparsecollResult_t result;
  int rank = 0, initialized = 0, threads = MPI_THREAD_SINGLE, between = 0;
  if (MPI_Initialized(&initialized) != MPI_SUCCESS || !initialized) return sparsecollInvalidUsage;
  if (device != SPARSECOLL_HOST && (MPI_Query_thread(&threads) != MPI_SUCCESS || threads < MPI_THREAD_MULTIPLE))
    return sparsecollInvalidUsage;
  if (mpiComm == MPI_COMM_NULL) return sparsecollInvalidArgument;
  if (MPI_Comm_test_inter(mpiComm, &between) != MPI_SUCCESS) return sparsecollSystemError;
  if (between) return sparsecollInvalidArgument;
  mpi = (sparsecollMpi_*)calloc(1, sizeof(sparsecollMpi_));
  if (mpi == NULL) return sparsecollOutOfMemory;
  mpi->releaseSeconds = 10;
  if (config != NULL && config->structSize >= sizeof(sparsecollConfig_t) && config->abortTimeoutMs != 0)
    mpi->releaseSeconds = (double)config->abortTimeoutMs / 1000;
  if (MPI_Comm_dup(mpiComm, &mpi->comm) != MPI_SUCCESS) {
    free(mpi);
    return sparsecollSystemError;
  }
  (void)MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
  (void)MPI_Comm_rank(mpi->comm, &rank);
  (void)MPI_Comm_size(mpi->comm, &mpi->ranks);
  mpi->sent = (uint64_t*)calloc(3 * (size_t)mpi->ranks, sizeof(uint64_t));
  if (mpi->sent == NULL) {
    (void)MPI_Comm_free(&mpi->comm);
    free(mpi);
    return sparsecollOutOfMemory;
  }
  mpi->received = mpi->sent + mpi->ranks;
  mpi->due = mpi->received + mpi->ranks;
  engine.user = mpi;
  engine.isend = sparsecollMpiIsend_;
  engine.irecv = sparsecollMpiIrecv_;
  engine.test = sparsecollMpiTest_;
  engine.cancel = sparsecollMpiCancel_;
  engine.iallreduce = sparsecollMpiIallreduce_;
  engine.release = sparsecollMpiRelease_;
  result = sparsecollCommInitEngine(comm, mpi->ranks, rank, device, &engine, config);
  if (result != sparsecollSuccess) sparsecollMpiRelease_(mpi);
  return result;
}

#ifdef __cplusplus
}
#endif

#endif /* SPARSECOLL_MPI_H_ */
