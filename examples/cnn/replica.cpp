// SPDX-License-Identifier: Apache-2.0
#include "examples/cnn/replica.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <climits>
#include <stdexcept>

#include "examples/cnn/resnet.h"

#ifdef __GLIBC__  // any header of the C library defines it
#include <malloc.h>
#endif

namespace examples {

namespace {

constexpr int64_t kChannels = 3;
constexpr int64_t kSide = 32;

// The slice of a flat buffer that belongs to a parameter. Convolution weights lie there as channels-last, the layout
// that oneDNN's kernels use without a reorder.
torch::Tensor viewLike(const torch::Tensor& parameter, const torch::Tensor& flat, int64_t offset) {
  const auto slice = flat.narrow(0, offset, parameter.numel());
  if (parameter.dim() != 4) return slice.view(parameter.sizes());
  return slice.view({parameter.size(0), parameter.size(2), parameter.size(3), parameter.size(1)}).permute({0, 3, 1, 2});
}

// Borrows the planar images; the copy to channels-last is the only one.
torch::Tensor imageTensor(float* images, size_t batchSize) {
  return torch::from_blob(images, {static_cast<int64_t>(batchSize), kChannels, kSide, kSide})
      .contiguous(at::MemoryFormat::ChannelsLast);
}

}  // namespace

struct Replica::State {
  ResNet model{nullptr};
  std::vector<torch::Tensor> parameterList;
  torch::Tensor parameters, gradient, velocity;  // flat, float32

  void flatten();
  void checkGradientViews() const;
};

void Replica::State::flatten() {
  torch::NoGradGuard noGrad;
  int64_t count = 0;
  parameterList = model->parameters();
  for (const auto& parameter : parameterList) count += parameter.numel();
  parameters = torch::zeros({count});
  gradient = torch::zeros({count});
  velocity = torch::zeros({count});
  int64_t offset = 0;
  for (auto& parameter : parameterList) {
    auto view = viewLike(parameter, parameters, offset);
    view.copy_(parameter);
    parameter.set_data(view);
    parameter.mutable_grad() = viewLike(parameter, gradient, offset);
    offset += parameter.numel();
  }
}

// Autograd adds in place to a gradient that exists; should a version of LibTorch replace it, training would go on with
// zeros. Hence the check, which costs nothing next to a backward pass.
void Replica::State::checkGradientViews() const {
  const float* expected = gradient.data_ptr<float>();
  for (const auto& parameter : parameterList) {
    if (parameter.grad().data_ptr<float>() != expected) throw std::logic_error("autograd replaced a gradient view");
    expected += parameter.numel();
  }
}

Replica::Replica(const std::string& model, uint64_t seed) : state_(std::make_unique<State>()) {
  state_->model = makeResNet(model, seed);
  state_->flatten();
}

Replica::~Replica() = default;

size_t Replica::parameterCount() const { return static_cast<size_t>(state_->parameters.numel()); }

std::vector<size_t> Replica::tensorLengths() const {
  std::vector<size_t> lengths;
  for (const auto& parameter : state_->parameterList) lengths.push_back(static_cast<size_t>(parameter.numel()));
  return lengths;
}

const float* Replica::parameters() const { return state_->parameters.data_ptr<float>(); }

float* Replica::gradient() { return state_->gradient.data_ptr<float>(); }

float Replica::accumulateGradient(float* images, int64_t* labels, size_t batchSize) {
  const auto targets = torch::from_blob(labels, {static_cast<int64_t>(batchSize)}, torch::kLong);
  const auto loss = torch::cross_entropy_loss(state_->model->forward(imageTensor(images, batchSize)), targets);
  loss.backward();
  state_->checkGradientViews();
  return loss.item<float>();
}

void Replica::applySgd(const SgdStep& step) {
  const size_t count = parameterCount();
  float* __restrict parameter = state_->parameters.data_ptr<float>();
  float* __restrict velocity = state_->velocity.data_ptr<float>();
  float* __restrict gradient = state_->gradient.data_ptr<float>();
  for (size_t i = 0; i < count; ++i) {
    velocity[i] = step.momentum * velocity[i] + (gradient[i] + step.weightDecay * parameter[i]);
    parameter[i] -= step.learningRate * velocity[i];
    gradient[i] = 0.0f;
  }
}

void Replica::prepareForTest() { state_->model->eval(); }

size_t Replica::countCorrect(float* images, const int64_t* labels, size_t batchSize) const {
  torch::NoGradGuard noGrad;
  const auto predicted = state_->model->forward(imageTensor(images, batchSize)).argmax(1);
  const int64_t* classes = predicted.data_ptr<int64_t>();
  size_t correct = 0;
  for (size_t i = 0; i < batchSize; ++i) correct += classes[i] == labels[i] ? 1 : 0;
  return correct;
}

// glibc maps every large tensor afresh and the kernel clears its pages again in each step: 25 % of the time. Keeping
// freed memory costs nothing because the next step allocates the same sizes.
void tuneProcess() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
  // OpenBLAS has threads of its own, whichever BLAS this process has loaded.
  using SetThreads = void (*)(int);
  if (auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"))) set(1);
}

void useOneThreadPerRank() { at::set_num_threads(1); }

}  // namespace examples
