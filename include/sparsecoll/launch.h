/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - what a program has to know to join its job: how many ranks there are, which one it is, and the id they
   meet by. Reads what sparsecoll-run, Slurm's srun, Open MPI's mpirun, MPICH's mpiexec or PyTorch's torchrun put into
   the environment. Header only, C99 with POSIX.

   The id goes from rank 0 to the others through a file that only this user can read (mode 0600, made anew, gone once
   all ranks have met) in a folder that all ranks see: SPARSECOLL_LAUNCH_DIR, which sparsecoll-run sets; else the folder
   that the Slurm job was submitted from; else /tmp, where all ranks are on one host. MPICH's jobs have no name that all
   hosts know: on several they need SPARSECOLL_LAUNCH_DIR, a folder of this job alone. Those of torchrun always need it,
   as do programs that are told RANK and WORLD_SIZE by hand. */
#ifndef SPARSECOLL_LAUNCH_H_
#define SPARSECOLL_LAUNCH_H_

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sparsecoll/sparsecoll.h"

/* Strict C99 without _POSIX_C_SOURCE hides the names, not the flags. */
#if defined(O_CLOEXEC)
#define SPARSECOLL_LAUNCH_CLOEXEC O_CLOEXEC
#elif defined(__O_CLOEXEC)
#define SPARSECOLL_LAUNCH_CLOEXEC __O_CLOEXEC
#else
#error "no O_CLOEXEC: define _POSIX_C_SOURCE as 200809L before the first include"
#endif
#if defined(O_NOFOLLOW)
#define SPARSECOLL_LAUNCH_NOFOLLOW O_NOFOLLOW
#elif defined(__O_NOFOLLOW)
#define SPARSECOLL_LAUNCH_NOFOLLOW __O_NOFOLLOW
#else
#error "no O_NOFOLLOW: define _POSIX_C_SOURCE as 200809L before the first include"
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int rank, size;
  int localRank;  /* among the ranks of this host; -1: not known */
  int oneHost;    /* 1: all ranks are on one host */
  const char* by; /* "sparsecoll-run", "Slurm", "Open MPI", "MPICH", "PMI" (another one), "RANK" (torchrun, or whoever
                     set RANK and WORLD_SIZE), or "nobody": one rank */
  char path[512]; /* of the file that hands the id on; a number is appended to it for each communicator. Empty: nobody
                     has started ranks, or they have no folder in common until SPARSECOLL_LAUNCH_DIR names one */
  unsigned made;  /* communicators so far */
  char problem[768]; /* why the latest one got no id to meet by; empty: it got one, or none was asked for */
} sparsecollLaunch_t;

static inline int sparsecollLaunchNumber(const char* name, int otherwise) {
  const char* text = getenv(name);
  char* end = NULL;
  long value;
  if (text == NULL || *text == '\0') return otherwise;
  value = strtol(text, &end, 10);
  return *end == '\0' && value >= 0 && value < 1000000 ? (int)value : otherwise;
}

static inline const char* sparsecollLaunchText(const char* name, const char* otherwise) {
  const char* text = getenv(name);
  return text != NULL && *text != '\0' ? text : otherwise;
}

/* What hydra, the starter of MPICH and Intel MPI, runs on each host to start the ranks there; else the parent. All
   ranks of a host have the same one, whatever scripts lie between, so it names the job, which no variable does. */
static inline long sparsecollLaunchStarter(void) {
  long pid = (long)getppid();
  int depth;
  for (depth = 0; depth < 16 && pid > 1; ++depth) {
    char line[256];
    const char* name;
    const char* rest;
    ssize_t length;
    int fd;
    snprintf(line, sizeof line, "/proc/%ld/stat", pid);
    fd = open(line, O_RDONLY | SPARSECOLL_LAUNCH_CLOEXEC);
    if (fd < 0) break;
    length = read(fd, line, sizeof line - 1);
    (void)close(fd);
    line[length > 0 ? length : 0] = '\0';
    name = strchr(line, '('); /* pid (name) state parent ... */
    rest = strrchr(line, ')');
    if (name == NULL || rest == NULL || strlen(rest) < 4) break;
    if (strncmp(name + 1, "hydra_", 6) == 0) return pid;
    pid = strtol(rest + 4, NULL, 10);
  }
  return (long)getppid();
}

/* The names of the variables that tell a rank its place in the job and on its host. */
static inline void sparsecollLaunchReadPlace(sparsecollLaunch_t* launch, const char* rank, const char* size,
                                             const char* localRank, const char* localSize) {
  launch->rank = sparsecollLaunchNumber(rank, 0);
  launch->size = sparsecollLaunchNumber(size, 1);
  launch->localRank = sparsecollLaunchNumber(localRank, -1);
  launch->oneHost = sparsecollLaunchNumber(localSize, 0) == launch->size;
}

static inline void sparsecollLaunchReadOpenMpi(sparsecollLaunch_t* launch, const char* folder) {
  launch->by = "Open MPI";
  sparsecollLaunchReadPlace(launch, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE");
  snprintf(launch->path, sizeof launch->path, "%s/sparsecoll-%ld-%s", folder != NULL ? folder : "/tmp", (long)geteuid(),
           sparsecollLaunchText("PMIX_NAMESPACE", "job"));
}

static inline void sparsecollLaunchReadPmi(sparsecollLaunch_t* launch, const char* folder) {
  launch->by = getenv("MPI_LOCALNRANKS") != NULL ? "MPICH" : "PMI";
  sparsecollLaunchReadPlace(launch, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS");
  if (launch->oneHost)
    snprintf(launch->path, sizeof launch->path, "%s/sparsecoll-%ld-mpich-%ld", folder != NULL ? folder : "/tmp",
             (long)geteuid(), sparsecollLaunchStarter());
  else if (folder != NULL)
    snprintf(launch->path, sizeof launch->path, "%s/sparsecoll-%ld-pmi", folder, (long)geteuid());
}

static inline void sparsecollLaunchReadSlurm(sparsecollLaunch_t* launch, const char* folder) {
  launch->by = "Slurm";
  launch->rank = sparsecollLaunchNumber("SLURM_PROCID", 0);
  launch->size = sparsecollLaunchNumber("SLURM_NTASKS", 1);
  launch->localRank = sparsecollLaunchNumber("SLURM_LOCALID", -1);
  launch->oneHost = sparsecollLaunchNumber("SLURM_STEP_NUM_NODES", sparsecollLaunchNumber("SLURM_NNODES", 2)) == 1;
  snprintf(launch->path, sizeof launch->path, "%s/.sparsecoll-%s-%s-%s",
           folder != NULL ? folder : sparsecollLaunchText("SLURM_SUBMIT_DIR", "."),
           sparsecollLaunchText("SLURM_JOB_ID", "job"), sparsecollLaunchText("SLURM_STEP_ID", "0"),
           sparsecollLaunchText("SLURM_RESTART_COUNT", "0"));
}

static inline void sparsecollLaunchReadRank(sparsecollLaunch_t* launch, const char* folder) {
  launch->by = "RANK";
  sparsecollLaunchReadPlace(launch, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  launch->path[0] = '\0';
  if (folder != NULL)
    snprintf(launch->path, sizeof launch->path, "%s/sparsecoll-%ld-rank-%s", folder, (long)geteuid(),
             sparsecollLaunchText("TORCHELASTIC_RESTART_COUNT", "0"));
}

/* Reads the environment. Never fails: a program that nobody launched is rank 0 of 1. An mpirun or mpiexec inside of a
   Slurm job goes before Slurm, whose variables the ranks inherit; srun may set PMI's variables, too, but not MPICH's.
   torchrun goes before these, and so do RANK and WORLD_SIZE if they tell of another number of ranks. */
static inline void sparsecollLaunchRead(sparsecollLaunch_t* launch) {
  const char* folder = sparsecollLaunchText("SPARSECOLL_LAUNCH_DIR", NULL);
  memset(launch, 0, sizeof *launch);
  launch->size = 1;
  launch->localRank = 0;
  launch->oneHost = 1;
  launch->by = "nobody";
  if (getenv("SPARSECOLL_RANK") != NULL && folder != NULL) {
    launch->by = "sparsecoll-run";
    launch->rank = sparsecollLaunchNumber("SPARSECOLL_RANK", 0);
    launch->size = sparsecollLaunchNumber("SPARSECOLL_SIZE", 1);
    launch->localRank = launch->rank;
    snprintf(launch->path, sizeof launch->path, "%s/id", folder);
  } else if (getenv("OMPI_COMM_WORLD_RANK") != NULL) {
    sparsecollLaunchReadOpenMpi(launch, folder);
  } else if (getenv("PMI_RANK") != NULL && (getenv("MPI_LOCALNRANKS") != NULL || getenv("SLURM_PROCID") == NULL)) {
    sparsecollLaunchReadPmi(launch, folder);
  } else if (getenv("SLURM_PROCID") != NULL) {
    sparsecollLaunchReadSlurm(launch, folder);
  }
  if (getenv("RANK") != NULL && getenv("WORLD_SIZE") != NULL && strcmp(launch->by, "sparsecoll-run") != 0 &&
      (getenv("TORCHELASTIC_RUN_ID") != NULL || sparsecollLaunchNumber("WORLD_SIZE", 1) != launch->size))
    sparsecollLaunchReadRank(launch, folder);
}

/* Why the ranks cannot meet, in words for the user: sparsecollLaunchComm found no id, or would return Unsupported for
   want of a path. NULL: nothing is known to this header. */
static inline const char* sparsecollLaunchProblem(const sparsecollLaunch_t* launch) {
  if (launch->problem[0] != '\0') return launch->problem;
  if (launch->path[0] != '\0' || launch->size <= 1) return NULL;
  if (strcmp(launch->by, "RANK") == 0)
    return "RANK and WORLD_SIZE (torchrun) tell of several ranks, which have no file to meet by: set "
           "SPARSECOLL_LAUNCH_DIR to a folder of this job alone, which all ranks see";
  return "ranks on several hosts have no file to meet by: set SPARSECOLL_LAUNCH_DIR to a folder of this job alone, "
         "which all ranks see";
}

/* What went wrong in the latest sparsecollLaunchComm of this thread, whoever found it; never NULL. */
static inline const char* sparsecollLaunchError(const sparsecollLaunch_t* launch) {
  const char* problem = sparsecollLaunchProblem(launch);
  return problem != NULL ? problem : sparsecollGetLastError();
}

static inline sparsecollResult_t sparsecollLaunchWrite(sparsecollLaunch_t* launch, const char* path,
                                                       const sparsecollUniqueId_t* id) {
  char fresh[600];
  const char* step = "made";
  size_t done = 0;
  int fd, failure = 0;
  snprintf(fresh, sizeof fresh, "%s.new", path);
  (void)unlink(fresh);
  fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | SPARSECOLL_LAUNCH_CLOEXEC, 0600);
  if (fd < 0) failure = errno;
  if (failure == 0) step = "written";
  while (failure == 0 && done < sizeof id->bytes) {
    const ssize_t some = write(fd, id->bytes + done, sizeof id->bytes - done);
    if (some > 0)
      done += (size_t)some;
    else if (some == 0 || errno != EINTR)
      failure = some == 0 ? ENOSPC : errno;
  }
  if (fd >= 0 && close(fd) != 0 && failure == 0 && errno != EINTR) failure = errno;
  if (failure == 0 && rename(fresh, path) != 0) failure = errno;
  if (failure == 0) return sparsecollSuccess;
  if (fd >= 0) (void)unlink(fresh);
  snprintf(launch->problem, sizeof launch->problem, "the file by which ranks meet cannot be %s: %s: %s", step, path,
           strerror(failure));
  return sparsecollSystemError;
}

/* Reads an id. 1: it is there. 0: not yet; the reason may change, so it is noted only. -1: somebody else's file, or one
   that others can read, is none of this job's, and stays. */
static inline int sparsecollLaunchTryFetch(sparsecollLaunch_t* launch, const char* path, sparsecollUniqueId_t* id) {
  struct stat about;
  size_t done = 0;
  ssize_t some = 0;
  int ours, failure = 0;
  const int fd = open(path, O_RDONLY | SPARSECOLL_LAUNCH_NOFOLLOW | SPARSECOLL_LAUNCH_CLOEXEC);
  if (fd < 0) {
    failure = errno;
    snprintf(launch->problem, sizeof launch->problem, "rank 0 has left no id to meet by: %s: %s", path,
             strerror(failure));
    return failure == ELOOP ? -1 : 0;
  }
  ours = fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && about.st_uid == geteuid() && (about.st_mode & 077) == 0;
  while (ours && failure == 0 && done < sizeof id->bytes) {
    some = read(fd, id->bytes + done, sizeof id->bytes - done);
    if (some > 0)
      done += (size_t)some;
    else if (some == 0 || errno != EINTR)
      failure = some == 0 ? EIO : errno;
  }
  (void)close(fd);
  if (ours && failure == 0) return 1;
  if (!ours)
    snprintf(launch->problem, sizeof launch->problem,
             "%s is not a file that this user alone can read, as an id has to be: remove it", path);
  else
    snprintf(launch->problem, sizeof launch->problem, "%s holds no id: %u bytes of %u (%s)", path, (unsigned)done,
             (unsigned)sizeof id->bytes, some == 0 ? "it is of another program, or damaged" : strerror(failure));
  return ours ? 0 : -1;
}

static inline sparsecollResult_t sparsecollLaunchFetch(sparsecollLaunch_t* launch, const char* path,
                                                       sparsecollUniqueId_t* id, uint64_t timeoutMs) {
  uint64_t waited;
  for (waited = 0;; waited += 5) {
    const int found = sparsecollLaunchTryFetch(launch, path, id);
    if (found > 0) {
      launch->problem[0] = '\0';
      return sparsecollSuccess;
    }
    if (found < 0) return sparsecollSystemError;
    if (waited >= timeoutMs) return sparsecollTimeout;
    (void)poll(NULL, 0, 5);
  }
}

/* A memset of memory that is not read again may be left out by the compiler. */
static inline void sparsecollLaunchWipe(sparsecollUniqueId_t* id) {
  volatile unsigned char* at = (volatile unsigned char*)id;
  size_t left;
  for (left = sizeof *id; left != 0; --left) *at++ = 0;
}

/* Makes this rank's communicator. Collective over the job's ranks; may be called again for a further one, on all ranks
   in the same order. device and config: as CommInitRank; config NULL: defaults, and where the ranks are on several
   hosts the interface "auto", unless SPARSECOLL_INTERFACE names one. Errors, of which sparsecollLaunchError has the
   text: as GetUniqueId and CommInitRank; SystemError (the id cannot be written, or its file is not this user's alone),
   Timeout (it has not come), Unsupported (several ranks without a path). */
static inline sparsecollResult_t sparsecollLaunchComm(sparsecollLaunch_t* launch, sparsecollComm_t* comm, int device,
                                                      const sparsecollConfig_t* config) {
  sparsecollConfig_t own = SPARSECOLL_INIT(sparsecollConfig_t);
  sparsecollUniqueId_t id;
  sparsecollResult_t result = sparsecollSuccess;
  char path[560];
  if (config == NULL) {
    if (!launch->oneHost && getenv("SPARSECOLL_INTERFACE") == NULL) own.interfaceName = "auto";
    config = &own;
  }
  launch->problem[0] = '\0';
  if (launch->path[0] == '\0' && launch->size > 1) return sparsecollUnsupported;
  snprintf(path, sizeof path, "%s-%u", launch->path, launch->made++);
  if (launch->rank == 0) {
    result = sparsecollGetUniqueId(&id, config);
    if (result == sparsecollSuccess && launch->size > 1) result = sparsecollLaunchWrite(launch, path, &id);
  } else {
    result = sparsecollLaunchFetch(launch, path, &id, config->initTimeoutMs != 0 ? config->initTimeoutMs : 120000);
  }
  if (result == sparsecollSuccess)
    result = sparsecollCommInitRank(comm, launch->size, &id, launch->rank, device, config);
  if (launch->rank == 0 && launch->size > 1) (void)unlink(path);
  sparsecollLaunchWipe(&id);
  return result;
}

#ifdef __cplusplus
}
#endif
#endif /* SPARSECOLL_LAUNCH_H_ */
