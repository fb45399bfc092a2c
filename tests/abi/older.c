/* A program as somebody compiled it with an older header, whose structs end sooner (older.sh makes one), against
   today's library (T64): it runs, and nothing behind its structs is written. */
#include <stdio.h>
#include <string.h>

#include <sparsecoll/sparsecoll.h>

enum { kLength = 1000, kMark = 0x5a };

#define CHECK(condition) \
  if (!(condition)) return printf("older.c:%d: %s: %s\n", __LINE__, #condition, sparsecollGetLastError()), 1

#define MARKED(type)           \
  struct {                     \
    type value;                \
    unsigned char behind[256]; \
  }
#define MARK(marked) memset((marked).behind, kMark, sizeof(marked).behind)

static int untouched(const unsigned char* behind) {
  size_t i;
  for (i = 0; i < 256; ++i)
    if (behind[i] != kMark) return 0;
  return 1;
}

int main(void) {
  static float values[kLength];
  sparsecollComm_t comm = NULL;
  sparsecollReducer_t reducer = NULL;
  MARKED(sparsecollParams_t) params = {SPARSECOLL_INIT(sparsecollParams_t), {0}};
  MARKED(sparsecollStats_t) stats = {SPARSECOLL_INIT(sparsecollStats_t), {0}};
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  sparsecollReducerConfig_t reducerConfig = SPARSECOLL_INIT(sparsecollReducerConfig_t);
  int step;
  MARK(params);
  MARK(stats);
  CHECK(SPARSECOLL_VERSION_CODE < sparsecollGetVersion());
  config.name = "older";
  CHECK(sparsecollCommInitAll(&comm, 1, NULL, &config) == sparsecollSuccess);
  CHECK(sparsecollPreset("spardl-bsag", &params.value) == sparsecollUnsupported); /* teamGather came later */
  CHECK(sparsecollPreset("topka", &params.value) == sparsecollSuccess);
  CHECK(untouched(params.behind));
  params.value.density = 0.1;
  reducerConfig.transactional = 1;
  CHECK(sparsecollReducerCreate(&reducer, kLength, sparsecollFloat32, &params.value, &reducerConfig, comm) ==
        sparsecollSuccess);
  for (step = 0; step < 3; ++step) {
    values[7] = 3;
    CHECK(sparsecollReducerRun(reducer, values, values, NULL) == sparsecollSuccess);
    CHECK(values[7] == 3);
  }
  CHECK(sparsecollReducerGetStats(reducer, &stats.value) == sparsecollSuccess);
  CHECK(stats.value.opsCompleted == 3 && untouched(stats.behind));
  CHECK(sparsecollReducerDestroy(reducer) == sparsecollSuccess);
  CHECK(sparsecollCommDestroy(comm) == sparsecollSuccess);
  return 0;
}
