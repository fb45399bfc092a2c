// The parts of a cut.
#pragma once

#include "cuda/cut_view.h"

namespace sparsecoll::cuda {

// Which entries of the windows stay: keptKey and keptEquals of those whose boundary is open.
template <class A>
void findBoundaries(const CutView<A>& view, DeviceContext& device, Stream stream);

// What stays, in index order, to the target. Finds the boundaries of small windows, too.
template <class A>
void emitEntries(const CutView<A>& view, uint64_t windows, DeviceContext& device, Stream stream);

// Adds the sums of arrivals to acc for the time of the cut, and collects the candidates of the chosen windows anew.
template <class A>
void addArrivals(const CutView<A>& view, const CutArgs& args, DeviceContext& device, Stream stream);
// The candidates of windows that are marked for it, from acc.
template <class A>
void collectAgain(const CutView<A>& view, DeviceContext& device, Stream stream);
// Takes them away again, and writes what of them was not selected.
template <class A>
void dropArrivals(const CutView<A>& view, const CutArgs& args, DeviceContext& device, Stream stream);

}  // namespace sparsecoll::cuda
