/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - how a program that was started in many copies learns which rank it is and where its ranks meet. Reads what
   sparsecoll-run, Slurm's srun, Open MPI's mpirun, MPICH's mpiexec, PyTorch's torchrun or Kubeflow put into the
   environment. Header only, C99 with POSIX. sparsecollCommInitEnv reads the same; call these functions to learn the
   rank before there is a communicator.

   Where ranks meet, the first of these that the environment tells:
     a folder  SPARSECOLL_LAUNCH_DIR, of this job alone, which all ranks see; sparsecoll-run sets it on one host. Rank 0
               leaves the id there, in a file that only this user can read (mode 0600, gone once all ranks have met)
     a port    of the host MASTER_ADDR, else of the first node of a Slurm step: SPARSECOLL_PORT, else the first free one
               of the 16 behind MASTER_PORT, else one of 16 that follow from the Slurm job's number. Ranks of one host
               take loopback, where the launcher says that all share one
     a folder  that the launcher's ranks have in common: the one that a Slurm job was submitted from, /tmp where Open
   MPI or MPICH has started all of them on one host
   Ranks on several hosts that have neither a folder nor MASTER_ADDR first ask the launcher: by PMIx (Open MPI, srun
   --mpi=pmix) or PMI (MPICH) it hands on to all where rank 0 listens, and a key */
#ifndef SPARSECOLL_LAUNCH_H_
#define SPARSECOLL_LAUNCH_H_

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "sparsecoll/sparsecoll.h"

/* Strict C99 without _POSIX_C_SOURCE hides the name, not the flag. */
#if defined(O_CLOEXEC)
#define SPARSECOLL_LAUNCH_CLOEXEC O_CLOEXEC
#elif defined(__O_CLOEXEC)
#define SPARSECOLL_LAUNCH_CLOEXEC __O_CLOEXEC
#else
#error "no O_CLOEXEC: define _POSIX_C_SOURCE as 200809L before the first include"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define SPARSECOLL_LAUNCH_PORTS 16

typedef struct {
  int rank, size;
  int localRank;  /* among the ranks of this host; -1: not known */
  int oneHost;    /* 1: all ranks are on one host, as far as the launcher says */
  const char* by; /* "sparsecoll-run", "Slurm", "Open MPI", "MPICH", "PMI" (another one), "RANK" (torchrun, Kubeflow, or
                     whoever set RANK and WORLD_SIZE), or "nobody": one rank */
  char host[256]; /* where rank 0 listens; empty: ranks meet by a file */
  int port;       /* the first one that it may have */
  int ports;      /* how many it chooses from */
  char job[256];  /* what tells this job from others, the same on all ranks */
  int restart;    /* how often the job was started anew, where all ranks are told the same: torchrun's agents count their
                     own workers' failures, each for itself */
  char path[512]; /* of the file that hands the id on; a number is appended for each communicator. Empty: there is none
                   */
  const char* service; /* "PMIx" or "PMI", by which the launcher hands on where rank 0 listens; NULL: it does not */
  const char* wrong;   /* a variable that should tell the rank or the number of ranks, and holds none; that is -1 then.
                          NULL: there is none */
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

/* A rank, or the number of ranks. What is set but holds no number is a mistake: else every rank would run alone. */
static inline int sparsecollLaunchPlace(sparsecollLaunch_t* launch, const char* name, int otherwise) {
  const int number = getenv(name) != NULL ? sparsecollLaunchNumber(name, -1) : otherwise;
  if (number < 0) launch->wrong = name;
  return number;
}

/* The names of the variables that tell a rank its place in the job and on its host. */
static inline void sparsecollLaunchReadPlace(sparsecollLaunch_t* launch, const char* rank, const char* size,
                                             const char* localRank, const char* localSize) {
  launch->rank = sparsecollLaunchPlace(launch, rank, 0);
  launch->size = sparsecollLaunchPlace(launch, size, 1);
  launch->localRank = sparsecollLaunchNumber(localRank, -1);
  launch->oneHost = sparsecollLaunchNumber(localSize, 0) == launch->size;
}

/* Name of the first host of a list as Slurm writes it: "node[01-04,7],gpu3" begins with node01. */
static inline void sparsecollLaunchFirstHost(const char* list, char* host, size_t room) {
  size_t length = 0;
  while (*list != '\0' && *list != ',' && length + 1 < room) {
    if (*list == '[') {
      for (++list; *list >= '0' && *list <= '9' && length + 1 < room; ++list) host[length++] = *list;
      while (*list != '\0' && *list != ']') ++list;
      if (*list == ']') ++list;
      continue;
    }
    host[length++] = *list++;
  }
  host[length] = '\0';
}

/* Where the environment names a host and a port, they go before what the launcher has said. */
static inline void sparsecollLaunchReadMeeting(sparsecollLaunch_t* launch, const char* folder) {
  const char* const host = sparsecollLaunchText("MASTER_ADDR", NULL);
  const int own = sparsecollLaunchNumber("SPARSECOLL_PORT", 0);
  const int master = sparsecollLaunchNumber("MASTER_PORT", 0);
  const char* const job = sparsecollLaunchText("SPARSECOLL_JOB", NULL);
  if (strcmp(launch->by, "nobody") == 0) return;
  if (host != NULL) snprintf(launch->host, sizeof launch->host, "%s", host);
  if (job != NULL) snprintf(launch->job, sizeof launch->job, "%s", job);
  if (own > 0) {
    launch->port = own;
    launch->ports = 1;
  } else if (master > 0) {
    launch->port = master + 1;
    launch->ports = SPARSECOLL_LAUNCH_PORTS;
  }
  if (launch->port + launch->ports > 65536) launch->ports = 65536 - launch->port;
  if (folder != NULL || launch->ports < 1) launch->host[0] = '\0';
  if (launch->host[0] != '\0' && launch->oneHost) snprintf(launch->host, sizeof launch->host, "127.0.0.1");
}

/* A job inside of another inherits the variables of both: PMIx has to be of the one that tells the rank. */
static inline void sparsecollLaunchReadService(sparsecollLaunch_t* launch, const char* folder) {
  const int pmix = strcmp(launch->by, "Open MPI") == 0 || strcmp(launch->by, "Slurm") == 0;
  const int pmi = strcmp(launch->by, "MPICH") == 0 || strcmp(launch->by, "PMI") == 0;
  if (launch->size <= 1 || launch->oneHost || folder != NULL || sparsecollLaunchText("MASTER_ADDR", NULL) != NULL)
    return;
  if (pmix && getenv("PMIX_NAMESPACE") != NULL && sparsecollLaunchNumber("PMIX_RANK", -1) == launch->rank)
    launch->service = "PMIx";
  if (pmi && sparsecollLaunchNumber("PMI_FD", -1) >= 0) launch->service = "PMI";
}

static inline void sparsecollLaunchReadOpenMpi(sparsecollLaunch_t* launch, const char* folder) {
  launch->by = "Open MPI";
  sparsecollLaunchReadPlace(launch, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE");
  if (folder != NULL || launch->oneHost)
    snprintf(launch->path, sizeof launch->path, "%s/sparsecoll-%ld-%s", folder != NULL ? folder : "/tmp",
             (long)geteuid(), sparsecollLaunchText("PMIX_NAMESPACE", "job"));
  snprintf(launch->job, sizeof launch->job, "%s", sparsecollLaunchText("PMIX_NAMESPACE", "job"));
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
  launch->rank = sparsecollLaunchPlace(launch, "SLURM_PROCID", 0);
  launch->size = sparsecollLaunchPlace(launch, "SLURM_NTASKS", 1);
  launch->localRank = sparsecollLaunchNumber("SLURM_LOCALID", -1);
  launch->oneHost = sparsecollLaunchNumber("SLURM_STEP_NUM_NODES", sparsecollLaunchNumber("SLURM_NNODES", 2)) == 1;
  snprintf(launch->path, sizeof launch->path, "%s/.sparsecoll-%s-%s-%s",
           folder != NULL ? folder : sparsecollLaunchText("SLURM_SUBMIT_DIR", "."),
           sparsecollLaunchText("SLURM_JOB_ID", "job"), sparsecollLaunchText("SLURM_STEP_ID", "0"),
           sparsecollLaunchText("SLURM_RESTART_COUNT", "0"));
  snprintf(launch->job, sizeof launch->job, "slurm %s.%s", sparsecollLaunchText("SLURM_JOB_ID", "job"),
           sparsecollLaunchText("SLURM_STEP_ID", "0"));
  launch->restart = sparsecollLaunchNumber("SLURM_RESTART_COUNT", 0);
  sparsecollLaunchFirstHost(sparsecollLaunchText("SLURM_STEP_NODELIST", sparsecollLaunchText("SLURM_JOB_NODELIST", "")),
                            launch->host, sizeof launch->host);
  /* Steps of neighbouring jobs get ports of their own, below those that the kernel hands out. */
  launch->port =
      20000 + SPARSECOLL_LAUNCH_PORTS * (int)((7 * strtoul(sparsecollLaunchText("SLURM_JOB_ID", "0"), NULL, 10) +
                                               strtoul(sparsecollLaunchText("SLURM_STEP_ID", "0"), NULL, 10)) %
                                              750);
  launch->ports = SPARSECOLL_LAUNCH_PORTS;
}

static inline void sparsecollLaunchReadRank(sparsecollLaunch_t* launch, const char* folder) {
  memset(launch, 0, sizeof *launch);
  launch->by = "RANK";
  sparsecollLaunchReadPlace(launch, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE");
  snprintf(launch->job, sizeof launch->job, "run %s at %s", sparsecollLaunchText("TORCHELASTIC_RUN_ID", "-"),
           sparsecollLaunchText("MASTER_PORT", "-"));
  if (folder != NULL)
    snprintf(launch->path, sizeof launch->path, "%s/sparsecoll-%ld-rank", folder, (long)geteuid());
}

/* Reads the environment. Never fails: a program that nobody launched is rank 0 of 1; `wrong` tells of mistakes. An
   mpirun or mpiexec inside of a Slurm job goes before Slurm, whose variables the ranks inherit; srun may set PMI's
   variables, too, but not MPICH's. torchrun goes before these, and so do RANK and WORLD_SIZE if they tell of another
   number of ranks. */
static inline void sparsecollLaunchRead(sparsecollLaunch_t* launch) {
  const char* const folder = sparsecollLaunchText("SPARSECOLL_LAUNCH_DIR", NULL);
  const int size = sparsecollLaunchNumber("WORLD_SIZE", -1);
  memset(launch, 0, sizeof *launch);
  launch->size = 1;
  launch->localRank = 0;
  launch->oneHost = 1;
  launch->by = "nobody";
  if (getenv("SPARSECOLL_RANK") != NULL && (folder != NULL || getenv("SPARSECOLL_JOB") != NULL)) {
    launch->by = "sparsecoll-run";
    sparsecollLaunchReadPlace(launch, "SPARSECOLL_RANK", "SPARSECOLL_SIZE", "SPARSECOLL_LOCAL_RANK",
                              "SPARSECOLL_LOCAL_SIZE");
    if (folder != NULL) snprintf(launch->path, sizeof launch->path, "%s/id", folder);
  } else if (getenv("OMPI_COMM_WORLD_RANK") != NULL) {
    sparsecollLaunchReadOpenMpi(launch, folder);
  } else if (getenv("PMI_RANK") != NULL && (getenv("MPI_LOCALNRANKS") != NULL || getenv("SLURM_PROCID") == NULL)) {
    sparsecollLaunchReadPmi(launch, folder);
  } else if (getenv("SLURM_PROCID") != NULL) {
    sparsecollLaunchReadSlurm(launch, folder);
  }
  if (getenv("RANK") != NULL && getenv("WORLD_SIZE") != NULL && strcmp(launch->by, "sparsecoll-run") != 0 &&
      (getenv("TORCHELASTIC_RUN_ID") != NULL ||
       (size != launch->size && (size >= 0 || strcmp(launch->by, "nobody") == 0))))
    sparsecollLaunchReadRank(launch, folder);
  sparsecollLaunchReadMeeting(launch, folder);
  sparsecollLaunchReadService(launch, folder);
}

/* Why the ranks cannot meet, in words for the user, where sparsecollCommInitEnv returns InvalidArgument for what
   `wrong` names, or Unsupported for want of a place; else NULL. */
static inline const char* sparsecollLaunchProblem(const sparsecollLaunch_t* launch) {
  if (launch->wrong != NULL) return "a variable that should tell the rank or the number of ranks holds no such number";
  if (launch->host[0] != '\0' || launch->path[0] != '\0' || launch->service != NULL || launch->size <= 1) return NULL;
  return "several ranks have no place to meet: set MASTER_ADDR to rank 0's host and MASTER_PORT to a port of this job "
         "alone, or SPARSECOLL_LAUNCH_DIR to a folder of this job alone, which all ranks see";
}

#ifdef __cplusplus
}
#endif
#endif /* SPARSECOLL_LAUNCH_H_ */
