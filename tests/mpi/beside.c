/* A rank that meets the others by its launcher and uses MPI, too. usage: beside before|after|twice|never meet|refuse
   before: CommInitEnv comes before MPI_Init; after: it comes after; twice: both; never: MPI is not initialised. refuse:
   the launcher is MPI's alone, so CommInitEnv says Unsupported. MPI works all the same. */
#include <mpi.h>
#include <sparsecoll/sparsecoll.h>
#include <stdio.h>
#include <string.h>

static int wrong(const char* what) {
  fprintf(stderr, "%s: %s\n", what, sparsecollGetLastError());
  return 1;
}

static int meet(int refused) {
  float one = 1;
  sparsecollComm_t comm = NULL;
  sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
  int ranks = 0;
  const sparsecollResult_t result = sparsecollCommInitEnv(&comm, SPARSECOLL_HOST, NULL);
  if (refused)
    return result == sparsecollUnsupported && strstr(sparsecollGetLastError(), "is MPI's") != NULL ? 0
                                                                                                   : wrong("refusal");
  if (result != sparsecollSuccess) return wrong("CommInitEnv");
  if (sparsecollPreset("dense", &params) != sparsecollSuccess) return wrong("Preset");
  if (sparsecollAllReduce(&one, &one, 1, sparsecollFloat32, &params, comm, NULL) != sparsecollSuccess)
    return wrong("sum");
  if (sparsecollCommGetInfo(comm, NULL, &ranks, NULL) != sparsecollSuccess) return wrong("CommGetInfo");
  if (sparsecollCommDestroy(comm) != sparsecollSuccess) return wrong("CommDestroy");
  return one == (float)ranks ? 0 : wrong("the sum");
}

int main(int argc, char** argv) {
  const int refused = argc > 2 && strcmp(argv[2], "refuse") == 0;
  int one = 1, sum = 0, ranks = 0, available = 0, failed = 0;
  if (argc < 3) return 2;
  if (sparsecollBackendAvailable(sparsecollBackendHost, sparsecollTransportTcp, &available) != sparsecollSuccess ||
      !available)
    return 77;
  if (strcmp(argv[1], "after") != 0) failed = meet(refused);
  if (strcmp(argv[1], "never") == 0) return failed;
  if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 3;
  if (strcmp(argv[1], "before") != 0) failed |= meet(refused);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed || sum != ranks;
}
