// The process's live handles.
#pragma once

#include "src/communicator.h"
#include "src/handles.h"
#include "src/reducer.h"

namespace sparsecoll {

HandleTable<Communicator, sparsecollComm_t>& communicators();
HandleTable<Reducer, sparsecollReducer_t>& reducers();

// Host communicators take no stream.
Status checkStream(sparsecollStream_t stream);

}  // namespace sparsecoll
