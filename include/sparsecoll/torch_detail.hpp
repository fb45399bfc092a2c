// SPDX-License-Identifier: Apache-2.0
// What stands behind torch.hpp, which includes it: buckets, the thread of overlapped steps, hooks. Not for direct use.
#ifndef SPARSECOLL_TORCH_DETAIL_HPP_
#define SPARSECOLL_TORCH_DETAIL_HPP_

#include <c10/core/Event.h>
#include <sparsecoll/sparsecoll.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// The header is written by LibTorch's own build, and only if that had CUDA.
#ifndef SPARSECOLL_TORCH_HAS_CUDA
#if __has_include(<c10/cuda/impl/cuda_cmake_macros.h>)
#define SPARSECOLL_TORCH_HAS_CUDA 1
#else
#define SPARSECOLL_TORCH_HAS_CUDA 0
#endif
#endif
#if SPARSECOLL_TORCH_HAS_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace sparsecoll::torch {

/// What a call of the library came back with; what() has the library's own explanation.
class Error : public std::runtime_error {
 public:
  Error(sparsecollResult_t code, const std::string& text) : std::runtime_error(text), code_(code) {}
  sparsecollResult_t code() const noexcept { return code_; }

 private:
  sparsecollResult_t code_;
};

/// Throws Error unless result is Success. On the thread of the call.
inline void check(sparsecollResult_t result, const char* call) {
  if (result == sparsecollSuccess) return;
  std::string text = std::string(call) + ": " + sparsecollGetErrorString(result);
  const std::string details = sparsecollGetLastError();
  if (!details.empty()) text += ": " + details;
  throw Error(result, text);
}

/// The densities that a warm-up starts with, before the method's own: 0.25 and a quarter of the one before (Lin et al.
/// 2018), as far as they are larger than density.
inline std::vector<double> warmUpDensities(double density) {
  std::vector<double> densities;
  for (double next = 0.25; next > density; next /= 4) densities.push_back(next);
  return densities;
}

/// How many steps each of them takes in a training of so many steps; at most 100, so that a warm-up is a small part of
/// what a long training sends.
inline std::uint64_t warmUpSteps(std::uint64_t trainingSteps) {
  return std::min<std::uint64_t>(std::max<std::uint64_t>(trainingSteps / 8, 1), 100);
}

struct Options {
  std::string preset = "topka";  // a name that sparsecollPreset knows; "dense" sends everything
  double density = 0.01;         // of what the preset counts, see docs/algorithms; dense methods ignore it
  bool average = true;           // false: the sum over the ranks
  bool errorFeedback = true;     // false: what is not sent is lost
  std::uint64_t seed = 0;        // of random selection

  std::size_t bucketBytes = 0;  // start another bucket beyond this size; 0: never
  bool overlap = false;         // send a bucket as soon as backward has filled it, from a thread of its own

  double vectorDensity = 0;  // for tensors of at most one dimension (biases, norms): 1 dense, 0 as the others
  // The same for parameter i, instead of vectorDensity.
  std::function<double(std::size_t, const at::Tensor&)> densityOf;

  // SGD's momentum, taken over from the optimiser, which must have none then: what waits to be sent does not lose its
  // share (momentum correction). Needs errorFeedback. Not given: the preset's own.
  std::optional<double> momentum;
  bool nesterov = false;  // with momentum

  double maxDensity = 0;                // the most that setDensity will ask for; 0: density
  std::vector<double> densitySchedule;  // warm-up: densities of the first steps,
  std::uint64_t scheduleSteps = 0;      // so many steps each
  bool transactional = false;           // a step that fails leaves the residual as it was
  // Called last: may set every other parameter (clipNorm, residualDecay, ...).
  std::function<void(sparsecollParams_t&)> adjust;

  /// The recipe with which sparse methods learn faster (docs/guide/recipe.md): a warm-up of the density, and momentum
  /// here instead of in the optimiser. Set density first. sgdMomentum: 0 for optimisers without, and for Adam.
  Options& useRecipe(std::uint64_t trainingSteps, double sgdMomentum, bool sgdNesterov = false) {
    densitySchedule = warmUpDensities(density);
    scheduleSteps = densitySchedule.empty() ? 0 : warmUpSteps(trainingSteps);
    momentum = sgdMomentum;
    nesterov = sgdNesterov;
    return *this;
  }
};

namespace detail {

inline sparsecollDataType_t dataType(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return sparsecollFloat16;
    case at::kBFloat16:
      return sparsecollBfloat16;
    case at::kFloat:
      return sparsecollFloat32;
    case at::kDouble:
      return sparsecollFloat64;
    default:
      throw Error(sparsecollUnsupported, std::string("no gradients of type ") + c10::toString(type));
  }
}

// The stream that work of this thread on the device goes to; host calls take none.
inline sparsecollStream_t currentStream(const c10::Device& device) {
  if (device.is_cpu()) return nullptr;
#if SPARSECOLL_TORCH_HAS_CUDA
  if (device.is_cuda()) return c10::cuda::getCurrentCUDAStream(device.index()).stream();
#endif
  throw Error(sparsecollUnsupported, "no gradients on " + device.str() + " with this LibTorch");
}

/// Parameters whose gradients lie one after the other in one vector, and the reducer of it.
class Bucket {
 public:
  /// own: the bucket has a density of its own, which setDensity leaves alone.
  Bucket(std::vector<at::Tensor> parameters, std::size_t number, double own, const Options& options,
         sparsecollComm_t comm)
      : parameters_(std::move(parameters)), ownDensity_(own > 0) {
    lay();
    create(number, own, options, comm);
    restart();
  }
  Bucket(const Bucket&) = delete;
  Bucket& operator=(const Bucket&) = delete;
  ~Bucket() { sparsecollReducerDestroy(reducer_); }

  sparsecollReducer_t reducer() const { return reducer_; }
  const at::Tensor& flat() const { return flat_; }
  std::size_t size() const { return parameters_.size(); }
  const at::Tensor& parameter(std::size_t i) const { return parameters_[i]; }
  bool isGathered(std::size_t i) const { return gathered_[i]; }
  bool isFull() const { return missing_ == 0; }
  bool isDense() const { return dense_; }
  bool followsDensity() const { return !dense_ && !ownDensity_; }
  /// flat is the sum of the latest step, and not gradients of one that did not get as far.
  bool hasSum() const { return hasSum_; }
  void forgetSum() { hasSum_ = false; }

  /// Makes the parameter's gradient a view of the flat vector, with the values it had; none is zero.
  void gather(std::size_t i) {
    const at::NoGradGuard noGrad;
    at::Tensor& gradient = parameters_[i].mutable_grad();
    const at::Tensor& view = views_[i];
    if (!gradient.defined()) {
      view.zero_();
    } else if (gradient.is_sparse()) {
      view.copy_(gradient.to_dense());
    } else if (gradient.data_ptr() != view.data_ptr() || gradient.strides() != view.strides()) {
      view.copy_(gradient);
    }
    gradient = view;
    gathered_[i] = true;
    --missing_;
  }

  void gatherRest() {
    for (std::size_t i = 0; i < size(); ++i)
      if (!gathered_[i]) gather(i);
  }

  /// For the next step: nothing is gathered.
  void restart() {
    gathered_.assign(size(), false);
    missing_ = size();
  }

  void zero() {
    const at::NoGradGuard noGrad;
    flat_.zero_();
    for (std::size_t i = 0; i < parameters_.size(); ++i) parameters_[i].mutable_grad() = views_[i];
  }

  void run() {
    void* data = flat_.data_ptr();
    check(sparsecollReducerRun(reducer_, data, data, currentStream(flat_.device())), "sparsecollReducerRun");
    hasSum_ = true;
  }

 private:
  // Views share the flat vector's storage without being views to autograd, which would forbid detach_ on them. Each has
  // its parameter's strides, so that accumulating into it and the optimiser run over memory in order.
  void lay() {
    const at::NoGradGuard noGrad;
    int64_t count = 0;
    for (const auto& parameter : parameters_) count += parameter.numel();
    const auto options = parameters_.front().options().requires_grad(false);
    flat_ = at::zeros({count}, options);
    int64_t offset = 0;
    for (const auto& parameter : parameters_) {
      views_.push_back(at::empty({0}, options).set_(flat_.storage(), offset, parameter.sizes(), stridesOf(parameter)));
      offset += parameter.numel();
    }
  }

  static std::vector<int64_t> stridesOf(const at::Tensor& parameter) {
    auto strides = parameter.strides().vec();
    if (parameter.is_non_overlapping_and_dense()) return strides;
    int64_t stride = 1;
    for (auto i = strides.size(); i-- > 0; stride *= parameter.sizes()[i]) strides[i] = stride;
    return strides;
  }

  void create(std::size_t number, double own, const Options& options, sparsecollComm_t comm) {
    auto params = SPARSECOLL_INIT(sparsecollParams_t);
    check(sparsecollPreset(options.preset.c_str(), &params), "sparsecollPreset");
    const double momentum = options.momentum ? *options.momentum : options.errorFeedback ? params.momentum : 0;
    if (own >= 1) check(sparsecollPreset("dense", &params), "sparsecollPreset");
    dense_ = params.collective == sparsecollCollDense;
    params.op = options.average ? sparsecollAvg : sparsecollSum;
    params.seed = options.seed;
    params.tag = number;
    if (!dense_) {
      params.density = own > 0 ? own : options.density;
      params.k = 0;
      if (!options.errorFeedback) params.flags |= SPARSECOLL_NO_RESIDUAL;
    }
    params.momentum = momentum;
    if (options.nesterov && params.momentum != 0) params.flags |= SPARSECOLL_NESTEROV;
    if (options.adjust) options.adjust(params);

    std::vector<sparsecollSegment_t> segments(parameters_.size());
    for (std::size_t i = 0; i < segments.size(); ++i)
      segments[i].length = static_cast<std::uint64_t>(parameters_[i].numel());
    auto config = SPARSECOLL_INIT(sparsecollReducerConfig_t);
    config.segments = segments.data();
    config.segmentCount = segments.size();
    if (!dense_) config.transactional = options.transactional ? 1 : 0;
    if (followsDensity()) {
      config.maxDensity = options.maxDensity;
    }
    if (followsDensity() && !options.densitySchedule.empty()) {
      config.densitySchedule = options.densitySchedule.data();
      config.densityScheduleCount = options.densitySchedule.size();
      config.scheduleSteps = options.scheduleSteps;
    }
    check(sparsecollReducerCreate(&reducer_, static_cast<std::uint64_t>(flat_.numel()), dataType(flat_.scalar_type()),
                                  &params, &config, comm),
          "sparsecollReducerCreate");
  }

  std::vector<at::Tensor> parameters_, views_;
  at::Tensor flat_;
  std::vector<bool> gathered_;
  std::size_t missing_ = 0;
  sparsecollReducer_t reducer_ = nullptr;
  bool ownDensity_;
  bool dense_ = false;
  bool hasSum_ = false;
};

/// One thread that does jobs in the order they came. After one has thrown, the others are dropped, until wait rethrows.
class Worker {
 public:
  Worker() : thread_([this] { work(); }) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void post(std::function<void()> job) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back(std::move(job));
      ++unfinished_;
    }
    wake_.notify_all();
  }

  /// Until all jobs are done; throws what the first failed one threw.
  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    wake_.wait(lock, [this] { return unfinished_ == 0; });
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return ending_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const auto job = std::move(jobs_.front());
      jobs_.pop_front();
      if (!failure_) perform(job, lock);
      --unfinished_;
      wake_.notify_all();
    }
  }

  void perform(const std::function<void()>& job, std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;
  std::size_t unfinished_ = 0;
  std::exception_ptr failure_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

/// Calls a function after autograd has added to a parameter's gradient. Tensor::register_hook comes too early for that,
/// and register_post_accumulate_grad_hook only with LibTorch 2.1.
class AccumulatedHook : public ::torch::autograd::FunctionPostHook {
 public:
  explicit AccumulatedHook(std::function<void()> call) : call_(std::move(call)) {}
  ::torch::autograd::variable_list operator()(const ::torch::autograd::variable_list& outputs,
                                              const ::torch::autograd::variable_list&) override {
    call_();
    return outputs;
  }

 private:
  std::function<void()> call_;
};

struct HookedParameter {
  // A shared_ptr, with later versions of LibTorch an intrusive_ptr. The parameter itself holds it weakly only.
  decltype(::torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>())) accumulator;
  std::uintptr_t key;
};

/// Where the optional thread's work goes on a device: a stream of its own, ordered with the caller's by events.
struct SideStream {
  explicit SideStream(const c10::Device& where) : device(where) {
#if SPARSECOLL_TORCH_HAS_CUDA
    if (device.is_cuda()) stream.emplace(c10::cuda::getStreamFromPool(false, device.index()).unwrap());
#endif
  }

  /// What the caller's stream has been given until now, for the side stream to wait for.
  std::shared_ptr<c10::Event> mark() const {
    if (!stream) return nullptr;
    auto event = std::make_shared<c10::Event>(device.type());
#if SPARSECOLL_TORCH_HAS_CUDA
    event->record(c10::cuda::getCurrentCUDAStream(device.index()).unwrap());
#endif
    return event;
  }

  /// Runs job with the side stream as the current one, behind the mark.
  void run(const std::shared_ptr<c10::Event>& after, const std::function<void()>& job) const {
#if SPARSECOLL_TORCH_HAS_CUDA
    if (stream) {
      const c10::cuda::CUDAStreamGuard guard(*stream);
      after->block(*stream);
      job();
      return;
    }
#endif
    (void)after;
    job();
  }

  /// The caller's stream goes on when the side stream is done.
  void join() const {
#if SPARSECOLL_TORCH_HAS_CUDA
    if (!stream) return;
    c10::Event done(device.type());
    done.record(*stream);
    done.block(c10::cuda::getCurrentCUDAStream(device.index()).unwrap());
#endif
  }

  c10::Device device;
  std::optional<c10::Stream> stream;
};

}  // namespace detail

}  // namespace sparsecoll::torch

#endif  // SPARSECOLL_TORCH_DETAIL_HPP_
