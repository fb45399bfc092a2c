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

// acc and, tile by tile, the norms of its windows.
template <class A, class T>
void measureNorms(const PassView<A, T>& view, DeviceContext& device, Stream stream);

}  // namespace sparsecoll::cuda
