<?php
// Generators, a heap, a million numbers sorted, closures and spread arguments. Exits with a chosen status.
function numbers(int $count): Generator {
    $state = 12345;
    for ($i = 0; $i < $count; $i++) {
        $state = ($state * 1664525 + 1013904223) & 0xffffffff;
        yield $i => $state;
    }
    return $state;
}
function filter(iterable $items, callable $keep): Generator {
    foreach ($items as $key => $item) if ($keep($item)) yield $key => $item;
}
function take(Generator $items, int $count): Generator {
    for (; $count > 0 && $items->valid(); $count--, $items->next()) yield $items->current();
}

$list = new SplFixedArray(1_000_000);
$all = numbers(1_000_000);
foreach ($all as $i => $n) $list[$i] = $n;
$sorted = $list->toArray();
sort($sorted);
echo "$sorted[0] {$sorted[500_000]} {$sorted[999_999]} ", $all->getReturn() === $list[999_999] ? 'same' : 'other', "\n";
echo implode(' ', [...take(filter(numbers(PHP_INT_MAX), fn (int $n) => $n % 1000 === 7), 3)]), "\n";

$heap = new class extends SplHeap {
    protected function compare(mixed $a, mixed $b): int { return $b[0] <=> $a[0]; }
};
foreach (['pear' => 3, 'fig' => 1, 'kiwi' => 2] as $name => $weight) $heap->insert([$weight, $name]);
foreach ($heap as [$weight, $name]) echo "$name($weight) ";
echo "\n";

$compose = fn (callable ...$steps) => fn (mixed $x) => array_reduce($steps, fn ($value, $step) => $step($value), $x);
echo $compose('trim', strrev(...), fn (string $s) => str_pad($s, 8, '.', STR_PAD_BOTH), 'ucfirst')("  drawer "), "\n";
$words = ['banana', 'Apple', 'cherry', 'apple10', 'apple9'];
natcasesort($words);
echo implode(' ', $words), "\n";
echo array_sum(array_map(null, range(1, 100))), ' ', max(...array_slice($sorted, 0, 5)) === $sorted[4] ? 'yes' : 'no', "\n";
exit(3);
