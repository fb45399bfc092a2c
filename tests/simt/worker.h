// A stream's own OS thread, for streams that have to wait for something while the caller goes on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace simt {

class Worker {
 public:
  Worker();
  ~Worker();  // once all is done, or something is not ready: that and what comes behind it is dropped
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // ready: asked until it holds, then the work is done; empty: at once. Work is done in order.
  void add(std::function<void()> run, std::function<bool()> ready = {});
  bool idle();
  // Until it is idle; false if patience ended while it stood before something that is not ready.
  bool drain();
  // Until every worker of the process is idle or stands before something that is not ready, as calls wait that free
  // memory.
  static void drainAll();

 private:
  struct Work {
    std::function<void()> run;
    std::function<bool()> ready;
  };

  bool rests();
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> work_;  // the first one is under way, unless
  bool stands_ = false;    // it is not ready
  uint64_t done_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace simt
