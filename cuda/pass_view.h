// The fused pass as its kernels see it.
#pragma once

#include "cuda/accumulate.h"
#include "cuda/device_context.h"
#include "cuda/device_workspace.h"

namespace sparsecoll::cuda {

template <class A, class T>
struct PassView {
  AccSource<A, T> source;
  A* out;
  A* velocityOut;
  uint64_t n;
  Control* control;
  uint32_t* candidateIndices;
  A* candidateValues;
  SelectionSpace space;
};

template <class A, class T>
PassView<A, T> passView(const PassArgs& args, Stream stream) {
  PassView<A, T> view;
  view.source = AccSource<A, T>::of(args);
  view.out = static_cast<A*>(args.out);
  view.velocityOut = static_cast<A*>(args.momentum.velocityOut);
  view.n = args.n;
  view.control = args.control;
  view.candidateIndices = args.candidateIndices;
  view.candidateValues = static_cast<A*>(args.candidateValues);
  view.space = workspaceOf(stream).selection();
  return view;
}

#if SC_DEVICE_CODE
// Where acc is NaN as this machine's arithmetic leaves it, acc and velocity get the one that all machines share: its
// bits decide which entries stay. Costs nothing elsewhere. The thread has written the element; returns acc.
template <class A, class T>
__device__ inline A shareNaN(const PassView<A, T>& view, uint64_t i, A acc) {
  if (acc == acc || view.out == nullptr) return acc;
  view.out[i] = quietNaN(A{});
  if (view.source.velocityIn != nullptr) view.velocityOut[i] = canonical(view.velocityOut[i]);
  return quietNaN(A{});
}
#endif

// acc and, tile by tile, the norms of its windows.
template <class A, class T>
void measureNorms(const PassView<A, T>& view, double* norms, DeviceContext& device, Stream stream);

}  // namespace sparsecoll::cuda
