/* Four ranks, one thread each, average their gradients. Each sends 1 % of its entries and keeps the rest for later. */
#include <pthread.h>
#include <sparsecoll/sparsecoll.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRanks = 4, kLength = 100000 };

static void check(sparsecollResult_t result) {
  if (result == sparsecollSuccess) return;
  fprintf(stderr, "%s\n", sparsecollGetLastError());
  exit(1);
}

static void* train(void* comm) {
  static float gradients[kRanks][kLength];
  sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
  sparsecollStats_t stats = SPARSECOLL_INIT(sparsecollStats_t);
  sparsecollReducer_t reducer;
  int rank, step, i;

  check(sparsecollCommGetInfo(comm, &rank, NULL, NULL));
  check(sparsecollPreset("topka", &params));
  params.density = 0.01;
  params.op = sparsecollAvg;
  check(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params, NULL, comm));
  for (step = 0; step < 10; ++step) {
    float* gradient = gradients[rank];
    for (i = 0; i < kLength; ++i) gradient[i] = (float)((i * 37 + rank * 11 + step) % 1000) / 1000; /* backward */
    check(sparsecollReducerRun(reducer, gradient, gradient, NULL)); /* in place: now it is the average of all ranks */
  }
  check(sparsecollReducerGetStats(reducer, &stats));
  if (rank == 0)
    printf("%llu of %d entries sent per step, %llu bytes instead of %llu\n", (unsigned long long)stats.lastSelected,
           kLength, (unsigned long long)stats.lastBytesSent, (unsigned long long)(stats.bytesDense / 10));
  check(sparsecollReducerDestroy(reducer));
  return NULL;
}

int main(void) {
  sparsecollComm_t comms[kRanks];
  pthread_t threads[kRanks];
  int r;
  check(sparsecollCommInitAll(comms, kRanks, NULL, NULL));
  for (r = 0; r < kRanks; ++r) pthread_create(&threads[r], NULL, train, comms[r]);
  for (r = 0; r < kRanks; ++r) pthread_join(threads[r], NULL);
  for (r = 0; r < kRanks; ++r) check(sparsecollCommDestroy(comms[r]));
  return 0;
}
