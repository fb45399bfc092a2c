/* SPDX-License-Identifier: Apache-2.0 */
/* The binary layout of the C ABI, pinned. Compiled as C99, C11, C++11 and C++20 by header.sh; produces no code.

   A failing line means that programs built against an older header break. Only additions are allowed: a new enumerator,
   or a field at the tail of a struct that starts with SPARSECOLL_STRUCT_HEAD, with its size below raised. */
#include <sparsecoll/sparsecoll.h>

/* C99 has no _Static_assert: an array of negative size fails the compilation and its name says why. */
#define SIZE(type, bytes) typedef char type##_has_another_size[sizeof(type) == (bytes) ? 1 : -1]
#define FIELD(type, field, offset, bytes) \
  typedef char                            \
      type##_##field##_has_changed[offsetof(type, field) == (offset) && sizeof(((type*)0)->field) == (bytes) ? 1 : -1]
#define VALUE(name, number) typedef char name##_has_another_value[(long long)(name) == (number) ? 1 : -1]

/* The initialiser is a macro: only using it compiles it. */
sparsecollParams_t initialised(void);
sparsecollParams_t initialised(void) {
  sparsecollParams_t params = SPARSECOLL_INIT(sparsecollParams_t);
  return params;
}

VALUE(SPARSECOLL_MAGIC, 0x53504331);
VALUE(SPARSECOLL_ACCUMULATE, 2);
VALUE(SPARSECOLL_OUT_PRESERVED, 8);
VALUE(SPARSECOLL_SELECT_NOTHING, 16);
VALUE(SPARSECOLL_NO_RESIDUAL, 32);
VALUE(SPARSECOLL_MOMENTUM_KEPT, 64);
VALUE(SPARSECOLL_NESTEROV, 128);
VALUE(SPARSECOLL_AVERAGE_CONTRIBUTORS, 256);
VALUE(SPARSECOLL_SORTED, 1);
VALUE(SPARSECOLL_HOST, -1);
VALUE(SPARSECOLL_CURRENT_DEVICE, -2);
VALUE(SPARSECOLL_UNIQUE_ID_BYTES, 128);
VALUE(SPARSECOLL_ENGINE_TAGS, 8);
VALUE(SPARSECOLL_ENGINE_MESSAGE_BYTES, 1 << 30);
VALUE(SPARSECOLL_ALLOCATOR_ALIGNMENT, 256);

/* sparsecollResult_t */
VALUE(sparsecollSuccess, 0);
VALUE(sparsecollCudaError, 1);
VALUE(sparsecollSystemError, 2);
VALUE(sparsecollInternalError, 3);
VALUE(sparsecollInvalidArgument, 4);
VALUE(sparsecollInvalidUsage, 5);
VALUE(sparsecollRemoteError, 6);
VALUE(sparsecollInProgress, 7);
VALUE(sparsecollTimeout, 8);
VALUE(sparsecollOutOfMemory, 16);
VALUE(sparsecollUnsupported, 17);
VALUE(sparsecollMismatch, 18);
VALUE(sparsecollCapacity, 19);
VALUE(sparsecollNonFinite, 20);
VALUE(sparsecollAborted, 32);
VALUE(sparsecollPeerFailed, 33);
VALUE(sparsecollCorrupted, 34);
VALUE(sparsecollAuthFailed, 35);
VALUE(sparsecollResultMaxEnum, 0x7fffffff);

/* sparsecollDataType_t */
VALUE(sparsecollFloat16, 6);
VALUE(sparsecollFloat32, 7);
VALUE(sparsecollFloat64, 8);
VALUE(sparsecollBfloat16, 9);
VALUE(sparsecollDataTypeMaxEnum, 0x7fffffff);

/* sparsecollRedOp_t */
VALUE(sparsecollSum, 0);
VALUE(sparsecollAvg, 4);
VALUE(sparsecollRedOpMaxEnum, 0x7fffffff);

/* sparsecollWire_t */
VALUE(sparsecollWireDefault, 0);
VALUE(sparsecollWireSame, 1);
VALUE(sparsecollWireF16, 2);
VALUE(sparsecollWireBf16, 3);
VALUE(sparsecollWireF8e4m3, 4);
VALUE(sparsecollWireF8e5m2, 5);
VALUE(sparsecollWireMaxEnum, 0x7fffffff);

/* sparsecollIndexType_t */
VALUE(sparsecollIndexDefault, 0);
VALUE(sparsecollIndexU32, 1);
VALUE(sparsecollIndexU64, 2);
VALUE(sparsecollIndexMaxEnum, 0x7fffffff);

/* sparsecollBackend_t */
VALUE(sparsecollBackendAuto, 0);
VALUE(sparsecollBackendHost, 1);
VALUE(sparsecollBackendCuda, 2);
VALUE(sparsecollBackendMaxEnum, 0x7fffffff);

/* sparsecollTransport_t */
VALUE(sparsecollTransportAuto, 0);
VALUE(sparsecollTransportThreads, 1);
VALUE(sparsecollTransportUcx, 2);
VALUE(sparsecollTransportNccl, 3);
VALUE(sparsecollTransportEngine, 4);
VALUE(sparsecollTransportSimulated, 5);
VALUE(sparsecollTransportTcp, 6);
VALUE(sparsecollTransportMaxEnum, 0x7fffffff);

/* sparsecollColl_t */
VALUE(sparsecollCollAuto, 0);
VALUE(sparsecollCollDense, 1);
VALUE(sparsecollCollAllGather, 2);
VALUE(sparsecollCollIndexUnion, 3);
VALUE(sparsecollCollSparDL, 4);
VALUE(sparsecollCollOkTopk, 5);
VALUE(sparsecollCollGTopk, 6);
VALUE(sparsecollCollSparCML, 7);
VALUE(sparsecollCollHierarchical, 8);
VALUE(sparsecollCollSplitGather, 9);
VALUE(sparsecollCollTopkDSA, 10);
VALUE(sparsecollCollMaxEnum, 0x7fffffff);

/* sparsecollSelect_t */
VALUE(sparsecollSelectDefault, 0);
VALUE(sparsecollSelectTopK, 1);
VALUE(sparsecollSelectThreshold, 2);
VALUE(sparsecollSelectSampled, 3);
VALUE(sparsecollSelectSidco, 4);
VALUE(sparsecollSelectSage, 5);
VALUE(sparsecollSelectDeft, 6);
VALUE(sparsecollSelectMicro, 7);
VALUE(sparsecollSelectExDyna, 8);
VALUE(sparsecollSelectLeaderTopK, 9);
VALUE(sparsecollSelectGaussian, 10);
VALUE(sparsecollSelectRandom, 11);
VALUE(sparsecollSelectChunkTopK, 12);
VALUE(sparsecollSelectRedSync, 13);
VALUE(sparsecollSelectReusedTopK, 14);
VALUE(sparsecollSelectRandomOfTop, 15);
VALUE(sparsecollSelectAuto, 16);
VALUE(sparsecollSelectMaxEnum, 0x7fffffff);

/* sparsecollDistribution_t */
VALUE(sparsecollDistributionDefault, 0);
VALUE(sparsecollDistributionExponential, 1);
VALUE(sparsecollDistributionGammaPareto, 2);
VALUE(sparsecollDistributionPareto, 3);
VALUE(sparsecollDistributionMaxEnum, 0x7fffffff);

/* sparsecollTeamGather_t */
VALUE(sparsecollTeamGatherDefault, 0);
VALUE(sparsecollTeamGatherRecursive, 1);
VALUE(sparsecollTeamGatherBruck, 2);
VALUE(sparsecollTeamGatherMaxEnum, 0x7fffffff);

/* sparsecollNonFinite_t */
VALUE(sparsecollNonFiniteDefault, 0);
VALUE(sparsecollNonFinitePropagate, 1);
VALUE(sparsecollNonFiniteError, 2);
VALUE(sparsecollNonFiniteMaxEnum, 0x7fffffff);

/* sparsecollSecurity_t */
VALUE(sparsecollSecurityDefault, 0);
VALUE(sparsecollSecurityKeyed, 1);
VALUE(sparsecollSecurityNone, 2);
VALUE(sparsecollSecurityMaxEnum, 0x7fffffff);

/* sparsecollLogLevel_t */
VALUE(sparsecollLogError, 1);
VALUE(sparsecollLogWarn, 2);
VALUE(sparsecollLogInfo, 3);
VALUE(sparsecollLogTrace, 4);

/* Enumerations travel as int32_t. */
SIZE(sparsecollResult_t, 4);
SIZE(sparsecollDataType_t, 4);
SIZE(sparsecollRedOp_t, 4);
SIZE(sparsecollWire_t, 4);
SIZE(sparsecollIndexType_t, 4);
SIZE(sparsecollBackend_t, 4);
SIZE(sparsecollTransport_t, 4);
SIZE(sparsecollColl_t, 4);
SIZE(sparsecollSelect_t, 4);
SIZE(sparsecollDistribution_t, 4);
SIZE(sparsecollTeamGather_t, 4);
SIZE(sparsecollNonFinite_t, 4);
SIZE(sparsecollSecurity_t, 4);
SIZE(sparsecollLogLevel_t, 4);

#if UINTPTR_MAX == UINT64_MAX /* offsets of the 64-bit ABI, the only one supported */

SIZE(sparsecollUniqueId_t, 128);
FIELD(sparsecollUniqueId_t, bytes, 0, 128);

SIZE(sparsecollConfig_t, 120);
FIELD(sparsecollConfig_t, structSize, 0, 8);
FIELD(sparsecollConfig_t, magic, 8, 4);
FIELD(sparsecollConfig_t, headerVersion, 12, 4);
FIELD(sparsecollConfig_t, backend, 16, 4);
FIELD(sparsecollConfig_t, transport, 20, 4);
FIELD(sparsecollConfig_t, nonFinite, 24, 4);
FIELD(sparsecollConfig_t, reserved0, 28, 4);
FIELD(sparsecollConfig_t, opTimeoutMs, 32, 8);
FIELD(sparsecollConfig_t, workspaceLimitBytes, 40, 8);
FIELD(sparsecollConfig_t, name, 48, 8);
FIELD(sparsecollConfig_t, logFn, 56, 8);
FIELD(sparsecollConfig_t, logUser, 64, 8);
FIELD(sparsecollConfig_t, initTimeoutMs, 72, 8);
FIELD(sparsecollConfig_t, abortTimeoutMs, 80, 8);
FIELD(sparsecollConfig_t, interfaceName, 88, 8);
FIELD(sparsecollConfig_t, security, 96, 4);
FIELD(sparsecollConfig_t, reserved1, 100, 4);
FIELD(sparsecollConfig_t, allocator, 104, 8);
FIELD(sparsecollConfig_t, ranksPerNode, 112, 4);
FIELD(sparsecollConfig_t, reserved2, 116, 4);

SIZE(sparsecollOob_t, 32);
FIELD(sparsecollOob_t, structSize, 0, 8);
FIELD(sparsecollOob_t, magic, 8, 4);
FIELD(sparsecollOob_t, headerVersion, 12, 4);
FIELD(sparsecollOob_t, user, 16, 8);
FIELD(sparsecollOob_t, allgather, 24, 8);

SIZE(sparsecollEngine_t, 80);
FIELD(sparsecollEngine_t, structSize, 0, 8);
FIELD(sparsecollEngine_t, magic, 8, 4);
FIELD(sparsecollEngine_t, headerVersion, 12, 4);
FIELD(sparsecollEngine_t, user, 16, 8);
FIELD(sparsecollEngine_t, isend, 24, 8);
FIELD(sparsecollEngine_t, irecv, 32, 8);
FIELD(sparsecollEngine_t, test, 40, 8);
FIELD(sparsecollEngine_t, cancel, 48, 8);
FIELD(sparsecollEngine_t, iallreduce, 56, 8);
FIELD(sparsecollEngine_t, progress, 64, 8);
FIELD(sparsecollEngine_t, release, 72, 8);

SIZE(sparsecollAllocator_t, 40);
FIELD(sparsecollAllocator_t, structSize, 0, 8);
FIELD(sparsecollAllocator_t, magic, 8, 4);
FIELD(sparsecollAllocator_t, headerVersion, 12, 4);
FIELD(sparsecollAllocator_t, user, 16, 8);
FIELD(sparsecollAllocator_t, allocate, 24, 8);
FIELD(sparsecollAllocator_t, release, 32, 8);

SIZE(sparsecollParams_t, 152);
FIELD(sparsecollParams_t, structSize, 0, 8);
FIELD(sparsecollParams_t, magic, 8, 4);
FIELD(sparsecollParams_t, headerVersion, 12, 4);
FIELD(sparsecollParams_t, selector, 16, 4);
FIELD(sparsecollParams_t, collective, 20, 4);
FIELD(sparsecollParams_t, faithful, 24, 4);
FIELD(sparsecollParams_t, op, 28, 4);
FIELD(sparsecollParams_t, wire, 32, 4);
FIELD(sparsecollParams_t, flags, 36, 4);
FIELD(sparsecollParams_t, density, 40, 8);
FIELD(sparsecollParams_t, k, 48, 8);
FIELD(sparsecollParams_t, threshold, 56, 8);
FIELD(sparsecollParams_t, inputScale, 64, 8);
FIELD(sparsecollParams_t, outputScale, 72, 8);
FIELD(sparsecollParams_t, seed, 80, 8);
FIELD(sparsecollParams_t, tag, 88, 8);
FIELD(sparsecollParams_t, distribution, 96, 4);
FIELD(sparsecollParams_t, teams, 100, 4);
FIELD(sparsecollParams_t, teamGather, 104, 4);
FIELD(sparsecollParams_t, chunk, 108, 4);
FIELD(sparsecollParams_t, momentum, 112, 8);
FIELD(sparsecollParams_t, clipNorm, 120, 8);
FIELD(sparsecollParams_t, residualDecay, 128, 8);
FIELD(sparsecollParams_t, candidates, 136, 8);
FIELD(sparsecollParams_t, betweenNodes, 144, 4);
FIELD(sparsecollParams_t, reserved0, 148, 4);

SIZE(sparsecollSegment_t, 24);
FIELD(sparsecollSegment_t, length, 0, 8);
FIELD(sparsecollSegment_t, density, 8, 8);
FIELD(sparsecollSegment_t, dense, 16, 4);
FIELD(sparsecollSegment_t, reserved0, 20, 4);

SIZE(sparsecollVector_t, 120);
FIELD(sparsecollVector_t, values, 0, 8);
FIELD(sparsecollVector_t, indices, 8, 8);
FIELD(sparsecollVector_t, count, 16, 8);
FIELD(sparsecollVector_t, capacity, 24, 8);
FIELD(sparsecollVector_t, length, 32, 8);
FIELD(sparsecollVector_t, dataType, 40, 4);
FIELD(sparsecollVector_t, indexType, 44, 4);
FIELD(sparsecollVector_t, flags, 48, 4);
FIELD(sparsecollVector_t, reserved0, 52, 4);
FIELD(sparsecollVector_t, reserved, 56, 64);

SIZE(sparsecollChoice_t, 16);
FIELD(sparsecollChoice_t, step, 0, 8);
FIELD(sparsecollChoice_t, selector, 8, 4);
FIELD(sparsecollChoice_t, collective, 12, 4);

SIZE(sparsecollReducerConfig_t, 112);
FIELD(sparsecollReducerConfig_t, structSize, 0, 8);
FIELD(sparsecollReducerConfig_t, magic, 8, 4);
FIELD(sparsecollReducerConfig_t, headerVersion, 12, 4);
FIELD(sparsecollReducerConfig_t, segments, 16, 8);
FIELD(sparsecollReducerConfig_t, segmentCount, 24, 8);
FIELD(sparsecollReducerConfig_t, maxDensity, 32, 8);
FIELD(sparsecollReducerConfig_t, buffer, 40, 8);
FIELD(sparsecollReducerConfig_t, accumulateType, 48, 4);
FIELD(sparsecollReducerConfig_t, transactional, 52, 4);
FIELD(sparsecollReducerConfig_t, densitySchedule, 56, 8);
FIELD(sparsecollReducerConfig_t, densityScheduleCount, 64, 8);
FIELD(sparsecollReducerConfig_t, scheduleSteps, 72, 8);
FIELD(sparsecollReducerConfig_t, denseNs, 80, 8);
FIELD(sparsecollReducerConfig_t, plan, 88, 8);
FIELD(sparsecollReducerConfig_t, planCount, 96, 8);
FIELD(sparsecollReducerConfig_t, velocity, 104, 8);

SIZE(sparsecollStats_t, 264);
FIELD(sparsecollStats_t, structSize, 0, 8);
FIELD(sparsecollStats_t, magic, 8, 4);
FIELD(sparsecollStats_t, headerVersion, 12, 4);
FIELD(sparsecollStats_t, opsStarted, 16, 8);
FIELD(sparsecollStats_t, opsCompleted, 24, 8);
FIELD(sparsecollStats_t, opsDense, 32, 8);
FIELD(sparsecollStats_t, opsNonFinite, 40, 8);
FIELD(sparsecollStats_t, opsOverflow, 48, 8);
FIELD(sparsecollStats_t, opsFallback, 56, 8);
FIELD(sparsecollStats_t, bytesDense, 64, 8);
FIELD(sparsecollStats_t, bytesSent, 72, 8);
FIELD(sparsecollStats_t, bytesReceived, 80, 8);
FIELD(sparsecollStats_t, workspaceBytes, 88, 8);
FIELD(sparsecollStats_t, workspacePeakBytes, 96, 8);
FIELD(sparsecollStats_t, lastSequence, 104, 8);
FIELD(sparsecollStats_t, lastLength, 112, 8);
FIELD(sparsecollStats_t, lastRequested, 120, 8);
FIELD(sparsecollStats_t, lastSelected, 128, 8);
FIELD(sparsecollStats_t, lastUnion, 136, 8);
FIELD(sparsecollStats_t, lastCandidates, 144, 8);
FIELD(sparsecollStats_t, lastBytesSent, 152, 8);
FIELD(sparsecollStats_t, lastSelectNs, 160, 8);
FIELD(sparsecollStats_t, lastExchangeNs, 168, 8);
FIELD(sparsecollStats_t, lastScatterNs, 176, 8);
FIELD(sparsecollStats_t, lastTotalNs, 184, 8);
FIELD(sparsecollStats_t, lastThreshold, 192, 8);
FIELD(sparsecollStats_t, lastImbalance, 200, 8);
FIELD(sparsecollStats_t, lastCollective, 208, 4);
FIELD(sparsecollStats_t, reserved0, 212, 4);
FIELD(sparsecollStats_t, entriesLost, 216, 8);
FIELD(sparsecollStats_t, lastRounds, 224, 8);
FIELD(sparsecollStats_t, lastMessagesSent, 232, 8);
FIELD(sparsecollStats_t, bytesAbandoned, 240, 8);
FIELD(sparsecollStats_t, bytesSentBetweenNodes, 248, 8);
FIELD(sparsecollStats_t, bytesReceivedBetweenNodes, 256, 8);

SIZE(sparsecollReducerInfo_t, 224);
FIELD(sparsecollReducerInfo_t, structSize, 0, 8);
FIELD(sparsecollReducerInfo_t, magic, 8, 4);
FIELD(sparsecollReducerInfo_t, headerVersion, 12, 4);
FIELD(sparsecollReducerInfo_t, selector, 16, 4);
FIELD(sparsecollReducerInfo_t, collective, 20, 4);
FIELD(sparsecollReducerInfo_t, n, 24, 8);
FIELD(sparsecollReducerInfo_t, k, 32, 8);
FIELD(sparsecollReducerInfo_t, capacity, 40, 8);
FIELD(sparsecollReducerInfo_t, workspaceBytes, 48, 8);
FIELD(sparsecollReducerInfo_t, memoryBoundBytes, 56, 8);
FIELD(sparsecollReducerInfo_t, densityIsGlobal, 64, 4);
FIELD(sparsecollReducerInfo_t, teams, 68, 4);
FIELD(sparsecollReducerInfo_t, reason, 72, 128);
FIELD(sparsecollReducerInfo_t, betweenNodes, 200, 4);
FIELD(sparsecollReducerInfo_t, nodes, 204, 4);
FIELD(sparsecollReducerInfo_t, shardBegin, 208, 8);
FIELD(sparsecollReducerInfo_t, shardLength, 216, 8);

SIZE(sparsecollCommDetails_t, 224);
FIELD(sparsecollCommDetails_t, structSize, 0, 8);
FIELD(sparsecollCommDetails_t, magic, 8, 4);
FIELD(sparsecollCommDetails_t, headerVersion, 12, 4);
FIELD(sparsecollCommDetails_t, rank, 16, 4);
FIELD(sparsecollCommDetails_t, nRanks, 20, 4);
FIELD(sparsecollCommDetails_t, device, 24, 4);
FIELD(sparsecollCommDetails_t, transport, 28, 4);
FIELD(sparsecollCommDetails_t, reason, 32, 128);
FIELD(sparsecollCommDetails_t, interfaceName, 160, 64);

SIZE(sparsecollFailure_t, 320);
FIELD(sparsecollFailure_t, structSize, 0, 8);
FIELD(sparsecollFailure_t, magic, 8, 4);
FIELD(sparsecollFailure_t, headerVersion, 12, 4);
FIELD(sparsecollFailure_t, result, 16, 4);
FIELD(sparsecollFailure_t, peer, 20, 4);
FIELD(sparsecollFailure_t, sequence, 24, 8);
FIELD(sparsecollFailure_t, field, 32, 32);
FIELD(sparsecollFailure_t, text, 64, 256);
#endif
