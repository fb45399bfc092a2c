/* The library is loaded, used and let go again, a hundred times (T63): no thread, no descriptor and no memory stays,
   and nothing is written. usage: reload LIBRARY */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sparsecoll/sparsecoll.h>

enum { kLength = 1000, kTimes = 100, kFirst = 10, kMostGrowthKb = 2048 };

static void* loaded;

/* ISO C has no cast from what dlsym returns. */
static void find(const char* name, void* function) {
  void* const found = dlsym(loaded, name);
  if (found == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  memcpy(function, &found, sizeof found);
}

static int entriesOf(const char* folder) {
  int count = 0;
  DIR* const all = opendir(folder);
  while (all != NULL && readdir(all) != NULL) ++count;
  if (all != NULL) closedir(all);
  return count;
}

static long residentKb(void) {
  long total = 0, resident = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &total, &resident) != 2) exit(1);
  (void)fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A communicator, a reducer and a step of one rank, and an error. */
static int use(void) {
  static float values[kLength];
  sparsecollComm_t comm = NULL;
  sparsecollReducer_t reducer = NULL;
  sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
  int bad = 0, available = 0;
  sparsecollResult_t (*preset)(const char*, sparsecollParams_t*);
  sparsecollResult_t (*init)(sparsecollComm_t*, int, const int*, const sparsecollConfig_t*);
  sparsecollResult_t (*create)(sparsecollReducer_t*, uint64_t, sparsecollDataType_t, const sparsecollParams_t*,
                               const sparsecollReducerConfig_t*, sparsecollComm_t);
  sparsecollResult_t (*run)(sparsecollReducer_t, const void*, void*, sparsecollStream_t);
  sparsecollResult_t (*ended)(sparsecollReducer_t);
  sparsecollResult_t (*destroy)(sparsecollComm_t);
  sparsecollResult_t (*usable)(int32_t, int32_t, int*);
  const char* (*text)(void);
  find("sparsecollPreset", &preset);
  find("sparsecollCommInitAll", &init);
  find("sparsecollReducerCreate", &create);
  find("sparsecollReducerRun", &run);
  find("sparsecollReducerDestroy", &ended);
  find("sparsecollCommDestroy", &destroy);
  find("sparsecollBackendAvailable", &usable);
  find("sparsecollGetLastError", &text);
  bad += preset("topka", &params) != sparsecollSuccess;
  bad += preset("none", &params) != sparsecollInvalidArgument || strlen(text()) == 0;
  params.density = 0.1;
  bad += usable(sparsecollBackendHost, sparsecollTransportUcx, &available) != sparsecollSuccess;
  bad += init(&comm, 1, NULL, NULL) != sparsecollSuccess;
  bad += create(&reducer, kLength, sparsecollFloat32, &params, NULL, comm) != sparsecollSuccess;
  values[7] = 1;
  bad += run(reducer, values, values, NULL) != sparsecollSuccess || values[7] != 1;
  bad += ended(reducer) != sparsecollSuccess;
  bad += destroy(comm) != sparsecollSuccess;
  return bad;
}

int main(int argc, char** argv) {
  int time, threads = 0, descriptors = 0;
  long memory = 0;
  for (time = 0; time < kTimes; ++time) {
    loaded = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
    if (loaded == NULL) fprintf(stderr, "%s\n", dlerror());
    if (loaded == NULL || use() != 0 || dlclose(loaded) != 0) return 1;
    if (time == kFirst) { /* what a process keeps for ever is there by now */
      threads = entriesOf("/proc/self/task");
      descriptors = entriesOf("/proc/self/fd");
      memory = residentKb();
    }
  }
  fprintf(stderr, "threads %d then %d, descriptors %d then %d, memory %ld then %ld KiB; %s\n", threads,
          entriesOf("/proc/self/task"), descriptors, entriesOf("/proc/self/fd"), memory, residentKb(),
          dlopen(argv[argc - 1], RTLD_NOW | RTLD_NOLOAD) == NULL ? "unloaded" : "it stays loaded");
  return entriesOf("/proc/self/task") != threads || entriesOf("/proc/self/fd") != descriptors ||
         residentKb() > memory + kMostGrowthKb;
}
