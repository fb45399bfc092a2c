/* SPDX-License-Identifier: Apache-2.0 */
/* sparsecoll.h - the C ABI of libsparsecoll: sparse collectives for gradients.

   Valid C99 and C++11; includes no CUDA, NCCL or MPI header.

   What it does. Every rank of a communicator hands in a dense gradient. A selector picks few of its entries, a collective
   moves only those, and every rank gets the same dense sum. What a rank did not send stays in its residual and is part of
   its next step (error feedback). A reducer does this step after step with one pair of selector and collective.

   Example. The work of one rank; every rank runs it in a thread of its own, with a communicator of its own. CommInitAll
   makes the communicators of all threads of a process, CommInitEnv one in each process. examples/hello/hello.c is a
   whole program.

       sparsecollResult_t train(sparsecollComm_t comm, float* gradient, uint64_t n, int steps, void (*backward)(float*)) {
         sparsecollReducer_t reducer = NULL;
         sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
         sparsecollResult_t result = sparsecollPreset("topka", &params);
         params.density = 0.01; // send 1 % of the entries
         params.op = sparsecollAvg;
         if (result == sparsecollSuccess)
           result = sparsecollReducerCreate(&reducer, n, sparsecollFloat32, &params, NULL, comm);
         for (; result == sparsecollSuccess && steps > 0; --steps) {
           backward(gradient);
           result = sparsecollReducerRun(reducer, gradient, gradient, NULL); // in place: now it is the ranks' average
         }
         sparsecollReducerDestroy(reducer);
         return result;
       }

   The step. On each rank:
       acc      = residual + inputScale * gradient            (one fused multiply-add per entry; with clipNorm, momentum
                                                              or residualDecay see sparsecollParams_t)
       selected = entries of acc that the selector picks
       out[i]   = outputScale * sum over ranks of what was sent for i, added in rank order
                  (divided by the number of ranks for sparsecollAvg)
       residual = acc, with 0 where an entry was sent
   so that, entry by entry, sum(residual before + scaled input) = sum delivered + sum(residual after).

   Presets. sparsecollPreset fills in a published method by its name. docs/algorithms has a page on each.
       preset         selector      collective    paper
       dense          -             dense         Rabenseifner 2004; ring: Patarasuk and Yuan 2009
       topka          topk          allgather     Renggli et al. 2019 (SparCML), section 5.1; Shi et al. 2019
       gtopk          topk          gtopk         Shi et al. 2019 (gTop-k), arXiv:1901.04359
       oktopk         reused_topk   ok_topk       Li and Hoefler 2022 (Ok-Topk), arXiv:2201.07598
       sparcml-rd     topk          sparcml       Renggli et al. 2019 (SparCML), arXiv:1802.08021
       sparcml-split  topk          split_gather  Renggli et al. 2019 (SparCML), arXiv:1802.08021
       topkdsa        topk          topkdsa       Renggli et al. 2019 (SparCML); Li and Hoefler 2022 (Ok-Topk), arXiv:2201.07598
       spardl         topk          spardl        Zhao et al. 2024 (SparDL), arXiv:2304.00737
       spardl-rsag    topk          spardl        Zhao et al. 2024 (SparDL), arXiv:2304.00737
       spardl-bsag    topk          spardl        Zhao et al. 2024 (SparDL), arXiv:2304.00737
       threshold      threshold     index_union   Dutta et al. 2021
       micro          micro         index_union   Yoon and Oh 2023 (MiCRO), arXiv:2310.00967
       exdyna         exdyna        index_union   Yoon and Oh 2024 (ExDyna), arXiv:2402.13781
       deft           deft          index_union   Yoon and Oh 2023 (DEFT), arXiv:2307.03500
       sage           sage          index_union   Yoon, Jeong and Oh 2023 (SAGE), doi:10.1007/s11227-023-05120-7
       sidco-e        sidco         allgather     Abdelmoniem et al. 2021 (SIDCo), arXiv:2101.10761
       sidco-gp       sidco         allgather     Abdelmoniem et al. 2021 (SIDCo), arXiv:2101.10761
       sidco-p        sidco         allgather     Abdelmoniem et al. 2021 (SIDCo), arXiv:2101.10761
       gaussiank      gaussian      allgather     Shi et al. 2019 (GaussianK), arXiv:1911.08772
       redsync        redsync       allgather     Fang et al. 2019 (RedSync), arXiv:1808.04357
       cltk           leader_topk   index_union   Chen et al. 2020 (ScaleCom), arXiv:2104.11125
       randomk        random        allgather     Stich et al. 2018, arXiv:1809.07599
       chunk-topk     chunk_topk    allgather     Peng et al. 2024 (DeMo), arXiv:2411.19870
       dgc            sampled       allgather     Lin et al. 2018 (DGC), arXiv:1712.01887
       rtopk          random_of_top allgather     Barnes et al. 2020 (rTop-k), arXiv:2005.10761

   Auto. The preset auto is none of these: it finds out which of topka, sparcml-split, spardl and dense is the fastest here.
   Its first steps are trials, each a step of one candidate on the same residual, so none is wasted: a candidate runs two,
   four more unless it is twice as slow as the fastest, and four more unless it is 15 % slower, in all at most 40. What a
   step took on the slowest rank counts, of a candidate's steps the median. Candidates whose quicker steps (lower quartile)
   are within 5 % of the fastest count as even, and of those dense is chosen, or else the first of these four.
   From then on steps cost what the chosen method costs. Info says what was chosen and why, ReducerGetPlan since when, and
   SPARSECOLL_LOG=info logs it:
       n 4M P 4: topka, 41 ms; dense 260 ms; break-even density 0.1; link 0.74 Gbit/s measured
   Trials begin when a density schedule has ended, until which topka runs, and again when the density changes; a candidate
   is then left out if its last times predict that it is twice as slow as another one. density and k count a rank's entries;
   spardl, which counts those of all ranks, gets nRanks times as much (density at most 1, k at most n), so no candidate
   delivers fewer entries than topka. One that cannot have it within maxDensity is left out.
   A change of method keeps residual and velocity. Thresholds begin anew; a dense sum takes the residual along. Ranks decide
   by the same numbers, so they change in the same step. Sums are equal on all ranks; in another run they are the same only
   if that replays the plan (sparsecollReducerConfig_t). Import goes on with what the state had decided. After Reset,
   ImportFrom and Move trials begin anew.
   The reducer holds the workspace of all candidates. Auto has trials in host memory, with and without momentum or clipping.
   On devices, transactional, with SPARSECOLL_SELECT_NOTHING and in AllReduce it chooses once: dense below 65536 elements or
   above density 0.25, else topka. RunSparse is Unsupported.

   Selectors and collectives. Tensors can be sent dense beside any of these pairs (sparsecollSegment_t). Any selector goes
   with any collective, with these exceptions, which are Unsupported: spardl cuts blocks to select from, as topk alone
   can; and selectors that share one density need a collective in which every rank sees the list of every other one.
       topk
           with dense allgather index_union spardl ok_topk gtopk sparcml split_gather topkdsa
       threshold sampled sidco sage gaussian random chunk_topk redsync reused_topk random_of_top
           with dense allgather index_union ok_topk gtopk sparcml split_gather topkdsa
       deft micro exdyna leader_topk
           with dense allgather index_union

   Nodes. With params.collective Hierarchical a step takes three exchanges, and density and k count entries per node.
   Inside a node (sparsecollConfig_t.ranksPerNode) the gradients are summed dense, in rank order, and every rank gets a
   shard of the sum. There are as many shards as the smallest node has ranks; a further rank of a larger node gets none.
   The owners of a shard, one in every node, reduce it among themselves by params.selector and params.betweenNodes, which
   go together as above: the step above, with nodes for ranks and the node's sum for the gradient, so that its law holds
   for what nodes put in. Selection, residual, velocity and its memory are the shard's. Then every node gathers the shards
   of the result. Nodes count by their lowest ranks, sparsecollAvg divides by nRanks, and out has the same bits on all
   ranks. Segments are cut where shards are. In host memory, and on devices over NCCL; Unsupported are other engines on
   devices, ReducerRunSparse, SPARSECOLL_ACCUMULATE, SPARSECOLL_AVERAGE_CONTRIBUTORS, config.buffer and velocity of a
   reducer, ReducerSetDensity of one that has a schedule or was made for k, and Hierarchical between nodes.
   docs/guide/nodes.md has a picture.
   Threads. Each rank needs a thread of its own, because collective calls wait for the other ranks. There are no group
   calls: one thread cannot drive several ranks. One thread at a time uses a communicator and the reducers on it. Any
   thread at any moment may call CommGetAsyncError, CommGetFailure, CommGetPeerFailure, CommDumpFlightRecorder,
   CommAbort, GetStats, ReducerGetStats and GetLastError.
   Streams and CommWait. On host communicators the stream must be NULL, and every call has finished when it returns:
   CommWait is never needed. On devices the calls of reducers enqueue their work on the stream (NULL: the device's
   default one; cudaStreamPerThread, which is another one in each thread, is InvalidArgument) and return; out is ready
   for what is enqueued on that stream behind them. Call CommWait before the host relies on a step: it tells what went
   wrong in enqueued work, NonFinite included, and over NCCL it alone notices that a rank is missing. Vectors and
   stream are of the rank's device, which need not be current. Calls on sparse vectors, and AllReduce, wait for the
   stream. They return what went wrong in it, also in work that was enqueued before them.
   Calls of a reducer take effect in stream order. If its steps change from one stream to another, let the other one wait
   for the first (an event). The stream of a reducer's latest step has to live until its next step or its destruction.
   One call or a reducer. sparsecollAllReduce makes a reducer, runs one step and destroys the reducer. So every call
   allocates and pays two more exchanges among the ranks than a step of a reducer does. It keeps no residual: what is not
   selected is lost, for there is no error feedback. On the host the sum is there when the call returns. On devices the
   call waits for the step as CommWait does. In training, use a reducer.

   Errors. InvalidArgument in every call: a NULL handle, an output pointer that is NULL, a struct that SPARSECOLL_INIT has
   not filled in, a stream on a host communicator, or cudaStreamPerThread. InvalidUsage in every call: a destroyed or
   foreign handle.
   These codes leave the communicator alive:
       Success InvalidArgument InvalidUsage OutOfMemory Unsupported Mismatch Capacity NonFinite
   These codes end it when the exchange of a collective call, or CommWait, fails with them:
       CudaError SystemError InternalError RemoteError Timeout Aborted PeerFailed Corrupted AuthFailed
   No call returns this code:
       InProgress
   There are exceptions. CommWait's own Timeout leaves the communicator alive. So does a failure outside of an exchange:
   Corrupted of ReducerImport and ReducerImportFrom, which read the caller's bytes, SystemError of CommDumpFlightRecorder and
   of a tuner file that ReducerCreate cannot read, and any code of CommSplit and CommShrink that says why there is no new
   communicator. CommGetAsyncError tells whether a communicator has ended, and by which code.
   The collective calls of a communicator that has ended, and CommWait, return the code that ended it. What remains useful:
       CommGetInfo CommGetDetails CommGetAsyncError CommGetFailure CommGetPeerFailure to learn what happened
       GetStats ReducerGetInfo ReducerGetStats to learn what was done
       CommDumpFlightRecorder to learn who held up whom
       CommShrink and ReducerMove to go on with the ranks that are left
       ReducerGetResidual ReducerExport ReducerFlush to rescue what was not sent yet
       CommAbort CommDestroy ReducerDestroy to end
   Memory. Input and output are equal or disjoint; a partial overlap is InvalidArgument, and so is a vector that shares
   bytes with the reducer's residual or velocity, or whose own parts share bytes. Pointers need the alignment of their
   element type. Structs, strings and arrays passed in are copied before a call returns. */
#ifndef SPARSECOLL_H_
#define SPARSECOLL_H_

#include <stddef.h>
#include <stdint.h>

#define SPARSECOLL_VERSION(major, minor, patch) ((major) * 10000 + (minor) * 100 + (patch))
#define SPARSECOLL_VERSION_CODE SPARSECOLL_VERSION(0, 1, 0)
#define SPARSECOLL_MAGIC 0x53504331u     /* "SPC1" */
/* Where the vectors of a rank are, wherever a call takes or gives a device: in host memory, on the calling thread's
   current CUDA device, or on the device of a CUDA ordinal (0 and up). A call that cannot have one of them says which. */
#define SPARSECOLL_HOST (-1)
#define SPARSECOLL_CURRENT_DEVICE (-2)
#define SPARSECOLL_NO_TIMEOUT UINT64_MAX /* must be asked for; 0 always means "the default" */
#define SPARSECOLL_UNIQUE_ID_BYTES 128
#define SPARSECOLL_NON_FINITE_NAMED 16u  /* most non-finite entries of a rank that a step names to the others */

#if defined(__GNUC__)
#define SPARSECOLL_API __attribute__((visibility("default"), warn_unused_result))
#define SPARSECOLL_API_QUIET __attribute__((visibility("default")))
#else
#define SPARSECOLL_API
#define SPARSECOLL_API_QUIET
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- handles ------------------------------------------------------------------------------------------------------ */

/* Opaque tokens. NULL is never a live handle; Destroy(NULL) succeeds; a destroyed handle is recognised and refused. */
typedef struct sparsecollComm* sparsecollComm_t;
typedef struct sparsecollReducer* sparsecollReducer_t; /* layout, method, residual, workspace of one gradient */
typedef struct CUstream_st* sparsecollStream_t;        /* the tag of cudaStream_t: pass one without a cast */
struct ncclComm;                                       /* ncclComm_t is a pointer to it */

/* ---- enumerations ------------------------------------------------------------------------------------------------- */

/* Every value below works, or its comment says "Unsupported in this version". Numbers are never reused.

   Results. 0 to 8 keep NCCL's numbers and meaning. The head of this file says which of them end a communicator. */
typedef enum {
  sparsecollSuccess = 0,
  sparsecollCudaError = 1,
  sparsecollSystemError = 2,     /* the operating system failed, or an engine of the caller's */
  sparsecollInternalError = 3,   /* a fault of this library's */
  sparsecollInvalidArgument = 4, /* the call had no effect */
  sparsecollInvalidUsage = 5,    /* right arguments at the wrong time, for example a destroyed handle */
  sparsecollRemoteError = 6,     /* NCCL lost a peer, or the caller's all-gather failed */
  sparsecollInProgress = 7,      /* Unsupported in this version: no call returns it */
  sparsecollTimeout = 8,         /* ranks or the stream did not come in time */
  sparsecollOutOfMemory = 16, /* no effect; retry after freeing memory */
  sparsecollUnsupported = 17, /* this build, device or version cannot do it */
  sparsecollMismatch = 18,    /* ranks disagree on order, length, type or parameters; raised on all of them */
  sparsecollCapacity = 19,    /* an output vector is too small; its count holds the need */
  sparsecollNonFinite = 20,   /* only under sparsecollNonFiniteError */
  sparsecollAborted = 32,     /* CommAbort was called on this rank */
  sparsecollPeerFailed = 33,  /* another rank aborted, failed, died, or destroyed its communicator */
  sparsecollCorrupted = 34,   /* a message or an exported state is damaged */
  sparsecollAuthFailed = 35,  /* a rank has another key; only calls that make a communicator return it */
  sparsecollResultMaxEnum = 0x7fffffff
} sparsecollResult_t;

typedef enum { /* NCCL's numbers */
  sparsecollFloat16 = 6,
  sparsecollFloat32 = 7,
  sparsecollFloat64 = 8,
  sparsecollBfloat16 = 9,
  sparsecollDataTypeMaxEnum = 0x7fffffff
} sparsecollDataType_t;

typedef enum { sparsecollSum = 0, sparsecollAvg = 4, sparsecollRedOpMaxEnum = 0x7fffffff } sparsecollRedOp_t;

/* Number format of values in messages. Default and Same: the accumulate type, so nothing is rounded on the wire. */
typedef enum {
  sparsecollWireDefault = 0,
  sparsecollWireSame = 1,
  sparsecollWireF16 = 2,    /* Unsupported in this version */
  sparsecollWireBf16 = 3,   /* Unsupported in this version */
  sparsecollWireF8e4m3 = 4, /* Unsupported in this version */
  sparsecollWireF8e5m2 = 5, /* Unsupported in this version */
  sparsecollWireMaxEnum = 0x7fffffff
} sparsecollWire_t;

/* Number format of indices in a caller's sparse vector. */
typedef enum {
  sparsecollIndexDefault = 0, /* U32 */
  sparsecollIndexU32 = 1,
  sparsecollIndexU64 = 2, /* ReducerRunSparse takes U32 only */
  sparsecollIndexMaxEnum = 0x7fffffff
} sparsecollIndexType_t;

/* Where the vectors of a communicator lie. */
typedef enum {
  sparsecollBackendAuto = 0,
  sparsecollBackendHost = 1,
  sparsecollBackendCuda = 2, /* Unsupported in a build without CUDA and without a driver */
  sparsecollBackendMaxEnum = 0x7fffffff
} sparsecollBackend_t;

/* What carries the messages. A call that makes a communicator takes the ones that it can make, others are Unsupported. */
typedef enum {
  sparsecollTransportAuto = 0,
  sparsecollTransportThreads = 1,   /* CommInitAll */
  sparsecollTransportUcx = 2,       /* CommInitRank, CommInitEnv, CommInitOob */
  sparsecollTransportNccl = 3,      /* CommInitRank, CommInitEnv, CommInitOob, CommInitNccl */
  sparsecollTransportEngine = 4,    /* CommInitEngine */
  sparsecollTransportSimulated = 5, /* Unsupported in this version */
  sparsecollTransportTcp = 6,       /* CommInitRank, CommInitEnv, CommInitOob */
  sparsecollTransportMaxEnum = 0x7fffffff
} sparsecollTransport_t;

/* How sparse vectors on P ranks become their sum; one name per published algorithm. Auto is resolved once, at create. */
typedef enum {
  sparsecollCollAuto = 0,
  sparsecollCollDense = 1,
  sparsecollCollAllGather = 2,
  sparsecollCollIndexUnion = 3,
  sparsecollCollSparDL = 4,
  sparsecollCollOkTopk = 5,
  sparsecollCollGTopk = 6,
  sparsecollCollSparCML = 7, /* recursive doubling */
  sparsecollCollHierarchical = 8, /* dense inside a node, params.betweenNodes between nodes */
  sparsecollCollSplitGather = 9, /* SparCML's split-allgather */
  sparsecollCollTopkDSA = 10,    /* the same with another switch to dense */
  sparsecollCollMaxEnum = 0x7fffffff
} sparsecollColl_t;

/* Which entries of a dense vector travel. */
typedef enum {
  sparsecollSelectDefault = 0, /* top-k */
  sparsecollSelectTopK = 1,
  sparsecollSelectThreshold = 2,
  sparsecollSelectSampled = 3,
  sparsecollSelectSidco = 4,
  sparsecollSelectSage = 5,
  sparsecollSelectDeft = 6,
  sparsecollSelectMicro = 7,
  sparsecollSelectExDyna = 8,
  sparsecollSelectLeaderTopK = 9,
  sparsecollSelectGaussian = 10,
  sparsecollSelectRandom = 11,
  sparsecollSelectChunkTopK = 12,
  sparsecollSelectRedSync = 13,
  sparsecollSelectReusedTopK = 14,
  sparsecollSelectRandomOfTop = 15, /* k at random of the r largest */
  sparsecollSelectAuto = 16, /* the preset auto: selector and collective that trials have shown to be the fastest */
  sparsecollSelectMaxEnum = 0x7fffffff
} sparsecollSelect_t;

/* What Sidco fits to the magnitudes. */
typedef enum {
  sparsecollDistributionDefault = 0, /* Pareto */
  sparsecollDistributionExponential = 1,
  sparsecollDistributionGammaPareto = 2, /* gamma first, generalised Pareto for the tails */
  sparsecollDistributionPareto = 3,      /* generalised Pareto */
  sparsecollDistributionMaxEnum = 0x7fffffff
} sparsecollDistribution_t;

/* How SparDL's teams gather what each has for a block. */
typedef enum {
  sparsecollTeamGatherDefault = 0,   /* Recursive for a power of two of teams, else Bruck */
  sparsecollTeamGatherRecursive = 1, /* R-SAG: recursive doubling, cut after every round; teams a power of two */
  sparsecollTeamGatherBruck = 2,     /* B-SAG: each team gives an adaptive share, the sum is cut once */
  sparsecollTeamGatherMaxEnum = 0x7fffffff
} sparsecollTeamGather_t;

/* What a step does when an entry of some rank is NaN or Inf. Every rank's out gets a quiet NaN at (up to 16 per rank
   of) those entries, from the dense collective maybe an Inf; no residual or velocity keeps any, however the step ends.
   Propagate: the call succeeds. Error: it returns sparsecollNonFinite on all ranks. */
typedef enum {
  sparsecollNonFiniteDefault = 0, /* Propagate */
  sparsecollNonFinitePropagate = 1,
  sparsecollNonFiniteError = 2,
  sparsecollNonFiniteMaxEnum = 0x7fffffff
} sparsecollNonFinite_t;

/* How ranks know each other that meet over UCX or TCP. */
typedef enum {
  sparsecollSecurityDefault = 0, /* Keyed */
  sparsecollSecurityKeyed = 1,   /* both sides of a connection prove that they have the unique id's secret */
  sparsecollSecurityNone = 2,    /* Unsupported in this version */
  sparsecollSecurityMaxEnum = 0x7fffffff
} sparsecollSecurity_t;

/* How important a line of log text is. SPARSECOLL_LOG names the least important ones that are written: error, warn, info
   or trace. */
typedef enum {
  sparsecollLogError = 1,
  sparsecollLogWarn = 2,
  sparsecollLogInfo = 3,
  sparsecollLogTrace = 4
} sparsecollLogLevel_t;

/* ---- structs ------------------------------------------------------------------------------------------------------ */

/* Extensible structs start with these three fields; fill them with SPARSECOLL_INIT(type). In any later field 0 means
   "the default". Fields are added at the tail only; a caller built against a newer header whose extra fields are not
   all 0 gets sparsecollUnsupported. */
#define SPARSECOLL_STRUCT_HEAD \
  size_t structSize;           \
  uint32_t magic;              \
  uint32_t headerVersion
#ifdef __cplusplus
extern "C++" {
template <class T>
inline T sparsecollInit() noexcept {
  T value{};
  value.structSize = sizeof(T);
  value.magic = SPARSECOLL_MAGIC;
  value.headerVersion = SPARSECOLL_VERSION_CODE;
  return value;
}
}
#define SPARSECOLL_INIT(type) sparsecollInit<type>()
#else
#define SPARSECOLL_INIT(type) \
  { .structSize = sizeof(type), .magic = SPARSECOLL_MAGIC, .headerVersion = SPARSECOLL_VERSION_CODE }
#endif

/* Receives one line of log text without a line end. May be called from any thread; must not call the library. */
typedef void (*sparsecollLogFn_t)(void* user, sparsecollLogLevel_t level, const char* subsystem, const char* text);

/* What ranks of one communicator find each other by. May hold a secret: never log it. */
typedef struct {
  uint8_t bytes[SPARSECOLL_UNIQUE_ID_BYTES];
} sparsecollUniqueId_t;

#define SPARSECOLL_ALLOCATOR_ALIGNMENT 256

/* Where a communicator and its reducers take their memory from, for example a framework's caching allocator. The struct is
   copied; what it points to has to stay until all communicators of the call and their reducers are destroyed. The library
   may call both functions on any thread, but never in a step of a reducer. They must not call the library.
   allocate returns memory where the communicator's vectors are, on the host or on its device, which is the thread's
   current one during the call. The memory is aligned to SPARSECOLL_ALLOCATOR_ALIGNMENT, and bytes is a multiple of it.
   NULL means that there is none: the call of the library ends with OutOfMemory. stream is NULL on the host, else a stream
   of the library's own, in whose order it uses the memory first.
   release gets what allocate got. Nothing uses the memory any more. */
typedef struct {
  SPARSECOLL_STRUCT_HEAD;
  void* user;
  void* (*allocate)(void* user, size_t bytes, sparsecollStream_t stream);
  void (*release)(void* user, void* ptr, size_t bytes, sparsecollStream_t stream);
} sparsecollAllocator_t;

typedef struct {
  SPARSECOLL_STRUCT_HEAD;
  int32_t backend;               /* sparsecollBackend_t */
  int32_t transport;             /* sparsecollTransport_t */
  int32_t nonFinite;             /* sparsecollNonFinite_t */
  int32_t reserved0;             /* 0 */
  uint64_t opTimeoutMs;          /* longest wait for the other ranks in one call; default 600000 */
  uint64_t workspaceLimitBytes;  /* most memory a communicator and its reducers may hold on a rank; default: no limit */
  const char* name;              /* shown in logs and failures; copied */
  sparsecollLogFn_t logFn;       /* default: stderr, and only if the environment sets SPARSECOLL_LOG */
  void* logUser;
  uint64_t initTimeoutMs;        /* longest wait for the other ranks while a communicator is made; default 120000 */
  uint64_t abortTimeoutMs;       /* longest wait for an engine or a device to be done with memory that is to go back;
                                    default 10000 */
  const char* interfaceName;     /* the network interface that ranks meet on, its address, or "auto"; copied. Default: see
                                    GetUniqueId.
                                    For UCX and TCP other ranks take loopback where all share a host, else the one that leads
                                    to rank 0 */
  int32_t security;              /* sparsecollSecurity_t */
  int32_t reserved1;             /* 0 */
  const sparsecollAllocator_t* allocator; /* default: the process; on devices a pool of the library's own */
  int32_t ranksPerNode;          /* for Hierarchical: ranks 0 to ranksPerNode - 1 are a node, the next ones another; the last
                                    may have fewer. Default: what SPARSECOLL_RANKS_PER_NODE says; else ranks of one host are.
                                    Ranks stay on their nodes in what CommSplit and CommShrink make without a config */
  int32_t reserved2;             /* 0 */
} sparsecollConfig_t;

/* How ranks reach each other before there is a communicator, brought by the caller: MPI's all-gather, a key-value store,
   a file system. recv gets bytesPerRank bytes of every rank, by rank. 0: all is well. */
typedef struct {
  SPARSECOLL_STRUCT_HEAD;
  void* user;
  int (*allgather)(void* user, const void* send, void* recv, size_t bytesPerRank, uint64_t timeoutMs);
} sparsecollOob_t;

/* A message engine that the caller brings, MPI for example (sparsecoll/mpi.h fills it in): requests between ranks, in
   host memory. Functions return 0 when all is well. NULL is allowed where it says so.

   Threads. The library calls the functions inside its own calls on the communicator, on the thread that makes them, and
   never two at once. A trainer with one thread for those calls needs an engine for one thread. CommAbort on another thread
   calls isend, test and progress there, unless an operation is under way; then the operation's thread does it. Between calls
   of the library no function is called, so an engine without a thread of its own moves nothing then: the library waits for
   its sends before an operation returns. No function but release may wait for another rank. For vectors on a device a thread
   of the communicator's calls the functions, also between calls of the library; still never two at once.
   Messages. peer is 0 to nRanks - 1, never the own rank. Tags are 0 to SPARSECOLL_ENGINE_TAGS - 1. Messages from one rank
   to another with the same tag arrive in the order of isend, in the receives in the order of irecv. Messages with
   different tags are independent. A message has 0 to SPARSECOLL_ENGINE_MESSAGE_BYTES bytes; the library cuts longer ones.
   isend may be called long before the peer's irecv, and irecv long before the peer's isend. Any number of both may be
   under way.
   Requests. *request is the engine's, from isend, irecv or iallreduce until test has said that it is done. */
#define SPARSECOLL_ENGINE_TAGS 8
#define SPARSECOLL_ENGINE_MESSAGE_BYTES ((size_t)1 << 30)
typedef struct {
  SPARSECOLL_STRUCT_HEAD;
  void* user; /* first argument of every function */
  /* Sends. data stays as it is until the request is done. */
  int (*isend)(void* user, int peer, int tag, const void* data, size_t bytes, void** request);
  /* Receives. A shorter message than capacity is good. A longer one is an error of the request: it is not cut, and nothing
     is written past capacity. */
  int (*irecv)(void* user, int peer, int tag, void* data, size_t capacity, void** request);
  /* *done = 1: the request is done and freed, and its memory is not in use any more. *receivedBytes: of a receive. */
  int (*test)(void* user, void** request, int* done, size_t* receivedBytes);
  /* The library has no use for the request any more. It goes on to test until the request is done in one way or another,
     also where this fails, which is no error: a request need not be one that can be cancelled.
     A request that is not done after abortTimeoutMs stays the engine's for ever; its memory is then never freed. */
  int (*cancel)(void* user, void** request);
  /* NULL: the library sums on its own. Else out = the sum (op: sparsecollSum) of all ranks' in, of count elements of
     dataType; in equals out on all ranks or on none. Every rank calls it at the same place in the order of its calls. To
     return sparsecollUnsupported, on all ranks, leaves this sum to the library. Where the engine cannot cancel it, in and
     out must live on after an error until CommDestroy has returned. They are the vectors of ReducerRun or AllReduce; on
     devices, and of tensors that are sent dense, they are the library's. */
  int (*iallreduce)(void* user, const void* in, void* out, uint64_t count, int32_t dataType, int32_t op, void** request);
  /* NULL: test is enough. Moves what is under way. */
  int (*progress)(void* user);
  /* NULL: nothing to free. The last call, inside CommDestroy. Messages to this rank that it never received may still be
     under way. */
  void (*release)(void* user);
} sparsecollEngine_t;

/* sparsecollParams_t.flags */
#define SPARSECOLL_ACCUMULATE 2u      /* add into out instead of overwriting it; dense: the sum as its type rounds it */
#define SPARSECOLL_OUT_PRESERVED 8u   /* out is the same pointer every step and only this library writes it */
#define SPARSECOLL_SELECT_NOTHING 16u /* density = k = 0 on purpose */
#define SPARSECOLL_NO_RESIDUAL 32u    /* no error feedback: what is not sent is lost (for ablations) */
#define SPARSECOLL_MOMENTUM_KEPT 64u  /* with momentum: velocity stays where an entry was sent (no factor masking) */
#define SPARSECOLL_NESTEROV 128u      /* with momentum: the residual gets input + momentum * velocity */
/* With sparsecollAvg: every entry of out is divided by the number of ranks whose values are in it instead of by nRanks,
   which is another number with AllGather only; that rules out GiveBack. Unsupported with collectives that cannot know
   it, and with AllGather beside tensors that are sent dense. */
#define SPARSECOLL_AVERAGE_CONTRIBUTORS 256u

/* A method: everything a preset fills. Extended at its tail only. */
typedef struct {
  SPARSECOLL_STRUCT_HEAD;
  int32_t selector;   /* sparsecollSelect_t */
  int32_t collective; /* sparsecollColl_t */
  int32_t faithful;   /* 1: the published rule, where the default is better (docs/algorithms); 2: Gaussian as in Ok-Topk, Sage
                         as in its authors' first program */
  int32_t op;         /* sparsecollRedOp_t */
  int32_t wire;       /* sparsecollWire_t */
  uint32_t flags;     /* SPARSECOLL_* above */
  double density;     /* k / n, in (0, 1]; give density or k, leave the other 0 */
  uint64_t k;         /* entries; more than n means n. k = floor(density * n + 1e-9 * n), at least 1 per unit selected from */
  double threshold;   /* Threshold: keep |acc| >= threshold; 0: 1 / (2 sqrt(k)) (Dutta et al. 2021). MiCRO: first threshold */
  double inputScale;  /* of the first steps, see ReducerSetScales; 0 means 1 */
  double outputScale; /* of the first steps; 0 means 1 */
  uint64_t seed;      /* Random, RandomOfTop: of what is drawn */
  uint64_t tag;       /* the caller's bucket id, shown in mismatch reports */
  int32_t distribution; /* sparsecollDistribution_t, for Sidco */
  int32_t teams;        /* SparDL: groups of ranks, a divisor of their number; 0: chosen by cost, see docs/algorithms */
  int32_t teamGather;   /* sparsecollTeamGather_t, for SparDL */
  int32_t chunk;        /* ChunkTopK: elements of a chunk, up to 65536; 0: 4096. density counts in every chunk */
  /* What happens to the gradient on the way into the residual, in the order scale, clip, momentum, accumulate. Needs a
     reducer: Select takes none of the three, AllReduce and SPARSECOLL_NO_RESIDUAL only clipNorm. */
  double momentum;      /* [0, 1): velocity = momentum * velocity + input is accumulated in place of the input; 0: none
                           (Lin et al. 2018: momentum correction). Velocity is cleared where an entry left the residual,
                           but kept by the dense collective and in tensors sent dense: there out is the sum's momentum */
  double clipNorm;      /* this rank's scaled gradient is scaled down to an L2 norm of clipNorm / sqrt(nRanks), over nodes
                           the node's sum to clipNorm / sqrt(nodes); 0: never. A norm that is NaN or Inf clips nothing */
  double residualDecay; /* (0, 1]: multiplies the residual before each step; what that takes is lost; 0 means 1. No
                           effect on the dense collective, which has no residual */
  uint64_t candidates;  /* RandomOfTop: r, of which k are sent; at least k, more than n means n; 0: 2 k */
  int32_t betweenNodes; /* sparsecollColl_t between nodes, for Hierarchical; Auto is resolved as collective is */
  int32_t reserved0;    /* 0 */
} sparsecollParams_t;

/* One tensor of the flat gradient, for per-tensor rules.
   A tensor with dense = 1 is not selected from. The engine's dense all-reduce sums it in the same step, in the accumulate
   type; the selection finds zeros there. k and density count the elements of all other tensors. It leaves nothing in the
   residual, and its velocity is kept. This goes with every selector and every collective. */
typedef struct {
  uint64_t length;  /* elements, > 0 */
  double density;   /* (0, 1]; 0: the method's. For the selector TopK, and not with SparDL; else Unsupported */
  int32_t dense;    /* 1: send every entry of it; then density has no effect */
  int32_t reserved0;
} sparsecollSegment_t;

#define SPARSECOLL_SORTED 1u /* sparsecollVector_t.flags: indices strictly increasing, hence unique */

/* A sparse vector; the three pointers are in the communicator's memory space. */
typedef struct {
  void* values;
  void* indices;
  uint64_t* count;    /* entries in use, at most capacity; read and written in stream order */
  uint64_t capacity;  /* slots in values and indices */
  uint64_t length;    /* dense length the indices refer to: each index < length */
  int32_t dataType;   /* sparsecollDataType_t of values */
  int32_t indexType;  /* sparsecollIndexType_t */
  uint32_t flags;     /* SPARSECOLL_SORTED; set by the library on outputs that are sorted */
  uint32_t reserved0; /* 0 */
  uint64_t reserved[8];
} sparsecollVector_t;

/* A method of a reducer's, which runs its steps from this one on; the first step is 0. */
typedef struct {
  uint64_t step;
  int32_t selector;   /* as in sparsecollReducerInfo_t */
  int32_t collective; /* sparsecollColl_t */
} sparsecollChoice_t;

typedef struct {
  SPARSECOLL_STRUCT_HEAD;
  const sparsecollSegment_t* segments; /* tensors in order, lengths add up to n; NULL: one segment. If any has a density,
                                          every segment is selected from on its own, unless it is sent dense */
  uint64_t segmentCount;
  double maxDensity;      /* memory and messages are planned for this density, so that SetDensity may ask for it and no step
                             of a schedule allocates; default: for the density of the step, see densitySchedule */
  void* buffer;           /* residual in the caller's memory: n elements of accumulateType (2n when transactional), read at
                             create, so zero it first; survives Destroy. Default: library-owned, zeroed */
  int32_t accumulateType; /* sparsecollDataType_t; default: Float64 for Float64 gradients, else Float32; another type is
                             Unsupported */
  int32_t transactional;  /* 1: two residual buffers; a failed or non-finite step leaves the residual exactly as it was */
  const double* densitySchedule; /* warm-up: densities in (0, 1] of the first steps after create and Reset, scheduleSteps
                                    steps each; then the method's. The same on all ranks. NULL: none (Lin et al. 2018:
                                    0.25, 0.0625, 0.015625, 0.004, an epoch each, before 0.001). Without maxDensity the first
                                    step of each density plans memory and messages anew. It waits for the other ranks and
                                    for its stream. If a rank has no memory for both plans, all keep a larger one. Over
                                    nodes of different sizes they are planned once, for the largest density */
  uint64_t densityScheduleCount; /* densities */
  uint64_t scheduleSteps;        /* > 0 with a schedule; counted are steps that got as far as their exchange */
  uint64_t denseNs;              /* the preset auto: nanoseconds that a dense all-reduce of the gradient takes by the caller's
                                    own means; the largest of the ranks' numbers takes the place of dense's trials. 0: it is
                                    measured. Where Info then names the dense collective, the caller may sum that way:
                                    ReducerFlush first, as the residual has what was not sent yet */
  const sparsecollChoice_t* plan; /* the preset auto: what ReducerGetPlan told of another run, to be run again without trials;
                                     the same on all ranks. NULL: trials decide */
  uint64_t planCount;
  void* velocity;         /* velocity in the caller's memory, as buffer has the residual; InvalidArgument without momentum.
                             It is of this rank's input alone, in dense steps too. A transactional reducer begins with the
                             first half of both; the one in use is where GetResidual's is. Default: library-owned, zeroed */
} sparsecollReducerConfig_t;

/* Counters of a reducer or a communicator on this rank. Times are nanoseconds, sizes bytes, last*: the latest step. On
   devices times are those of the latest step that the device has finished, and 0 before there is one. */
typedef struct {
  SPARSECOLL_STRUCT_HEAD;
  uint64_t opsStarted, opsCompleted;
  uint64_t opsDense;      /* steps that ran the dense collective */
  uint64_t opsNonFinite;  /* steps in which some rank saw NaN or Inf */
  uint64_t opsOverflow;   /* steps in which a message was full and entries stayed in the residual */
  uint64_t opsFallback;   /* steps whose threshold for candidates was wrong: exact selection read acc again */
  uint64_t bytesDense;    /* what ring all-reduce would have sent */
  uint64_t bytesSent, bytesReceived;
  uint64_t workspaceBytes, workspacePeakBytes;
  uint64_t lastSequence, lastLength;
  uint64_t lastRequested; /* k */
  uint64_t lastSelected;  /* entries this rank sent */
  uint64_t lastUnion;     /* distinct entries of the sum; dense output counts them only for exclusive partitions,
                             otherwise it is the sum of the ranks' counts, an upper bound */
  uint64_t lastCandidates;
  uint64_t lastBytesSent;
  uint64_t lastSelectNs, lastExchangeNs, lastScatterNs, lastTotalNs;
  double lastThreshold;   /* what the entries that this rank selected reach or exceed, but for those that a method picks
                             whatever they are: its threshold, or the smallest magnitude of an exact selection; 0: none
                             (randomk, ranks that follow a leader, selections by tensor or chunk) */
  double lastImbalance;   /* largest / mean entries per rank */
  int32_t lastCollective; /* sparsecollColl_t */
  int32_t reserved0;
  uint64_t entriesLost;   /* entries that a faithful method forgot on the way, as published (gTop-k), and over nodes those
                             of residuals that a reducer did not find on the ranks that it moved to (ReducerMove); else 0 */
  uint64_t lastRounds;    /* communication rounds of the latest step; in one a rank may talk to several peers */
  uint64_t lastMessagesSent; /* frames that this rank sent in it */
  uint64_t bytesAbandoned; /* of a communicator: device memory that never goes back, because work that uses it did not end
                              in abortTimeoutMs */
  uint64_t bytesSentBetweenNodes, bytesReceivedBetweenNodes; /* of bytesSent and bytesReceived: to and from other nodes.
                              Counted in steps of Hierarchical only */
} sparsecollStats_t;

/* What a reducer will run and why. */
typedef struct {
  SPARSECOLL_STRUCT_HEAD;
  int32_t selector, collective; /* after Auto was resolved */
  uint64_t n, k;                /* k: entries requested, see densityIsGlobal, and all of what is sent dense; with a
                                   schedule those of the latest step */
  uint64_t capacity;            /* most entries this rank sends in a step; with a schedule in the next one, too */
  uint64_t workspaceBytes;      /* all memory the reducer holds, with residual and velocity unless caller-owned */
  uint64_t memoryBoundBytes;    /* the method's declared bound, see docs/algorithms */
  int32_t densityIsGlobal;      /* 1: k counts the union over ranks (exclusive partitions); 0: entries per rank */
  int32_t teams;                /* SparDL, else 1 */
  char reason[128];             /* one sentence on the choice */
  int32_t betweenNodes;         /* of Hierarchical: the collective between nodes, after Auto was resolved; else Auto */
  int32_t nodes;                /* and how many there are; else 0 */
  uint64_t shardBegin, shardLength; /* and the part of the vector whose selection and residual are this rank's: k and capacity
                                   are the shard's; else 0 and n */
} sparsecollReducerInfo_t;

/* A communicator and what it runs over. */
typedef struct {
  SPARSECOLL_STRUCT_HEAD;
  int32_t rank, nRanks;
  int32_t device;    /* SPARSECOLL_HOST or the rank's CUDA ordinal */
  int32_t transport; /* sparsecollTransport_t: the engine, the same on all ranks; never Auto */
  char reason[128];  /* why this one, in a sentence */
  char interfaceName[64]; /* network interface and address where the other ranks reach this one, "eth0 10.0.0.1"; empty:
                             they share a process, or the engine does not tell */
} sparsecollCommDetails_t;

/* The latest failure of a communicator; a fatal one stays. result is Success while there was none. */
typedef struct {
  SPARSECOLL_STRUCT_HEAD;
  int32_t result;    /* sparsecollResult_t */
  int32_t peer;      /* rank concerned, -1 if none */
  uint64_t sequence; /* operation number on the communicator */
  char field[32];    /* the field ranks disagree on, or empty */
  char text[256];
} sparsecollFailure_t;

/* ---- library ------------------------------------------------------------------------------------------------------ */

/* SPARSECOLL_VERSION_CODE of the loaded library. Any thread. */
SPARSECOLL_API_QUIET int sparsecollGetVersion(void);

/* One line of JSON: version, commit, compiler, instruction sets, back ends. Static storage. Any thread. */
SPARSECOLL_API_QUIET const char* sparsecollGetBuildInfo(void);

/* A short English name of result; never NULL. Static storage. Any thread. */
SPARSECOLL_API_QUIET const char* sparsecollGetErrorString(sparsecollResult_t result);

/* The name of an enumeration's value, for logs, tables and command lines: "topk", "allgather", "f32", "host", "ucx". 0 is
   "default" or "auto". A number that the enumeration does not have is "unknown"; never NULL. Numbers are int32_t, as in
   the structs. Static storage. Any thread. */
SPARSECOLL_API_QUIET const char* sparsecollSelectorName(int32_t selector);     /* sparsecollSelect_t */
SPARSECOLL_API_QUIET const char* sparsecollCollectiveName(int32_t collective); /* sparsecollColl_t */
SPARSECOLL_API_QUIET const char* sparsecollDataTypeName(int32_t type);         /* sparsecollDataType_t */
SPARSECOLL_API_QUIET const char* sparsecollBackendName(int32_t backend);       /* sparsecollBackend_t */
SPARSECOLL_API_QUIET const char* sparsecollTransportName(int32_t transport);   /* sparsecollTransport_t */

/* What went wrong in this thread's latest failed call; "" if none failed. Valid until its next failed call. */
SPARSECOLL_API_QUIET const char* sparsecollGetLastError(void);

/* *available = 1 if this process can use the pair now. An engine of the caller's needs nothing but the backend.
   Errors: InvalidArgument (also of SPARSECOLL_DISABLE_ENGINES, see GetUniqueId). Any thread. */
SPARSECOLL_API sparsecollResult_t sparsecollBackendAvailable(int32_t backend, int32_t transport, int* available);

/* ---- communicators ------------------------------------------------------------------------------------------------ */

/* Makes nRanks communicators inside this process, rank i in comms[i]; each is then used by its own thread.
   devices: NULL or SPARSECOLL_HOST everywhere for host memory, else a device for each rank, which may be equal. config:
   NULL for defaults. nRanks: 1 to 1024, on devices to 256. Errors: InvalidArgument (also some ranks in host memory and
   some on devices), Unsupported (no CUDA in this build, no driver), CudaError, OutOfMemory; then comms is untouched. */
SPARSECOLL_API sparsecollResult_t sparsecollCommInitAll(sparsecollComm_t* comms, int nRanks, const int* devices,
                                                        const sparsecollConfig_t* config);

/* Fills *id for one new communicator: rank 0 calls it, and hands the bytes to all ranks by means of its own, which keep
   them secret. An id serves once and for initTimeoutMs; rank 0 joins in the process that made it.
   Which engine. The id says what config.transport says (config NULL: Auto). UCX, TCP or NCCL: that one. Auto: while the
   ranks meet they tell each other what each of them can use, and take the first that all can: for vectors on devices NCCL,
   else UCX, else TCP, which pass them through host memory; for vectors in host memory UCX, else TCP, which needs nothing
   installed. CommGetDetails tells which it was. What this process can use makes no difference here, so an id can be made
   where there is no device. The environment may take engines away from a process: SPARSECOLL_DISABLE_ENGINES has the words
   nccl, ucx and tcp, as many as are meant, with commas between.
   Where. Whatever the engine, ranks meet at a TCP port of rank 0's, at config.interfaceName ("auto": the first that leads
   elsewhere), or at the interface that the environment names in SPARSECOLL_INTERFACE; by default at loopback, by which
   the ranks of one host meet and no others. Ranks prove by libsodium that they have the id: a build without it has no
   ids; there CommInitOob and CommInitNccl work over NCCL, and CommInitEngine over MPI or anything else.
   Errors: InvalidArgument (no such interface; NCCL for host memory), Unsupported (no libsodium in this build; an engine
   that is none for ids), SystemError. Any thread. */
SPARSECOLL_API sparsecollResult_t sparsecollGetUniqueId(sparsecollUniqueId_t* id, const sparsecollConfig_t* config);

/* Makes this rank's communicator of nRanks (1 to 256) over the id's engine, in any mix of processes and threads. Collective:
   returns when all ranks have called it, or with Timeout after initTimeoutMs (half a second later on other ranks than 0,
   which then know why); the failure names the ranks that did not come. device: SPARSECOLL_HOST, SPARSECOLL_CURRENT_DEVICE or
   a CUDA ordinal; host memory on all ranks or on none. NCCL wants a device a rank; where ranks share one, Auto takes another
   engine. config.transport: Auto, or the id's engine; with an id that says Auto it may name one, which all ranks then have
   to use. After a fork the new process can use none of its parent's communicators: InvalidUsage.
   On all ranks alike: Unsupported (a rank cannot use the engine that was named, or there is none that all ranks can use;
   the failure says which engine, which rank and why), Mismatch (nRanks, version, kind of memory, engines named).
   Errors: those; InvalidArgument (also an engine that is not the id's, and NCCL with SPARSECOLL_HOST), InvalidUsage (an id
   that was used, has expired, or is for ranks of another host), CudaError, SystemError, RemoteError, InternalError,
   OutOfMemory, Timeout, PeerFailed, AuthFailed (another key); then *comm is untouched. */
SPARSECOLL_API sparsecollResult_t sparsecollCommInitRank(sparsecollComm_t* comm, int nRanks, const sparsecollUniqueId_t* id,
                                                         int rank, int device, const sparsecollConfig_t* config);

/* The same for the ranks of a job that torchrun, Kubeflow, Slurm's srun, sparsecoll-run, mpirun or mpiexec has started, or
   whoever set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT: rank, number of ranks and a place to meet come from the
   environment, as sparsecoll/launch.h reads it, which tells the rank before there is a communicator. Collective over the
   job's ranks; may be called again for a further one, on all ranks in the same order, one thread at a time. A program that
   nobody has launched is rank 0 of 1.
   Where. Rank 0 listens at its host (MASTER_ADDR, or the first node of a Slurm step), at a port that sparsecoll/launch.h
   tells: SPARSECOLL_PORT, else one of the 16 behind MASTER_PORT. The others try all of them; whoever listens there for
   something else is passed over. What they say carries the job (SPARSECOLL_JOB, else TORCHELASTIC_RUN_ID and MASTER_PORT,
   else the Slurm step) and its restarts. The resolver's own time-outs add to initTimeoutMs. On several hosts without
   MASTER_ADDR the launcher's PMIx or PMI, if it has one, hands on where rank 0 listens, and a key. With
   SPARSECOLL_LAUNCH_DIR ranks meet by a file instead.
   Who. SPARSECOLL_SECRET_FILE names a file of 16 bytes or more, the same on all ranks, that others cannot read: ranks prove
   that they have it, and all that follows has keys made with it. Without it, PMIx and PMI rank 0 admits whoever claims a rank
   first, and logs a warning once: see docs/security.md.
   Errors: as CommInitRank; InvalidArgument (also a variable or the secret file), Unsupported (also several ranks without a
   place to meet), SystemError (also no free port, a file that cannot be written), AuthFailed (another secret), Timeout
   (names the ranks that have not come, or says what answered in rank 0's place). */
SPARSECOLL_API sparsecollResult_t sparsecollCommInitEnv(sparsecollComm_t* comm, int device, const sparsecollConfig_t* config);

/* The same without an id: what ranks have to tell each other goes through the caller's all-gather, which is called a few
   times on this thread with up to 64 KiB a rank. The engine is the one that a rank's config.transport names, else the
   first that all ranks can use, as GetUniqueId says. Over UCX and TCP the all-gather carries the secret by which the ranks
   know each other afterwards, ranks of one host meet at loopback, others as GetUniqueId says; default there: "auto".
   Errors: as CommInitRank; RemoteError (the all-gather failed). */
SPARSECOLL_API sparsecollResult_t sparsecollCommInitOob(sparsecollComm_t* comm, int nRanks, int rank, int device,
                                                        const sparsecollOob_t* oob, const sparsecollConfig_t* config);

/* A communicator over an NCCL one that the caller has, on its ranks and device. Collective.
   takeSplit 1: over a copy (ncclCommSplit, NCCL 2.18); the caller's is free for anything else as soon as this returns. If
   that blocks, as by default, this waits for all ranks without a deadline. Was it made with splitShare = 1, NCCL aborts both
   where this library aborts its copy.
   takeSplit 0: over the very one. It stays the caller's: nobody else may use it until CommDestroy has returned, which does
   not destroy it; CommAbort and failures end this library's waits, but only the caller's ncclCommAbort frees a stream that
   is stuck in it; destroy it after this communicator and its reducers.
   Errors: as CommInitRank. */
SPARSECOLL_API sparsecollResult_t sparsecollCommInitNccl(sparsecollComm_t* comm, struct ncclComm* nccl, int takeSplit,
                                                         const sparsecollConfig_t* config);

/* Makes this rank's communicator of nRanks (1 to 1024) over the caller's engine, which is copied. Collective: returns when
   all ranks have called it, or with Timeout after initTimeoutMs. device: SPARSECOLL_HOST, SPARSECOLL_CURRENT_DEVICE or a
   CUDA ordinal; host memory on all ranks or on none. On devices there are at most 256 ranks, and what they send passes
   through pinned host memory. A function of the engine that returns another number than 0 ends the communicator: with
   PeerFailed for isend, irecv and test, with SystemError for progress and iallreduce. Errors: InvalidArgument, Unsupported
   (no CUDA in this build, a driver before CUDA 12), OutOfMemory, CudaError, Mismatch (another version, devices on some ranks
   only), Timeout, PeerFailed, SystemError, Corrupted; then *comm is untouched, and the engine is the caller's again: nothing
   is under way in it that could be cancelled, and release is not called. */
SPARSECOLL_API sparsecollResult_t sparsecollCommInitEngine(sparsecollComm_t* comm, int nRanks, int rank, int device,
                                                           const sparsecollEngine_t* engine,
                                                           const sparsecollConfig_t* config);

/* Makes a communicator of all ranks with the same color, for each color. key numbers its ranks; where keys are equal, the
   rank in comm does. Every rank of comm calls it; comm lives on. color SPARSECOLL_NO_COLOR: this rank gets no communicator,
   *newComm = NULL. config: NULL for comm's; transport and backend stay comm's. For host memory over threads, UCX and TCP.
   Errors: InvalidArgument (color < -1); Unsupported (devices, engines of the caller's); as a collective call on comm, which
   may end comm; as CommInitRank, while the new ranks meet, which leaves comm as it is. Then *newComm is untouched. */
#define SPARSECOLL_NO_COLOR (-1)
SPARSECOLL_API sparsecollResult_t sparsecollCommSplit(sparsecollComm_t comm, int color, int key, sparsecollComm_t* newComm,
                                                      const sparsecollConfig_t* config);

/* Makes a communicator of the ranks of comm that are left, in the same order. comm may be dead: after PeerFailed or Timeout
   each survivor calls this. Left out are the excluded ranks (all callers name the same; NULL and 0: none), ranks whose
   process has ended, and ranks that have destroyed comm; every other rank has to call. The callers agree among themselves
   on who is left, within initTimeoutMs. Afterwards comm has ended: destroy it once its reducers have moved.
   For host memory over threads, UCX and TCP. Errors: InvalidArgument, Unsupported (as CommSplit), Timeout (names who has
   not called), PeerFailed (this rank is excluded), InvalidUsage, SystemError; then *newComm is untouched, and comm is as dead
   or alive as it was. A rank that dies during the call is left out as well, or shows as PeerFailed or Timeout, after which
   all survivors may call again. */
SPARSECOLL_API sparsecollResult_t sparsecollCommShrink(sparsecollComm_t comm, const int* excludedRanks, int count,
                                                       sparsecollComm_t* newComm, const sparsecollConfig_t* config);

/* Any of the three pointers may be NULL. *device: SPARSECOLL_HOST or a CUDA ordinal. Errors: InvalidUsage (not a live
   communicator). */
SPARSECOLL_API sparsecollResult_t sparsecollCommGetInfo(sparsecollComm_t comm, int* rank, int* nRanks, int* device);

/* The same and the engine. Errors: InvalidArgument, InvalidUsage (not a live communicator). */
SPARSECOLL_API sparsecollResult_t sparsecollCommGetDetails(sparsecollComm_t comm, sparsecollCommDetails_t* details);

/* *state = the code that ended the communicator, or Success while it lives. Never blocks. Any thread.
   Errors: InvalidArgument, InvalidUsage. */
SPARSECOLL_API sparsecollResult_t sparsecollCommGetAsyncError(sparsecollComm_t comm, sparsecollResult_t* state);

/* Copies the latest failure, whether it ended the communicator or not. Any thread.
   Errors: InvalidArgument, InvalidUsage. */
SPARSECOLL_API sparsecollResult_t sparsecollCommGetFailure(sparsecollComm_t comm, sparsecollFailure_t* failure);

/* What is known of the other ranks, whether this rank is in a collective call or waits for something else. result is
   Success while none has failed; peer is then one that has destroyed its communicator in good order, or -1.
   PeerFailed: the process or host of rank peer has ended, or others have given up because of it, or it has aborted its
   communicator and destroyed it. Aborted: rank peer has aborted it because of no other rank, and still has it. text says
   how that is known. comm stays as it is: its next collective call that needs the rank fails.
   The end of a process is known within a moment, that of a host after SPARSECOLL_SILENCE_MS. Over UCX and TCP; other
   engines tell of no rank: Success. Never blocks. Any thread. Errors: InvalidArgument, InvalidUsage. */
SPARSECOLL_API sparsecollResult_t sparsecollCommGetPeerFailure(sparsecollComm_t comm, sparsecollFailure_t* failure);

/* Writes the communicator's last operations on this rank to a file of JSON: of each the call, the reducer's tag, preset, n
   and k, when it and its latest round began, how many bytes have gone, how it ended, and whom it still waits for. The
   program sparsecoll-flight reads the files of all ranks and says who held up whom.
   How many are remembered the environment says in SPARSECOLL_FLIGHT_RECORDER: 0 to 65536, default 64; 0 turns it off. path:
   the file; an earlier one is replaced as soon as the new one is whole. NULL: a file in the folder that the environment names
   in SPARSECOLL_FLIGHT_DIR, with communicator, rank, host and process in its name. Such a file is also written, without this
   call, when an operation ends with Mismatch or with a code that ends the communicator. Both variables are read when a
   communicator is made. Of devices the times are those of enqueuing, and rounds are not told.
   Waits for nothing but the file system, also while an operation hangs. Any thread, but not in the handler of a signal:
   docs/guide/flight-recorder.md shows a thread that waits for one.
   Errors: InvalidArgument (path is empty, too long or names something else than a plain file; NULL without the variable),
   InvalidUsage, Unsupported (the recorder is off), SystemError (the file cannot be written; the communicator lives). */
SPARSECOLL_API sparsecollResult_t sparsecollCommDumpFlightRecorder(sparsecollComm_t comm, const char* path);

/* Waits until the stream is done, an error is found, or timeoutMs (0: opTimeoutMs) have passed. Returns the first thing
   that kernels found wrong since the last call. A Timeout of this wait leaves the communicator alive: you may wait again.
   But an operation that takes longer than opTimeoutMs ends it, over NCCL inside this call, over UCX, TCP and other engines on
   the thread that serves them; then CommGetAsyncError says Timeout. On host communicators there is nothing to wait for:
   the call returns the code that ended the communicator, or Success.
   Errors: InvalidArgument, InvalidUsage, NonFinite, Timeout; CudaError and every other code that ends a communicator. */
SPARSECOLL_API sparsecollResult_t sparsecollCommWait(sparsecollComm_t comm, sparsecollStream_t stream, uint64_t timeoutMs);

/* Ends the communicator: every wait of this rank returns Aborted, every wait of its peers PeerFailed; but CommShrink, which
   goes on without what has ended, keeps waiting. Frees nothing, needs no peer, may be repeated. Any thread, any moment.
   Returns within abortTimeoutMs, whatever peers and devices do. Errors: InvalidArgument, InvalidUsage. */
SPARSECOLL_API_QUIET sparsecollResult_t sparsecollCommAbort(sparsecollComm_t comm);

/* Frees the communicator and ends its reducers' use. Peers that still wait for this rank get PeerFailed; peers that have
   all they need from it do not notice. Returns within abortTimeoutMs, and up to two seconds for its last words to peers
   that take none, whatever they do (over MPI see sparsecoll/mpi.h): device memory that work still uses then stays where it
   is, and an error is logged (a reducer's shows as bytesAbandoned). Over NCCL, as long as it has
   not failed, it waits up to opTimeoutMs for what is under way, then aborts; graphs that hold steps of it are destroyed
   before: until then NCCL does not end, and what it holds is freed later, or never. Destroy(NULL) succeeds.
   Errors: InvalidUsage (already destroyed). */
SPARSECOLL_API_QUIET sparsecollResult_t sparsecollCommDestroy(sparsecollComm_t comm);

/* ---- one-shot collectives ------------------------------------------------------------------------------------------
   The k-th collective call on a communicator must be the same on all ranks. Ranks first agree on n, type and
   parameters; where they differ all of them get Mismatch and the communicator lives on. */

/* out = sum over ranks of the selected entries of in, dense, n elements of type. Makes a reducer for this one step, so
   what is not selected is dropped, and every call pays for the making: the head of this file says what it costs. in may
   equal out. n = 0 allows NULL.
   Errors: InvalidArgument, InvalidUsage, Unsupported, Mismatch, OutOfMemory, NonFinite, Timeout, PeerFailed, Aborted,
   Corrupted. */
SPARSECOLL_API sparsecollResult_t sparsecollAllReduce(const void* in, void* out, uint64_t n, sparsecollDataType_t type,
                                                      const sparsecollParams_t* params, sparsecollComm_t comm,
                                                      sparsecollStream_t stream);

/* out = sum over ranks of the sparse vectors in: sorted union, equal bits on all ranks. params may be NULL; only op,
   outputScale and tag are read. Sums are formed in rank order in the accumulate type. in and out must not overlap.
   Errors: as AllReduce; Capacity (out holds fewer slots than the union; *out->count is the need). */
SPARSECOLL_API sparsecollResult_t sparsecollAllReduceVector(const sparsecollVector_t* in, sparsecollVector_t* out,
                                                            const sparsecollParams_t* params, sparsecollComm_t comm,
                                                            sparsecollStream_t stream);

/* out = the part of the sum with indices in [bounds[rank], bounds[rank + 1]). bounds: nRanks + 1 non-decreasing cuts
   from 0 to length, equal on all ranks; NULL: equal parts. Indices of out keep their meaning in the whole vector.
   Errors: as AllReduceVector. */
SPARSECOLL_API sparsecollResult_t sparsecollReduceScatterVector(const sparsecollVector_t* in, sparsecollVector_t* out,
                                                                const uint64_t* bounds, sparsecollComm_t comm,
                                                                sparsecollStream_t stream);

/* out = the ranks' vectors one after the other, in rank order, entries unchanged. Marked SORTED when the whole is.
   Errors: as AllReduceVector. */
SPARSECOLL_API sparsecollResult_t sparsecollAllGatherVector(const sparsecollVector_t* in, sparsecollVector_t* out,
                                                            sparsecollComm_t comm, sparsecollStream_t stream);

/* ---- local primitives: no communication ---------------------------------------------------------------------------- */

/* out = the entries of in that params' selector (TopK or Threshold) picks, in index order.
   Errors: InvalidArgument, InvalidUsage, Unsupported, Capacity (*out->count is the need). */
SPARSECOLL_API sparsecollResult_t sparsecollSelect(const void* in, uint64_t n, sparsecollDataType_t type,
                                                   const sparsecollParams_t* params, sparsecollVector_t* out,
                                                   sparsecollComm_t comm, sparsecollStream_t stream);

/* out = a + b: sorted union, common entries added in the accumulate type. a, b and out have the same types and length
   and do not overlap. Errors: as Select. */
SPARSECOLL_API sparsecollResult_t sparsecollMerge(const sparsecollVector_t* a, const sparsecollVector_t* b,
                                                  sparsecollVector_t* out, sparsecollComm_t comm,
                                                  sparsecollStream_t stream);

/* dense[index] += scale * value for every entry; dense has n = in->length elements of in's data type.
   Errors: InvalidArgument (an index is out of range, or the accumulate type cannot hold scale; then dense is untouched),
   InvalidUsage. */
SPARSECOLL_API sparsecollResult_t sparsecollScatterAdd(const sparsecollVector_t* in, void* dense, uint64_t n, double scale,
                                                       sparsecollComm_t comm, sparsecollStream_t stream);

/* ---- reducers: a published method ready to run in a training loop --------------------------------------------------
   Agreed once between the ranks, then without allocation. State: residual, thresholds, iteration. */

/* Fills params with a published method by name ("dense", "topka", "micro", "dgc", ...), or with "auto", density still to
   be set. "dgc" sets momentum = 0.9, which the optimiser is then to have none of.
   Errors: InvalidArgument (unknown name; GetLastError lists the known ones), Unsupported (params of a caller's older
   header have no room for the method's). Any thread. */
SPARSECOLL_API sparsecollResult_t sparsecollPreset(const char* name, sparsecollParams_t* params);

/* The i-th published preset's name, and its paper: authors, year, and where it is found. NULL past the last.
   Static storage. Any thread. */
SPARSECOLL_API_QUIET const char* sparsecollPresetName(uint32_t i);
SPARSECOLL_API_QUIET const char* sparsecollPresetPaper(uint32_t i);

/* Collective: every rank of comm calls it in the same order. n: 1 to 2^32 - 2 elements of type. config: NULL for
   defaults. Errors: InvalidArgument, InvalidUsage, Unsupported, OutOfMemory, Mismatch (names field and rank), SystemError (a
   tuner file that cannot be read, which leaves the communicator alive), every code that ends a communicator; then *reducer
   is untouched. */
SPARSECOLL_API sparsecollResult_t sparsecollReducerCreate(sparsecollReducer_t* reducer, uint64_t n,
                                                          sparsecollDataType_t type, const sparsecollParams_t* params,
                                                          const sparsecollReducerConfig_t* config, sparsecollComm_t comm);

/* Copies what was decided at create, and for the preset auto what runs now. Errors: InvalidArgument, InvalidUsage. */
SPARSECOLL_API sparsecollResult_t sparsecollReducerGetInfo(sparsecollReducer_t reducer, sparsecollReducerInfo_t* info);

/* Which methods the reducer has run, from which step on, trials included. *count: in the room at choices, out how many there
   are. choices NULL: only how many. The preset auto adds to them; any other method has one. Call it between steps.
   Errors: InvalidArgument, InvalidUsage, Capacity (*count is the need). */
SPARSECOLL_API sparsecollResult_t sparsecollReducerGetPlan(sparsecollReducer_t reducer, sparsecollChoice_t* choices,
                                                           uint64_t* count);

/* One step: gradient and out are n elements of the reducer's type; out may equal gradient. After an error the content of
   out is unspecified; the residual holds at most this step's gradient in addition (transactional: is unchanged).
   On devices the stream may be captured in a CUDA graph, on all ranks for the same step (else Mismatch); replays then go
   on from step to step like runs, until the reducer is destroyed. docs/guide/cuda-graphs.md has the conditions.
   Errors: InvalidArgument, InvalidUsage, Mismatch, NonFinite; every code that ends a communicator; Unsupported (what cannot
   be captured); OutOfMemory (the schedule asks for more than before, after Reset for example; the other ranks get Mismatch,
   and the step can be run again). */
SPARSECOLL_API sparsecollResult_t sparsecollReducerRun(sparsecollReducer_t reducer, const void* gradient, void* out,
                                                       sparsecollStream_t stream);

/* One step with a sparse sum: out is a sorted vector of the reducer's type. Its capacity must be at least min(n, nRanks *
   (Info.capacity + SPARSECOLL_NON_FINITE_NAMED)). Errors: as Run; Capacity (nothing done; *out->count is the need). */
SPARSECOLL_API sparsecollResult_t sparsecollReducerRunSparse(sparsecollReducer_t reducer, const void* gradient,
                                                             sparsecollVector_t* out, sparsecollStream_t stream);

/* Changes the density for the next steps, on every rank before the same step (a step with different densities is a
   Mismatch). At most the reducer's maxDensity, without it the method's density. Errors: InvalidArgument, InvalidUsage
   (the schedule has not ended; the stream of the latest step is being captured), Unsupported (the dense collective),
   Timeout (that stream; only where steps were captured). */
SPARSECOLL_API sparsecollResult_t sparsecollReducerSetDensity(sparsecollReducer_t reducer, double density);

/* Sets params.inputScale and params.outputScale for the next steps, replays of captured ones included; on every rank
   before the same step (a step with different scales is a Mismatch; replays do not look). Both are finite and not 0, in
   the accumulate type too.
   A trainer that scales its loss by S passes 1 / S and S: gradients come in multiplied by S, residual and velocity stay
   in unscaled units, whatever S is later, and out is the sum multiplied by S, which the loss scaler divides in place.
   On devices the change is made on the stream of the latest step, and every method takes it; once steps were captured
   the call waits for that, so that it comes before later replays on any stream. Export and Reset leave the scales alone;
   Move takes them along. Errors: InvalidArgument, InvalidUsage (that stream is being captured), Timeout (of the wait). */
SPARSECOLL_API sparsecollResult_t sparsecollReducerSetScales(sparsecollReducer_t reducer, double inputScale,
                                                             double outputScale);

/* The trainer does not apply the last step's sum: adds this rank's share of out back to the residual, in unscaled units.
   out: what Run wrote, multiplied by factor since then: 1 for an untouched out, 1 / S after a loss scaler has divided it by
   S. The scale that is undone besides is the one of the last step, also after a SetScales since. out's non-finite entries
   are left out; velocity is left alone. Nothing to do after a step that failed or was rolled back, after Reset or an import,
   nor a second time (once steps were captured in a CUDA graph every call gives back; a call that is captured keeps its
   factor). Call it on every rank. Errors: InvalidArgument (factor is 0, NaN or Inf; out is NULL or not aligned),
   InvalidUsage (in a capture, before the first captured step of a transactional reducer), Unsupported (no residual,
   SPARSECOLL_ACCUMULATE, or out was averaged over contributors). */
SPARSECOLL_API sparsecollResult_t sparsecollReducerGiveBack(sparsecollReducer_t reducer, const void* out, double factor,
                                                            sparsecollStream_t stream);

/* Counters since create. On devices it waits for the latest step, up to opTimeoutMs, unless that is being captured; the
   last* fields are of one step if no other thread runs the next one meanwhile. Any thread.
   Errors: InvalidArgument, InvalidUsage, Timeout, CudaError. */
SPARSECOLL_API sparsecollResult_t sparsecollReducerGetStats(sparsecollReducer_t reducer, sparsecollStats_t* stats);

/* residual = velocity = 0, thresholds and iteration as after create. Call it on every rank. Errors: InvalidArgument,
   InvalidUsage (in a capture; captured steps cannot restart a schedule). */
SPARSECOLL_API sparsecollResult_t sparsecollReducerReset(sparsecollReducer_t reducer, sparsecollStream_t stream);

/* dense += residual (n elements of the reducer's type; over nodes the shard's part changes). What rounding leaves over
   stays in the residual. A method without a residual leaves dense as it is. Errors: InvalidArgument (dense is NULL or not
   aligned), InvalidUsage (in a capture, before the first captured step of a transactional reducer). */
SPARSECOLL_API sparsecollResult_t sparsecollReducerFlush(sparsecollReducer_t reducer, void* dense,
                                                         sparsecollStream_t stream);

/* The live residual: *n elements of *type, the accumulate type, at *data until the next call that changes it; over nodes
   the shard's (Info.shardBegin). *data is NULL for methods without one. Errors: InvalidArgument, InvalidUsage. */
SPARSECOLL_API sparsecollResult_t sparsecollReducerGetResidual(sparsecollReducer_t reducer, void** data, uint64_t* n,
                                                               sparsecollDataType_t* type);

/* Writes the state (residual, velocity, thresholds, iteration, the plan of auto) as a checksummed blob; over nodes the
   shard's. What SetDensity and SetScales have set is not part of it: set it again behind Import. *bytes: in the space
   at blob, out the size. blob NULL: only the size. Errors: InvalidArgument, InvalidUsage (in a capture), Capacity
   (*bytes is the need), Timeout (of the stream), CudaError. */
SPARSECOLL_API sparsecollResult_t sparsecollReducerExport(sparsecollReducer_t reducer, void* blob, size_t* bytes,
                                                          sparsecollStream_t stream);

/* Restores what Export of a reducer with the same method, n, accumulate type, rank and number of ranks (else: ImportFrom)
   wrote; over nodes the same shard and number of nodes. Presets that share selector, collective and teams take each other's.
   Errors: InvalidArgument (another reducer's blob), InvalidUsage (in a capture), Unsupported (another version's blob),
   Corrupted (a damaged blob; from this call the code leaves the communicator alive); then nothing has changed. CudaError (what
   was copied to the device). */
SPARSECOLL_API sparsecollResult_t sparsecollReducerImport(sparsecollReducer_t reducer, const void* blob, size_t bytes,
                                                          sparsecollStream_t stream);

/* After a change of the number of ranks: takes over a blob of any rank. Its residual and velocity replace this reducer's
   (merge = 0), are added to them (1), or are left out (2). Where averages divide by the number of ranks they are multiplied
   by the ranks that are now over those that were, so that the averages get from them what they would have got. Thresholds
   and iteration are the blob's; in host memory a step of ranks whose iterations differ is a Mismatch, but with auto, and over
   nodes where some rank has no shard.
   Errors: as Import, InvalidArgument also where that makes them infinite; OutOfMemory. */
SPARSECOLL_API sparsecollResult_t sparsecollReducerImportFrom(sparsecollReducer_t reducer, const void* blob, size_t bytes,
                                                              int merge, sparsecollStream_t stream);

/* Makes a reducer like this one on comm, which CommShrink or CommSplit has made of its communicator. Every rank of comm
   calls it. *moved has this rank's residual and velocity, as they are: where averages divide by fewer ranks now they stand
   for those of the ranks that are gone, too. Thresholds and iteration are as after create, and so is the density; a schedule
   that has not ended begins anew. The memory is the library's. The old reducer stays as it is.
   Over nodes the residual and velocity that the ranks of a node held go to the owners of its new shards, where those of
   several nodes that have become one add up; meanwhile it takes a vector of n elements on each rank. What other ranks
   held is lost: so many entries as the moved reducers' entriesLost add up to.
   After CommShrink a transactional reducer's residual is the one after the last step that all ranks of comm have
   completed. *steppedBack (may be NULL) = 1: this rank had completed one step more, which is undone here and which its
   trainer has to undo in the model; else 0. Errors: as ReducerCreate; InvalidArgument (comm is not made of the reducer's
   communicator); then *moved is untouched. */
SPARSECOLL_API sparsecollResult_t sparsecollReducerMove(sparsecollReducer_t reducer, sparsecollComm_t comm,
                                                        sparsecollReducer_t* moved, int* steppedBack);

/* Destroy(NULL) succeeds. Errors: InvalidUsage (already destroyed). */
SPARSECOLL_API_QUIET sparsecollResult_t sparsecollReducerDestroy(sparsecollReducer_t reducer);

/* ---- telemetry ----------------------------------------------------------------------------------------------------- */

/* Sums over the communicator's reducers and one-shot calls on this rank; last* fields of its latest step, 0 where a call on
   sparse vectors has none. Any thread.
   Errors: InvalidArgument, InvalidUsage. */
SPARSECOLL_API sparsecollResult_t sparsecollGetStats(sparsecollComm_t comm, sparsecollStats_t* stats);

/* All counters of the communicator = 0, but workspacePeakBytes and bytesAbandoned, which are of its whole life; those of its
   reducers stay. Errors: InvalidArgument, InvalidUsage. */
SPARSECOLL_API sparsecollResult_t sparsecollResetStats(sparsecollComm_t comm);

#ifdef __cplusplus
}
#endif
#endif /* SPARSECOLL_H_ */
