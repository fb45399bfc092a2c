# SPDX-License-Identifier: Apache-2.0
"""The C ABI, made from sparsecoll.h by scripts/python-abi. Do not edit."""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int32, c_size_t,
                    c_uint8, c_uint32, c_uint64, c_void_p)

SPARSECOLL_VERSION_CODE = 100
SPARSECOLL_MAGIC = 0x53504331
SPARSECOLL_HOST = -1
SPARSECOLL_CURRENT_DEVICE = -2
SPARSECOLL_NO_TIMEOUT = 0xFFFFFFFFFFFFFFFF
SPARSECOLL_UNIQUE_ID_BYTES = 128
SPARSECOLL_NON_FINITE_NAMED = 16
SPARSECOLL_ALLOCATOR_ALIGNMENT = 256
SPARSECOLL_ENGINE_TAGS = 8
SPARSECOLL_ENGINE_MESSAGE_BYTES = 1 << 30
SPARSECOLL_ACCUMULATE = 2
SPARSECOLL_OUT_PRESERVED = 8
SPARSECOLL_SELECT_NOTHING = 16
SPARSECOLL_NO_RESIDUAL = 32
SPARSECOLL_MOMENTUM_KEPT = 64
SPARSECOLL_NESTEROV = 128
SPARSECOLL_AVERAGE_CONTRIBUTORS = 256
SPARSECOLL_SORTED = 1
SPARSECOLL_NO_COLOR = -1

# sparsecollResult_t
sparsecollSuccess = 0
sparsecollCudaError = 1
sparsecollSystemError = 2
sparsecollInternalError = 3
sparsecollInvalidArgument = 4
sparsecollInvalidUsage = 5
sparsecollRemoteError = 6
sparsecollInProgress = 7
sparsecollTimeout = 8
sparsecollOutOfMemory = 16
sparsecollUnsupported = 17
sparsecollMismatch = 18
sparsecollCapacity = 19
sparsecollNonFinite = 20
sparsecollAborted = 32
sparsecollPeerFailed = 33
sparsecollCorrupted = 34
sparsecollAuthFailed = 35
sparsecollResultMaxEnum = 0x7fffffff

# sparsecollDataType_t
sparsecollFloat16 = 6
sparsecollFloat32 = 7
sparsecollFloat64 = 8
sparsecollBfloat16 = 9
sparsecollDataTypeMaxEnum = 0x7fffffff

# sparsecollRedOp_t
sparsecollSum = 0
sparsecollAvg = 4
sparsecollRedOpMaxEnum = 0x7fffffff

# sparsecollWire_t
sparsecollWireDefault = 0
sparsecollWireSame = 1
sparsecollWireF16 = 2
sparsecollWireBf16 = 3
sparsecollWireF8e4m3 = 4
sparsecollWireF8e5m2 = 5
sparsecollWireMaxEnum = 0x7fffffff

# sparsecollIndexType_t
sparsecollIndexDefault = 0
sparsecollIndexU32 = 1
sparsecollIndexU64 = 2
sparsecollIndexMaxEnum = 0x7fffffff

# sparsecollBackend_t
sparsecollBackendAuto = 0
sparsecollBackendHost = 1
sparsecollBackendCuda = 2
sparsecollBackendMaxEnum = 0x7fffffff

# sparsecollTransport_t
sparsecollTransportAuto = 0
sparsecollTransportThreads = 1
sparsecollTransportUcx = 2
sparsecollTransportNccl = 3
sparsecollTransportEngine = 4
sparsecollTransportSimulated = 5
sparsecollTransportTcp = 6
sparsecollTransportMaxEnum = 0x7fffffff

# sparsecollColl_t
sparsecollCollAuto = 0
sparsecollCollDense = 1
sparsecollCollAllGather = 2
sparsecollCollIndexUnion = 3
sparsecollCollSparDL = 4
sparsecollCollOkTopk = 5
sparsecollCollGTopk = 6
sparsecollCollSparCML = 7
sparsecollCollHierarchical = 8
sparsecollCollSplitGather = 9
sparsecollCollTopkDSA = 10
sparsecollCollMaxEnum = 0x7fffffff

# sparsecollSelect_t
sparsecollSelectDefault = 0
sparsecollSelectTopK = 1
sparsecollSelectThreshold = 2
sparsecollSelectSampled = 3
sparsecollSelectSidco = 4
sparsecollSelectSage = 5
sparsecollSelectDeft = 6
sparsecollSelectMicro = 7
sparsecollSelectExDyna = 8
sparsecollSelectLeaderTopK = 9
sparsecollSelectGaussian = 10
sparsecollSelectRandom = 11
sparsecollSelectChunkTopK = 12
sparsecollSelectRedSync = 13
sparsecollSelectReusedTopK = 14
sparsecollSelectRandomOfTop = 15
sparsecollSelectAuto = 16
sparsecollSelectMaxEnum = 0x7fffffff

# sparsecollDistribution_t
sparsecollDistributionDefault = 0
sparsecollDistributionExponential = 1
sparsecollDistributionGammaPareto = 2
sparsecollDistributionPareto = 3
sparsecollDistributionMaxEnum = 0x7fffffff

# sparsecollTeamGather_t
sparsecollTeamGatherDefault = 0
sparsecollTeamGatherRecursive = 1
sparsecollTeamGatherBruck = 2
sparsecollTeamGatherMaxEnum = 0x7fffffff

# sparsecollNonFinite_t
sparsecollNonFiniteDefault = 0
sparsecollNonFinitePropagate = 1
sparsecollNonFiniteError = 2
sparsecollNonFiniteMaxEnum = 0x7fffffff

# sparsecollSecurity_t
sparsecollSecurityDefault = 0
sparsecollSecurityKeyed = 1
sparsecollSecurityNone = 2
sparsecollSecurityMaxEnum = 0x7fffffff

# sparsecollLogLevel_t
sparsecollLogError = 1
sparsecollLogWarn = 2
sparsecollLogInfo = 3
sparsecollLogTrace = 4

sparsecollLogFn_t = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)


class sparsecollUniqueId_t(Structure):
    _fields_ = [
        ("bytes", c_uint8 * SPARSECOLL_UNIQUE_ID_BYTES),
    ]


class sparsecollAllocator_t(Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("magic", c_uint32),
        ("headerVersion", c_uint32),
        ("user", c_void_p),
        ("allocate", CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_void_p)),
        ("release", CFUNCTYPE(None, c_void_p, c_void_p, c_size_t, c_void_p)),
    ]


class sparsecollConfig_t(Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("magic", c_uint32),
        ("headerVersion", c_uint32),
        ("backend", c_int32),
        ("transport", c_int32),
        ("nonFinite", c_int32),
        ("reserved0", c_int32),
        ("opTimeoutMs", c_uint64),
        ("workspaceLimitBytes", c_uint64),
        ("name", c_char_p),
        ("logFn", sparsecollLogFn_t),
        ("logUser", c_void_p),
        ("initTimeoutMs", c_uint64),
        ("abortTimeoutMs", c_uint64),
        ("interfaceName", c_char_p),
        ("security", c_int32),
        ("reserved1", c_int32),
        ("allocator", POINTER(sparsecollAllocator_t)),
        ("ranksPerNode", c_int32),
        ("reserved2", c_int32),
    ]


class sparsecollOob_t(Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("magic", c_uint32),
        ("headerVersion", c_uint32),
        ("user", c_void_p),
        ("allgather", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_size_t, c_uint64)),
    ]


class sparsecollEngine_t(Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("magic", c_uint32),
        ("headerVersion", c_uint32),
        ("user", c_void_p),
        ("isend", CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_void_p, c_size_t, POINTER(c_void_p))),
        ("irecv", CFUNCTYPE(c_int, c_void_p, c_int, c_int, c_void_p, c_size_t, POINTER(c_void_p))),
        ("test", CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_int), POINTER(c_size_t))),
        ("cancel", CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))),
        ("iallreduce", CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_uint64, c_int32, c_int32, POINTER(c_void_p))),
        ("progress", CFUNCTYPE(c_int, c_void_p)),
        ("release", CFUNCTYPE(None, c_void_p)),
    ]


class sparsecollParams_t(Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("magic", c_uint32),
        ("headerVersion", c_uint32),
        ("selector", c_int32),
        ("collective", c_int32),
        ("faithful", c_int32),
        ("op", c_int32),
        ("wire", c_int32),
        ("flags", c_uint32),
        ("density", c_double),
        ("k", c_uint64),
        ("threshold", c_double),
        ("inputScale", c_double),
        ("outputScale", c_double),
        ("seed", c_uint64),
        ("tag", c_uint64),
        ("distribution", c_int32),
        ("teams", c_int32),
        ("teamGather", c_int32),
        ("chunk", c_int32),
        ("momentum", c_double),
        ("clipNorm", c_double),
        ("residualDecay", c_double),
        ("candidates", c_uint64),
        ("betweenNodes", c_int32),
        ("reserved0", c_int32),
    ]


class sparsecollSegment_t(Structure):
    _fields_ = [
        ("length", c_uint64),
        ("density", c_double),
        ("dense", c_int32),
        ("reserved0", c_int32),
    ]


class sparsecollVector_t(Structure):
    _fields_ = [
        ("values", c_void_p),
        ("indices", c_void_p),
        ("count", POINTER(c_uint64)),
        ("capacity", c_uint64),
        ("length", c_uint64),
        ("dataType", c_int32),
        ("indexType", c_int32),
        ("flags", c_uint32),
        ("reserved0", c_uint32),
        ("reserved", c_uint64 * 8),
    ]


class sparsecollChoice_t(Structure):
    _fields_ = [
        ("step", c_uint64),
        ("selector", c_int32),
        ("collective", c_int32),
    ]


class sparsecollReducerConfig_t(Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("magic", c_uint32),
        ("headerVersion", c_uint32),
        ("segments", POINTER(sparsecollSegment_t)),
        ("segmentCount", c_uint64),
        ("maxDensity", c_double),
        ("buffer", c_void_p),
        ("accumulateType", c_int32),
        ("transactional", c_int32),
        ("densitySchedule", POINTER(c_double)),
        ("densityScheduleCount", c_uint64),
        ("scheduleSteps", c_uint64),
        ("denseNs", c_uint64),
        ("plan", POINTER(sparsecollChoice_t)),
        ("planCount", c_uint64),
        ("velocity", c_void_p),
    ]


class sparsecollStats_t(Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("magic", c_uint32),
        ("headerVersion", c_uint32),
        ("opsStarted", c_uint64),
        ("opsCompleted", c_uint64),
        ("opsDense", c_uint64),
        ("opsNonFinite", c_uint64),
        ("opsOverflow", c_uint64),
        ("opsFallback", c_uint64),
        ("bytesDense", c_uint64),
        ("bytesSent", c_uint64),
        ("bytesReceived", c_uint64),
        ("workspaceBytes", c_uint64),
        ("workspacePeakBytes", c_uint64),
        ("lastSequence", c_uint64),
        ("lastLength", c_uint64),
        ("lastRequested", c_uint64),
        ("lastSelected", c_uint64),
        ("lastUnion", c_uint64),
        ("lastCandidates", c_uint64),
        ("lastBytesSent", c_uint64),
        ("lastSelectNs", c_uint64),
        ("lastExchangeNs", c_uint64),
        ("lastScatterNs", c_uint64),
        ("lastTotalNs", c_uint64),
        ("lastThreshold", c_double),
        ("lastImbalance", c_double),
        ("lastCollective", c_int32),
        ("reserved0", c_int32),
        ("entriesLost", c_uint64),
        ("lastRounds", c_uint64),
        ("lastMessagesSent", c_uint64),
        ("bytesAbandoned", c_uint64),
        ("bytesSentBetweenNodes", c_uint64),
        ("bytesReceivedBetweenNodes", c_uint64),
    ]


class sparsecollReducerInfo_t(Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("magic", c_uint32),
        ("headerVersion", c_uint32),
        ("selector", c_int32),
        ("collective", c_int32),
        ("n", c_uint64),
        ("k", c_uint64),
        ("capacity", c_uint64),
        ("workspaceBytes", c_uint64),
        ("memoryBoundBytes", c_uint64),
        ("densityIsGlobal", c_int32),
        ("teams", c_int32),
        ("reason", c_char * 128),
        ("betweenNodes", c_int32),
        ("nodes", c_int32),
        ("shardBegin", c_uint64),
        ("shardLength", c_uint64),
    ]


class sparsecollCommDetails_t(Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("magic", c_uint32),
        ("headerVersion", c_uint32),
        ("rank", c_int32),
        ("nRanks", c_int32),
        ("device", c_int32),
        ("transport", c_int32),
        ("reason", c_char * 128),
        ("interfaceName", c_char * 64),
    ]


class sparsecollFailure_t(Structure):
    _fields_ = [
        ("structSize", c_size_t),
        ("magic", c_uint32),
        ("headerVersion", c_uint32),
        ("result", c_int32),
        ("peer", c_int32),
        ("sequence", c_uint64),
        ("field", c_char * 32),
        ("text", c_char * 256),
    ]


STRUCTS = (sparsecollUniqueId_t, sparsecollAllocator_t, sparsecollConfig_t, sparsecollOob_t, sparsecollEngine_t,
           sparsecollParams_t, sparsecollSegment_t, sparsecollVector_t, sparsecollChoice_t, sparsecollReducerConfig_t,
           sparsecollStats_t, sparsecollReducerInfo_t, sparsecollCommDetails_t, sparsecollFailure_t)

# name: (result, arguments)
FUNCTIONS = {
    "sparsecollGetVersion": (c_int, []),
    "sparsecollGetBuildInfo": (c_char_p, []),
    "sparsecollGetErrorString": (c_char_p, [c_int]),
    "sparsecollSelectorName": (c_char_p, [c_int32]),
    "sparsecollCollectiveName": (c_char_p, [c_int32]),
    "sparsecollDataTypeName": (c_char_p, [c_int32]),
    "sparsecollBackendName": (c_char_p, [c_int32]),
    "sparsecollTransportName": (c_char_p, [c_int32]),
    "sparsecollGetLastError": (c_char_p, []),
    "sparsecollBackendAvailable": (c_int, [c_int32, c_int32, POINTER(c_int)]),
    "sparsecollCommInitAll": (c_int, [POINTER(c_void_p), c_int, POINTER(c_int), POINTER(sparsecollConfig_t)]),
    "sparsecollGetUniqueId": (c_int, [POINTER(sparsecollUniqueId_t), POINTER(sparsecollConfig_t)]),
    "sparsecollCommInitRank": (c_int, [POINTER(c_void_p), c_int, POINTER(sparsecollUniqueId_t), c_int, c_int,
        POINTER(sparsecollConfig_t)]),
    "sparsecollCommInitEnv": (c_int, [POINTER(c_void_p), c_int, POINTER(sparsecollConfig_t)]),
    "sparsecollCommInitOob": (c_int, [POINTER(c_void_p), c_int, c_int, c_int, POINTER(sparsecollOob_t),
        POINTER(sparsecollConfig_t)]),
    "sparsecollCommInitNccl": (c_int, [POINTER(c_void_p), c_void_p, c_int, POINTER(sparsecollConfig_t)]),
    "sparsecollCommInitEngine": (c_int, [POINTER(c_void_p), c_int, c_int, c_int, POINTER(sparsecollEngine_t),
        POINTER(sparsecollConfig_t)]),
    "sparsecollCommSplit": (c_int, [c_void_p, c_int, c_int, POINTER(c_void_p), POINTER(sparsecollConfig_t)]),
    "sparsecollCommShrink": (c_int, [c_void_p, POINTER(c_int), c_int, POINTER(c_void_p), POINTER(sparsecollConfig_t)]),
    "sparsecollCommGetInfo": (c_int, [c_void_p, POINTER(c_int), POINTER(c_int), POINTER(c_int)]),
    "sparsecollCommGetDetails": (c_int, [c_void_p, POINTER(sparsecollCommDetails_t)]),
    "sparsecollCommGetAsyncError": (c_int, [c_void_p, POINTER(c_int)]),
    "sparsecollCommGetFailure": (c_int, [c_void_p, POINTER(sparsecollFailure_t)]),
    "sparsecollCommGetPeerFailure": (c_int, [c_void_p, POINTER(sparsecollFailure_t)]),
    "sparsecollCommDumpFlightRecorder": (c_int, [c_void_p, c_char_p]),
    "sparsecollCommWait": (c_int, [c_void_p, c_void_p, c_uint64]),
    "sparsecollCommAbort": (c_int, [c_void_p]),
    "sparsecollCommDestroy": (c_int, [c_void_p]),
    "sparsecollAllReduce": (c_int, [c_void_p, c_void_p, c_uint64, c_int, POINTER(sparsecollParams_t), c_void_p,
        c_void_p]),
    "sparsecollAllReduceVector": (c_int, [POINTER(sparsecollVector_t), POINTER(sparsecollVector_t),
        POINTER(sparsecollParams_t), c_void_p, c_void_p]),
    "sparsecollReduceScatterVector": (c_int, [POINTER(sparsecollVector_t), POINTER(sparsecollVector_t),
        POINTER(c_uint64), c_void_p, c_void_p]),
    "sparsecollAllGatherVector": (c_int, [POINTER(sparsecollVector_t), POINTER(sparsecollVector_t), c_void_p,
        c_void_p]),
    "sparsecollSelect": (c_int, [c_void_p, c_uint64, c_int, POINTER(sparsecollParams_t), POINTER(sparsecollVector_t),
        c_void_p, c_void_p]),
    "sparsecollMerge": (c_int, [POINTER(sparsecollVector_t), POINTER(sparsecollVector_t), POINTER(sparsecollVector_t),
        c_void_p, c_void_p]),
    "sparsecollScatterAdd": (c_int, [POINTER(sparsecollVector_t), c_void_p, c_uint64, c_double, c_void_p, c_void_p]),
    "sparsecollPreset": (c_int, [c_char_p, POINTER(sparsecollParams_t)]),
    "sparsecollPresetName": (c_char_p, [c_uint32]),
    "sparsecollPresetPaper": (c_char_p, [c_uint32]),
    "sparsecollReducerCreate": (c_int, [POINTER(c_void_p), c_uint64, c_int, POINTER(sparsecollParams_t),
        POINTER(sparsecollReducerConfig_t), c_void_p]),
    "sparsecollReducerGetInfo": (c_int, [c_void_p, POINTER(sparsecollReducerInfo_t)]),
    "sparsecollReducerGetPlan": (c_int, [c_void_p, POINTER(sparsecollChoice_t), POINTER(c_uint64)]),
    "sparsecollReducerRun": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p]),
    "sparsecollReducerRunSparse": (c_int, [c_void_p, c_void_p, POINTER(sparsecollVector_t), c_void_p]),
    "sparsecollReducerSetDensity": (c_int, [c_void_p, c_double]),
    "sparsecollReducerSetScales": (c_int, [c_void_p, c_double, c_double]),
    "sparsecollReducerGiveBack": (c_int, [c_void_p, c_void_p, c_double, c_void_p]),
    "sparsecollReducerGetStats": (c_int, [c_void_p, POINTER(sparsecollStats_t)]),
    "sparsecollReducerReset": (c_int, [c_void_p, c_void_p]),
    "sparsecollReducerFlush": (c_int, [c_void_p, c_void_p, c_void_p]),
    "sparsecollReducerGetResidual": (c_int, [c_void_p, POINTER(c_void_p), POINTER(c_uint64), POINTER(c_int)]),
    "sparsecollReducerExport": (c_int, [c_void_p, c_void_p, POINTER(c_size_t), c_void_p]),
    "sparsecollReducerImport": (c_int, [c_void_p, c_void_p, c_size_t, c_void_p]),
    "sparsecollReducerImportFrom": (c_int, [c_void_p, c_void_p, c_size_t, c_int, c_void_p]),
    "sparsecollReducerMove": (c_int, [c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_int)]),
    "sparsecollReducerDestroy": (c_int, [c_void_p]),
    "sparsecollGetStats": (c_int, [c_void_p, POINTER(sparsecollStats_t)]),
    "sparsecollResetStats": (c_int, [c_void_p]),
}
