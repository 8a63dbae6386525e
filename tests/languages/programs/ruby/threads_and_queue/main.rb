# Threads over a queue, a mutex with a condition, a fiber, a forked process and a pipe.
queue = Queue.new
results = Queue.new
workers = Array.new(4) do
  Thread.new do
    while (n = queue.pop) != :end
      results << (2..Integer.sqrt(n)).none? { |d| (n % d).zero? }
    end
  end
end
(2..5000).each { |n| queue << n }
workers.size.times { queue << :end }
workers.each(&:join)
puts "#{results.size} tried, #{Array.new(results.size) { results.pop }.count(true)} primes"

mutex = Mutex.new
turn = ConditionVariable.new
next_one = 0
line = +''
%w[a b c].each_with_index.map do |letter, index|
  Thread.new do
    3.times do |round|
      mutex.synchronize do
        turn.wait(mutex) until next_one == round * 3 + index
        line << letter
        next_one += 1
        turn.broadcast
      end
    end
  end
end.each(&:join)
puts line

fibonacci = Fiber.new do
  a, b = 0, 1
  loop { Fiber.yield a; a, b = b, a + b }
end
puts Array.new(15) { fibonacci.resume }.join(' ')

reader, writer = IO.pipe
child = fork do
  reader.close
  writer.puts((1..1000).sum)
  exit! 7
end
writer.close
puts "child says #{reader.read.strip}"
Process.wait(child)
puts "and ends with #{$?.exitstatus}"
