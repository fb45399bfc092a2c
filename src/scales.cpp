#include "src/scales.h"

#include <cmath>

#include "core/numeric.h"
#include "src/names.h"

namespace sparsecoll {

Status checkFactor(const char* name, double factor, sparsecollDataType_t type) {
  if (!std::isfinite(factor) || factor == 0) return invalid("{} is {}", name, factor);
  return withAccumulate(type, [&]<class A>(A) -> Status {
    const A rounded = static_cast<A>(factor);
    if (isFinite(rounded) && rounded != 0) return {};
    return invalid("{} is {}, and {} as {}", name, factor, rounded, dataTypeName(type));
  });
}

Result<Scales> Scales::make(ScalePair scales, Communicator& comm, const std::shared_ptr<MemoryBudget>& budget) {
  Scales made;
  made.kernels_ = &comm.kernels();
  if (!comm.onHost()) {
    SC_TRY(made.places_, comm.kernels().allocate(kPlaces * sizeof(double), budget));
  }
  made.set(scales, comm.kernels().stream());
  return made;
}

void Scales::set(ScalePair scales, Stream stream) {
  now_ = scales;
  if (places_.bytes() == 0) return;
  kernels_->transfer(place(kIn), &now_.in, sizeof(double), stream);
  kernels_->transfer(place(kOut), &now_.out, sizeof(double), stream);
}

void Scales::noteStep(bool inGraph, Stream stream) {
  lastOut_ = now_.out;
  if (inGraph) kernels_->copy(place(kLastOut), place(kOut), sizeof(double), stream);
}

}  // namespace sparsecoll
