#include "src/input_shape.h"

#include <cmath>

namespace sparsecoll {

Result<InputShape> InputShape::make(const InputShapeSetup& setup, Kernels& kernels,
                                    const std::shared_ptr<MemoryBudget>& budget) {
  const sparsecollParams_t& params = setup.params;
  InputShape shape;
  shape.kernels_ = &kernels;
  shape.n_ = setup.n;
  shape.type_ = setup.accumulateType;
  shape.momentum_ = params.momentum;
  shape.decay_ = params.residualDecay;
  // P independent gradients of this norm add up to one of clipNorm.
  shape.mostNorm_ = params.clipNorm / std::sqrt(static_cast<double>(setup.ranks));
  shape.nesterov_ = (params.flags & SPARSECOLL_NESTEROV) != 0;
  shape.masks_ = (params.flags & SPARSECOLL_MOMENTUM_KEPT) == 0;
  shape.transactional_ = setup.transactional;
  shape.velocity_ = static_cast<std::byte*>(setup.velocity);
  if (shape.keepsVelocity() && shape.velocity_ == nullptr) {
    SC_TRY(shape.own_, kernels.allocate(shape.elements() * elementBytes(shape.type_), budget));
    shape.velocity_ = shape.own_.as<>();
  }
  if (shape.mostNorm_ > 0) {
    SC_TRY(shape.clipping_, kernels.allocate(sizeof(Clipping), budget));
  }
  return shape;
}

void* InputShape::velocity(int which) const {
  if (!keepsVelocity()) return nullptr;
  return velocity_ + static_cast<uint64_t>(which) * bytes();
}

void InputShape::prepare(SelectionInput& input, int from, int to, Stream stream) const {
  // Scaling twice is scaling once with the product, so clipping costs one more reading of the gradient and no writing.
  if (mostNorm_ > 0) {
    auto* const clipping = clipping_.as<Clipping>();
    kernels_->squares(input.gradient, input.gradientType, n_, &clipping->squares, stream);
    kernels_->clip({&clipping->squares, 1}, input.scale, mostNorm_, &clipping->scale, stream);
    input.scale = Scale::standingAt(&clipping->scale);
  }
  input.momentum.velocityIn = velocity(from);
  input.momentum.velocityOut = velocity(to);
  input.momentum.factor = momentum_;
  input.momentum.nesterov = nesterov_;
  input.momentum.decay = decay_;
}

void InputShape::mask(int which, const ListView& list, const Control* decision, Stream stream) const {
  if (keepsVelocity() && masks_) kernels_->zeroAt(velocity(which), type_, n_, list, decision, stream);
}

void InputShape::mask(int which, std::span<const ListView> sent, const ListView& sum, const Control* decision,
                      Stream stream) const {
  if (keepsVelocity() && masks_)
    kernels_->settle({velocity(which), type_, n_, sum, sent, {}, nullptr, decision}, stream);
}

void InputShape::clearNonFinite(int which, const Control* control, Stream stream) const {
  if (keepsVelocity()) kernels_->clearNonFinite(velocity(which), type_, n_, control, stream);
}

void InputShape::copy(int to, int from, Stream stream) const {
  if (keepsVelocity()) kernels_->copy(velocity(to), velocity(from), bytes(), stream);
}

void InputShape::restore(int which, const Control* decision, Stream stream) const {
  if (keepsVelocity()) kernels_->restore(velocity(which), velocity(1 - which), type_, n_, decision, stream);
}

void InputShape::reset(Stream stream) const {
  if (keepsVelocity()) kernels_->fillZero(velocity_, elements() * elementBytes(type_), stream);
}

}  // namespace sparsecoll
