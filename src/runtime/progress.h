// One line for a person who waits: shown once something takes long, taken away before anything else is printed.
//
// Nothing here knows a terminal: `show` prints the text in place of the one before, "" takes it away. Who lets a
// sandbox's output through to the same terminal calls end() first.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace sbx::runtime {

class Progress {
 public:
  static constexpr int64_t kDelayMs = 300;

  explicit Progress(std::function<void(const std::string&)> show) : show_(std::move(show)) {}
  ~Progress() { end(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // From now on this is what is being done. What was begun before ends; the delay runs on when nothing was ended.
  void begin(std::string what);
  void end();
  // Shows what has been going on for kDelayMs. Called now and then by who waits.
  void look();
  // Milliseconds until look() has something to show, at least 1; -1: it will not.
  int64_t due_ms() const;

 private:
  std::function<void(const std::string&)> show_;  // may be empty: nothing is shown
  std::string what_;
  uint64_t since_ns_ = 0;
  bool shown_ = false;
};

}  // namespace sbx::runtime
