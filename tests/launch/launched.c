/* A rank of a launched job: meets the others and sums. Arguments: nothing; "fail RANK": that rank ends with status 7
   once all have met, and the others wait for it; "kill RANK": the same, but it is killed; "wait": all wait for a
   signal; "hasty MS": they wait MS milliseconds for each other; "again": they meet twice; "retry MS": the first time
   they wait MS milliseconds, the second time long. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sparsecoll/launch.h>

enum { kLength = 1000, kSkipped = 77 };

static void onSignal(int number) { _exit(40 + number); }

int main(int argc, char** argv) {
  static float values[kLength];
  sparsecollLaunch_t launch;
  sparsecollComm_t comm = NULL;
  sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
  sparsecollConfig_t config = SPARSECOLL_INIT(sparsecollConfig_t);
  sparsecollResult_t result;
  int i, hasty, retry, again, available = 0, failing = argc > 2 ? atoi(argv[2]) : -1;

  if (sparsecollBackendAvailable(sparsecollBackendHost, sparsecollTransportTcp, &available) != sparsecollSuccess ||
      !available)
    return kSkipped;
  sparsecollLaunchRead(&launch);
  if (argc > 1 && strcmp(argv[1], "wait") == 0) {
    signal(SIGUSR1, onSignal);
    printf("rank %d waits\n", launch.rank);
    fflush(stdout);
    for (;;) pause();
  }
  if (sparsecollLaunchProblem(&launch) != NULL) fprintf(stderr, "%s\n", sparsecollLaunchProblem(&launch));
  hasty = argc > 2 && strcmp(argv[1], "hasty") == 0;
  retry = argc > 2 && strcmp(argv[1], "retry") == 0;
  again = argc > 1 && strcmp(argv[1], "again") == 0;
  hasty = hasty || retry;
  if (hasty) config.initTimeoutMs = (uint64_t)failing;
  result = sparsecollCommInitEnv(&comm, SPARSECOLL_HOST, hasty ? &config : NULL);
  if (retry) {
    fprintf(stderr, "rank %d at first: %s: %s\n", launch.rank, sparsecollGetErrorString(result),
            sparsecollGetLastError());
    result = sparsecollCommInitEnv(&comm, SPARSECOLL_HOST, NULL);
  }
  if (again && result == sparsecollSuccess && sparsecollCommDestroy(comm) == sparsecollSuccess)
    result = sparsecollCommInitEnv(&comm, SPARSECOLL_HOST, NULL);
  if (result != sparsecollSuccess) {
    fprintf(stderr, "rank %d: %s: %s\n", launch.rank, sparsecollGetErrorString(result), sparsecollGetLastError());
    return 1;
  }
  if (hasty) failing = -1;
  if (sparsecollPreset("topka", &params) != sparsecollSuccess) return 1;
  params.density = 1;
  /* Who has a sum knows that all ranks have met: then one of them may end. */
  if (failing >= 0) result = sparsecollAllReduce(values, values, kLength, sparsecollFloat32, &params, comm, NULL);
  if (launch.rank == failing && strcmp(argv[1], "kill") == 0) (void)kill(getpid(), SIGKILL);
  if (launch.rank == failing) return 7;
  for (i = 0; i < kLength; ++i) values[i] = (float)(i + launch.rank);
  if (result == sparsecollSuccess)
    result = sparsecollAllReduce(values, values, kLength, sparsecollFloat32, &params, comm, NULL);
  for (i = 0; result == sparsecollSuccess && i < kLength; ++i)
    if (values[i] != (float)(i * launch.size + launch.size * (launch.size - 1) / 2)) return 2;
  if (result != sparsecollSuccess) fprintf(stderr, "rank %d: %s\n", launch.rank, sparsecollGetLastError());
  printf("rank %d of %d by %s: %s\n", launch.rank, launch.size, launch.by, sparsecollGetErrorString(result));
  if (sparsecollCommDestroy(comm) != sparsecollSuccess) return 1;
  return result == sparsecollSuccess ? 0 : 3;
}
