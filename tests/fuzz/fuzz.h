// What every fuzz target stands on. A target is one file NAME_fuzz.cc with one LLVMFuzzerTestOneInput; it checks
// properties, not only that nothing crashes. tests/fuzz/corpus/NAME holds its seeds, which replay.cc runs in `make test`.
#pragma once

#include <dirent.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// assert, but in every build.
#define HOLDS(condition)                                                                   \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                        \
    }                                                                                      \
  } while (false)

namespace fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// How many descriptors are open, for targets whose subject handles some: the same before and after.
inline size_t open_descriptors() {
  DIR* const listing = ::opendir("/proc/self/fd");
  HOLDS(listing != nullptr);
  size_t count = 0;
  while (::readdir(listing) != nullptr) ++count;
  ::closedir(listing);
  return count;
}

// Bytes taken off the front, zero when there are none left.
class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  size_t left() const { return size_; }
  uint8_t byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  template <typename T>
  T number() {
    T value = 0;
    for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | static_cast<T>(static_cast<T>(byte()) << (8 * i)));
    return value;
  }
  std::string_view rest() const { return text_of(data_, size_); }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace fuzz
