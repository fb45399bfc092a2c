// Device kernels that a test does not need.
#include <cuda_runtime.h>

#include "cuda/cut.h"

namespace sparsecoll::cuda {

template <class A>
void dropArrivals(const CutView<A>&, const CutArgs&, DeviceContext&, Stream) {}
template void dropArrivals(const CutView<float>&, const CutArgs&, DeviceContext&, Stream);
template void dropArrivals(const CutView<double>&, const CutArgs&, DeviceContext&, Stream);
template <class A>
void addArrivals(const CutView<A>&, const CutArgs&, DeviceContext&, Stream) {}
template void addArrivals(const CutView<float>&, const CutArgs&, DeviceContext&, Stream);
template void addArrivals(const CutView<double>&, const CutArgs&, DeviceContext&, Stream);

}  // namespace sparsecoll::cuda
