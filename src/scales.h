// inputScale and outputScale of a reducer's next steps. Steps on devices may be captured, so there both also stand in
// the kernels' memory, and beside them the outputScale of the latest step, which is the one that GiveBack undoes.
#pragma once

#include "core/kernels.h"
#include "src/communicator.h"

namespace sparsecoll {

struct ScalePair {
  double in = 1;
  double out = 1;
};

// Vectors of that type are multiplied by it. Errors: InvalidArgument (it is not finite there, or 0).
Status checkFactor(const char* name, double factor, sparsecollDataType_t type);

class Scales {
 public:
  static Result<Scales> make(ScalePair scales, Communicator& comm, const std::shared_ptr<MemoryBudget>& budget);

  ScalePair now() const { return now_; }
  // From the next step, or replay, on the stream on.
  void set(ScalePair scales, Stream stream);

  // What a step multiplies by. captured: its replays read the scales anew.
  Scale in(bool captured) const { return captured ? Scale::standingAt(place(kIn)) : now_.in; }
  Scale out(bool captured) const { return captured ? Scale::standingAt(place(kOut)) : now_.out; }
  // A step that leaves something to give back. inGraph: it is captured, or others were.
  void noteStep(bool inGraph, Stream stream);
  // The latest such step's outputScale. inGraph: that may be a replay.
  Scale lastOut(bool inGraph) const { return inGraph ? Scale::standingAt(place(kLastOut)) : lastOut_; }

 private:
  enum Which { kIn, kOut, kLastOut, kPlaces };
  double* place(Which which) const { return places_.as<double>() + which; }

  Kernels* kernels_ = nullptr;
  ScalePair now_;
  double lastOut_ = 1;
  Buffer places_;  // on devices
};

}  // namespace sparsecoll
