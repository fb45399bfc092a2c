#include "transports/bootstrap/pmix.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <span>
#include <thread>
#include <type_traits>

#include "core/signals.h"
#include "transports/bootstrap/crypto.h"
#include "transports/bootstrap/mpi_here.h"
#include "transports/bootstrap/pmix_abi.h"
#include "transports/symbol.h"

namespace sparsecoll::bootstrap {

namespace {

using namespace pmix;

constexpr const char* kSystemName = "libpmix.so.2";
constexpr const char* kKey = "sparsecoll";

struct Library {
#define SC_PMIX_MEMBER(name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  SC_PMIX_CALLS(SC_PMIX_MEMBER)
#undef SC_PMIX_MEMBER
};

Result<Library> load(const char* named) {
  const char* const file = named != nullptr ? named : kSystemName;
  if (mpiHere() == MpiHere::kInitialised && dlopen(file, RTLD_LAZY | RTLD_NOLOAD) == nullptr)
    return unsupported("MPI has a PMIx of its own in this process");
  void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return unsupported("PMIx was not found: {}", why != nullptr ? why : file);
  }
  Library found;
#define SC_PMIX_FIND(name, ...) \
  if (!findSymbol(handle, "PMIx_" #name, found.name)) return unsupported("{} has no PMIx_" #name, file);
  SC_PMIX_CALLS(SC_PMIX_FIND)
#undef SC_PMIX_FIND
  return found;
}

decltype(Library::Finalize) finalizeAtExit = nullptr;

// What one thread does and another waits for.
class Talk {
 public:
  Talk(const Library& library, std::string_view word, int rank) : library_(library), word_(word), rank_(rank) {}
  ~Talk() { wipe(std::as_writable_bytes(std::span(word_))); }
  Talk(const Talk&) = delete;
  Talk& operator=(const Talk&) = delete;

  void run() {
    Status ended;
    try {
      ended = begin();
    } catch (const std::bad_alloc&) {
      ended = fail(sparsecollOutOfMemory, "out of memory");
    }
    const std::lock_guard lock(mutex_);
    ended_ = std::move(ended);
    done_ = true;
    changed_.wake();
  }

  bool awaitEnd(const Deadline& deadline) {
    std::unique_lock lock(mutex_);
    return changed_.wait(lock, deadline, [&] { return done_; });
  }

  const char* at() const { return at_; }
  const Status& ended() const { return ended_; }
  const std::string& word() const { return word_; }

 private:
  Status checked(const char* call, int code) {
    if (code == kSuccess) return {};
    const char* const why = library_.Error_string(code);
    return fail(sparsecollSystemError, "{}: {} ({})", call, why != nullptr ? why : "no word of why", code);
  }

  Status begin() {
    Proc self{};
    at_ = "PMIx_Init";
    if (const Status begun = checked(at_, library_.Init(&self, nullptr, 0)); !begun.ok())
      return unsupported("{}", begun.failure().text);
    const Status talked = talk(self);
    if (mpiHere() == MpiHere::kLoaded) {
      finalizeAtExit = library_.Finalize;
      (void)std::atexit([] { (void)finalizeAtExit(nullptr, 0); });
      return talked;
    }
    at_ = "PMIx_Finalize";
    const Status closed = checked(at_, library_.Finalize(nullptr, 0));
    return talked.ok() ? closed : talked;
  }

  Status talk(const Proc& self) {
    if (self.rank != static_cast<uint32_t>(rank_))
      return fail(sparsecollSystemError, "the launcher says rank {}, its PMIx {}", rank_, self.rank);
    if (rank_ == 0) {
      Value value{};
      value.type = kString;
      value.data.text = word_.data();
      at_ = "PMIx_Put";
      SC_TRY(checked(at_, library_.Put(kGlobal, kKey, &value)));
      at_ = "PMIx_Commit";
      SC_TRY(checked(at_, library_.Commit()));
    }
    Info collect{};
    std::strcpy(collect.key, kCollect);
    collect.value.type = kBool;
    collect.value.data.flag = true;
    at_ = "PMIx_Fence";
    SC_TRY(checked(at_, library_.Fence(nullptr, 0, &collect, 1)));
    return rank_ == 0 ? Status() : get(self);
  }

  Status get(const Proc& self) {
    Proc zero = self;
    zero.rank = 0;
    Value* value = nullptr;
    at_ = "PMIx_Get";
    SC_TRY(checked(at_, library_.Get(&zero, kKey, nullptr, 0, &value)));
    const bool text = value != nullptr && value->type == kString && value->data.text != nullptr;
    if (text) {
      word_ = value->data.text;
      wipe(std::as_writable_bytes(std::span(value->data.text, word_.size())));
      std::free(value->data.text);
    }
    std::free(value);
    return text ? Status() : fail(sparsecollSystemError, "PMIx_Get brings no text of rank 0's");
  }

  const Library library_;
  std::string word_;
  const int rank_;
  std::atomic<const char*> at_ = "the start of a thread";
  std::mutex mutex_;
  WaitPoint changed_;
  bool done_ = false;
  Status ended_;
};

class Pmix final : public Launcher {
 public:
  explicit Pmix(const Library& library) : library_(library) {}

  Result<std::string> spread(std::string_view word, int rank, const Deadline& deadline) override {
    std::thread talker;
    if (!talk_) {
      const auto talk = std::make_shared<Talk>(library_, word, rank);
      const WithoutSignals blocked;
      talker = std::thread([talk] { talk->run(); });
      talk_ = talk;
    }
    const bool inTime = talk_->awaitEnd(deadline);
    if (talker.joinable()) inTime ? talker.join() : talker.detach();
    if (!inTime) {
      const char* const at = talk_->at();
      const bool fence = std::strcmp(at, "PMIx_Fence") == 0;
      return fail(sparsecollTimeout, "{} has not ended in time{}", at,
                  fence ? ": not all ranks of the job have come" : "");
    }
    if (talk_->ended().ok()) return talk_->word();
    const Failure why = talk_->ended().failure();
    talk_.reset();
    return Status(why);
  }

 private:
  const Library library_;
  std::shared_ptr<Talk> talk_;
};

}  // namespace

Result<std::unique_ptr<Launcher>> pmixLauncher(const char* file) {
  SC_TRY(const Library library, load(file));
  return std::unique_ptr<Launcher>(std::make_unique<Pmix>(library));
}

}  // namespace sparsecoll::bootstrap
