/* The smallest libsparsecoll program: four ranks, one thread each, sum their gradients and send 1 % of the entries.
   cc hello.c $(pkg-config --cflags --libs sparsecoll) -lpthread */
#include <pthread.h>
#include <sparsecoll/sparsecoll.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRanks = 4, kLength = 100000 };

#define CHECK(call)                                                        \
  do {                                                                     \
    if ((call) != sparsecollSuccess) {                                     \
      fprintf(stderr, "%s\n", sparsecollGetLastError());                   \
      exit(1);                                                             \
    }                                                                      \
  } while (0)

static void* train(void* arg) {
  sparsecollComm_t comm = arg;
  sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
  sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
  sparsecollReducer_t reducer;
  float* gradient = malloc(kLength * sizeof *gradient);
  int rank, step, i;

  CHECK(sparsecollCommGetInfo(comm, &rank, NULL, NULL));
  CHECK(sparsecollPreset("topka", &params));
  params.density = 0.01;
  params.op = sparsecollAvg;
  CHECK(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, NULL, comm));
  for (step = 0; step < 10; ++step) {
    for (i = 0; i < kLength; ++i) gradient[i] = (float)((i * 37 + rank * 11 + step) % 1000) / 1000;
    CHECK(sparsecollReducerRun(reducer, gradient, gradient, NULL)); /* in place; what was not sent is kept for later */
  }
  CHECK(sparsecollReducerGetStats(reducer, &stats));
  if (rank == 0)
    printf("%llu of %d entries sent per step, %llu bytes instead of %llu\n", (unsigned long long)stats.lastSelected,
           kLength, (unsigned long long)stats.lastBytesSent, (unsigned long long)(stats.bytesDense / 10));
  CHECK(sparsecollReducerDestroy(reducer));
  free(gradient);
  return NULL;
}

int main(void) {
  sparsecollComm_t comms[kRanks];
  pthread_t threads[kRanks];
  int r;
  CHECK(sparsecollCommInitAll(comms, kRanks, NULL, NULL));
  for (r = 0; r < kRanks; ++r) pthread_create(&threads[r], NULL, train, comms[r]);
  for (r = 0; r < kRanks; ++r) pthread_join(threads[r], NULL);
  for (r = 0; r < kRanks; ++r) CHECK(sparsecollCommDestroy(comms[r]));
  return 0;
}
