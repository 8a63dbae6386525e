# Integers of any size, rationals, a million sorted, lazy sequences and a refinement.
module Factors
  refine Integer do
    def factors
      n, found = self, []
      (2..).each do |d|
        break if d * d > n
        (found << d; n /= d) while (n % d).zero?
      end
      n > 1 ? found << n : found
    end
  end
end
using Factors

puts (1..40).reduce(:*)
puts 2**200 % 10**20, 3.pow(10**18, 1_000_000_007)
puts (1..12).sum { |n| Rational(1, n) }
puts 600_851_475_143.factors.inspect
primes = (2..).lazy.select { |n| (2..Integer.sqrt(n)).none? { |d| (n % d).zero? } }
puts primes.map { |p| 2**p - 1 }.select { |m| m.factors.size == 1 }.first(5).inspect
random = Random.new(7)
numbers = Array.new(1_000_000) { random.rand(2**40) }
sorted = numbers.sort
puts sorted.each_cons(2).all? { |a, b| a <= b } && sorted.sum == numbers.sum
puts sorted.bsearch_index { |n| n >= 2**39 }.between?(499_000, 501_000)
puts numbers.tally.size > 999_000
