// A stream's own OS thread, for streams that have to wait for other streams while the caller goes on.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace simt {

class Worker {
 public:
  Worker();
  ~Worker();  // once all is done
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void add(std::function<void()> work);
  bool idle();
  void drain();
  // Until every worker of the process is idle, as calls wait that free memory.
  static void drainAll();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;  // the first one is under way
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace simt
