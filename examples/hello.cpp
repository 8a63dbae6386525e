// sbx run examples/hello.cpp < numbers.txt
#include <iostream>

int main() {
  long long sum = 0;
  int count = 0;
  for (long long number; std::cin >> number; ++count) sum += number;
  std::cout << "Hello from C++, inside a sandbox: " << count << " numbers on stdin, their sum is " << sum << ".\n";
}
