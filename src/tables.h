// The process's live handles.
#pragma once

#include <memory>
#include <utility>

#include "cuda/cuda_kernels.h"
#include "src/any_reducer.h"
#include "src/communicator.h"
#include "src/handles.h"

namespace sparsecoll {

HandleTable<Communicator, sparsecollComm_t>& communicators();
HandleTable<AnyReducer, sparsecollReducer_t>& reducers();
using CommunicatorPlace = HandleTable<Communicator, sparsecollComm_t>::Reservation;
using ReducerPlace = HandleTable<AnyReducer, sparsecollReducer_t>::Reservation;

// What a handle stands for while a call is at work on it, on its device (see cuda::OnDevice).
template <class Object>
class InUse {
 public:
  explicit InUse(std::shared_ptr<Object> object) : current_(object->device()), object_(std::move(object)) {}
  Object* operator->() const { return object_.get(); }
  Object& operator*() const { return *object_; }
  const std::shared_ptr<Object>& shared() const { return object_; }

 private:
  cuda::OnDevice current_;  // until the object, which may end here, is gone
  std::shared_ptr<Object> object_;
};

template <class Object, class Handle>
Result<InUse<Object>> use(const HandleTable<Object, Handle>& table, Handle handle) {
  SC_TRY(auto object, table.find(handle));
  return InUse<Object>(std::move(object));
}

// Host communicators take no stream, others none whose handle means another one in another thread: NCCL and ranks of
// this process enqueue from threads of their own.
Status checkStream(bool onHost, sparsecollStream_t stream);

}  // namespace sparsecoll
