// The thread that goes through an engine's operations for streams. What is to be done is posted as jobs and done in
// that order; a job waits until its stream has come to it, never longer than its operation may take. Whatever happens,
// every job ends and lets its stream go on: once something is wrong it brings frames that no kernel takes for this
// operation's.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "core/transport.h"
#include "transports/staged/words.h"

namespace sparsecoll::staged {

struct Job {
  enum class Kind { kBegin, kRound, kSum, kRefuse, kEnd };

  Kind kind = Kind::kBegin;
  uint32_t ticket = 0;
  bool awaitsStream = false;
  Operation operation;  // kBegin
  bool gathers = false;
  std::vector<Outgoing> out;  // kRound: in pinned memory, as all that follows
  std::vector<Incoming> in;
  DenseArgs sum;                 // kSum
  std::byte* verdict = nullptr;  // a header-only frame of the operation, if this and the sums before it have come
  Failure why;                   // kRefuse
};

class Service {
 public:
  Service(Transport& engine, const Words& words) : engine_(engine), words_(words) {}
  ~Service() { stop(); }
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  void start();

  // A job to be filled in and then posted; the caller's thread has one at a time. Errors: Timeout (too many wait).
  // Those that end an operation come through in any case.
  Result<Job*> claim(Job::Kind kind, const Deadline& deadline);
  void post(Job& job);

  // Until nothing is left to be done: true; false at the deadline. From then on, until something is posted, the engine
  // is the caller's.
  bool idle(const Deadline& deadline);

  // What has ended the communicator, as far as this thread or abandon knows.
  Status health() const;
  // Nothing is begun any more. Any thread.
  void abandon(const Status& why);
  // An operation that the ranks meant differently, told once.
  Status takeNotice();

  // All that is posted has ended, and so will be what is posted from now on. To be called after abandon.
  void stop();
  // For good, if it is still in use.
  void keep(std::unique_ptr<FrameWindow> window);

 private:
  static constexpr size_t kMostJobs = 256;

  void run();
  void serve(Job& job);
  void serveOrFail(Job& job);
  bool bring(Job& job);
  Status work(Job& job);
  Status awaitStream(const Job& job);
  bool accept(const Status& status);
  void endJob(const Job& job);

  Transport& engine_;
  const Words& words_;
  std::thread thread_;

  // The thread's.
  Operation operation_;
  bool begun_ = false;
  bool givenUp_ = false;
  bool summed_ = false;

  std::atomic<bool> dead_{false};
  mutable std::mutex mutex_;  // guards what follows
  WaitPoint changed_;
  std::list<Job> free_, claimed_, waiting_;
  size_t jobs_ = 0;
  uint32_t tickets_ = 0;
  bool stops_ = false, ended_ = true;
  Status failure_, notice_;
  std::vector<std::unique_ptr<FrameWindow>> kept_;
};

}  // namespace sparsecoll::staged
