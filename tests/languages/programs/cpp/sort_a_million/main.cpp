// Sorts a million records by two keys, finds ranges, and counts distinct values with the algorithms library.
#include <algorithm>
#include <cstdint>
#include <iostream>
#include <ranges>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

struct Record {
  uint32_t key;
  uint16_t group;
  uint32_t order;
};

int main() {
  std::vector<Record> records;
  records.reserve(1'000'000);
  uint32_t state = 12345;
  for (uint32_t i = 0; i < 1'000'000; ++i) {
    state = state * 1664525u + 1013904223u;
    records.push_back({state >> 8, static_cast<uint16_t>(state % 1000), i});
  }
  std::ranges::stable_sort(records, {}, [](const Record& r) { return std::tuple(r.group, r.key); });
  const bool sorted = std::ranges::is_sorted(records, {}, [](const Record& r) { return std::tuple(r.group, r.key); });
  const auto range = std::ranges::equal_range(records, uint16_t{500}, {}, &Record::group);
  std::cout << std::boolalpha << sorted << ", group 500 has " << range.size() << ", first key " << range.front().key << '\n';

  std::unordered_map<uint16_t, size_t> sizes;
  for (const Record& r : records) ++sizes[r.group];
  const auto largest = std::ranges::max_element(sizes, {}, [](const auto& pair) { return std::pair(pair.second, -pair.first); });
  std::cout << sizes.size() << " groups, largest " << largest->first << " with " << largest->second << '\n';

  std::ranges::nth_element(records, records.begin() + 500'000, {}, &Record::key);
  std::cout << "median key " << records[500'000].key << '\n';
  std::string digits;
  for (int n : std::views::iota(1, 20) | std::views::filter([](int n) { return n % 3 == 0; }) | std::views::transform([](int n) { return n * n; }))
    digits += std::to_string(n) + " ";
  std::cout << digits << '\n';
}
