// The residual: what a rank has not sent yet, kept from one step to the next, and velocity beside it where there is
// momentum. A step goes
//   beginStep -> prepare (acc gets its place) -> commit (what was sent leaves) -> endStep
// and one that does not get as far as its commit loses nothing: acc stays whole, what is sent included, until then.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "collectives/collective.h"
#include "core/kernels.h"
#include "core/status.h"
#include "core/transport.h"
#include "selectors/selection.h"
#include "src/communicator.h"
#include "src/dense_tensors.h"
#include "src/input_shape.h"
#include "src/reducer_spec.h"

namespace sparsecoll {

// A transactional residual lies in two buffers: a step reads the current one and forms acc in the other, and a step
// that comes to nothing leaves the current one as it was. A graph keeps its addresses: once a step was captured, the
// residual stays in one buffer, and a step copies it to the other before it begins (the snapshot).
class Residual {
 public:
  Residual() = default;  // of the dense collective without momentum or clipping, which selects nothing, keeps nothing
  // denseTensors: lie beside what is selected from acc; valid as long as this.
  static Result<Residual> make(const ReducerSpec& spec, Communicator& comm, int ranks, DenseTensors& denseTensors,
                               const std::shared_ptr<MemoryBudget>& budget);

  // What the next step reads, with its deferred zeros written; nullptr for methods that keep none.
  void* data();
  // data() and velocity, nullptr where there is none: what Export saves whole. stepBack: as before the last step.
  std::array<void*, 2> vectors(bool stepBack = false);
  uint64_t bytes() const { return n_ * elementBytes(type_); }  // of each
  // Elements held besides the residual's n: a second buffer, velocity.
  uint64_t furtherElements() const { return (transactional_ ? n_ : 0) + shape_.elements(); }
  uint64_t deferredZerosBytes() const { return deferredZeros_.bytes(); }
  // Whether the caller's vector reaches into it or velocity.
  // Errors: InvalidArgument (a byte of the vector is one's).
  Status checkApart(const char* name, const void* vector, uint64_t bytes) const;

  // It goes on with another method, whose tensors sent dense are these.
  void pointAt(DenseTensors& denseTensors) { denseTensors_ = &denseTensors; }

  // The dense collective's step: x = finish(what the input comes to with clipping and momentum), rounded to the type. A
  // residual that is kept is part of it, and holds acc until leaveDense.
  void shapeDense(SelectionInput& input, Selection& selection, void* x, sparsecollDataType_t type, const Finish& finish,
                  Stream stream);

  // The dense sum was delivered: what rounding left of acc is all that stays. type, finish: as in shapeDense.
  void leaveDense(sparsecollDataType_t type, const Finish& finish, Stream stream);
  // A dense sum that may be given back.
  void noteDense() { outLeft_ = true; }

  void beginStep();
  // Completes the input of the operation's pass, with the place where it forms acc. Errors: what enqueueing meets.
  Status prepare(SelectionInput& input, const Operation& operation, Stream stream);
  // Decides whether the step takes effect. Only then does anything leave the residual.
  // Errors: NonFinite (host kernels; where that is an error), and what host kernels found before.
  Status commit(const Operation& operation, const Delivered& delivered, Control* control, Stream stream);
  // captured: a graph has the step, and so the residual's address. control: the step's.
  void endStep(bool captured, Control* control, Stream stream);
  // Whether some step was captured: the host does not know all steps any more.
  bool captured() const { return captured_; }
  // Whether a graph that is captured now may keep the address. Errors: InvalidUsage.
  Status checkStays(Stream stream) const;

  // Adds share / scale * the finite entries of out, unless the last step took nothing out of the residual.
  void giveBack(const void* out, sparsecollDataType_t type, double share, Scale scale, const Control* decision,
                Stream stream);
  // x += residual, which keeps what rounding leaves over.
  void flush(void* x, sparsecollDataType_t type, Stream stream);
  void reset(Stream stream);
  // Another content has come from outside: there is no last step to give back.
  void forgetStep() { outLeft_ = false; }

  // Whether it has committed more than what all ranks had completed, and can undo that.
  bool isAhead(uint64_t completed) const { return transactional_ && committed_ > completed; }
  // Residual and velocity to another reducer's, on a communicator made of this one's; stepBack: as before the last
  // step.
  void copyTo(Residual& to, bool stepBack, Kernels& kernels);

 private:
  void* buffer(int which) const;
  int other() const { return 1 - current_; }
  void snapshot(int to, int from, Stream stream);
  void roundInto(void* x, sparsecollDataType_t type, const Finish& finish, Stream stream);
  template <class Each>
  void eachPiece(sparsecollDataType_t type, Stream stream, Each each);
  void apply(const Finish& finish, void* x, uint64_t count, Stream stream);
  void clearOwnNonFinite(Control* control, Stream stream);
  void clearNonFinite(const Control* control, Stream stream);
  void leave(const Delivered& delivered, const Control* decision, uint64_t* lost, Stream stream);

  Kernels* kernels_ = nullptr;
  uint64_t n_ = 0;
  sparsecollDataType_t type_ = sparsecollFloat32;
  bool kept_ = false;  // else the buffer is only acc's place
  bool transactional_ = false;
  bool nonFiniteFails_ = false;
  void* callers_ = nullptr;  // buffers in the caller's memory
  Buffer own_;
  InputShape shape_;  // velocity, clipping, a fading residual
  Buffer pieces_;     // of acc on its way into a dense sum of another type
  DenseTensors* denseTensors_ = nullptr;
  Buffer deferredZeros_;  // see Kernels::defersZeros; empty: zeros are written at once
  bool anyDeferred_ = false;
  int current_ = 0;             // the buffer that holds the committed residual
  int next_ = 0;                // and the one that will when the step under way is over
  bool snapshotTaken_ = false;  // the step under way works on the committed residual
  bool undecided_ = false;      // and has nothing to go back to: what it adds stays, whatever becomes of it
  bool captured_ = false;
  bool outLeft_ = false;    // the last step's sum has left the residual, if it took effect
  uint64_t committed_ = 0;  // the operation of the latest commit
};

}  // namespace sparsecoll
