<?php
// JSON on stdin to typed objects, grouped, sorted, and JSON out.
declare(strict_types=1);

enum Size: string {
    case Small = 's';
    case Large = 'l';
    public function factor(): float { return match ($this) { self::Small => 1.0, self::Large => 1.5 }; }
}

final class Order {
    public function __construct(
        public readonly string $customer,
        public readonly float $price,
        public readonly Size $size = Size::Small,
    ) {}
    public static function from(array $fields): self {
        return new self($fields['customer'], (float) $fields['price'], Size::tryFrom($fields['size'] ?? 's') ?? Size::Small);
    }
    public function total(): float { return $this->price * $this->size->factor(); }
}

$data = json_decode(stream_get_contents(STDIN), true, 16, JSON_THROW_ON_ERROR);
$orders = array_map(Order::from(...), $data);
$totals = [];
foreach ($orders as $order) {
    $totals[$order->customer] ??= 0.0;
    $totals[$order->customer] += $order->total();
}
arsort($totals);
echo json_encode($totals, JSON_PRETTY_PRINT | JSON_UNESCAPED_UNICODE | JSON_PRESERVE_ZERO_FRACTION), "\n";
usort($orders, fn (Order $a, Order $b) => [$b->size->value, $a->price] <=> [$a->size->value, $b->price]);
echo implode(' ', array_map(fn (Order $o) => "{$o->size->name}:{$o->price}", $orders)), "\n";
try {
    json_decode('{"open": ', flags: JSON_THROW_ON_ERROR);
} catch (JsonException $e) {
    echo get_class($e), ': ', $e->getMessage(), "\n";
}
try {
    $orders[0]->price = 1.0;
} catch (Error $e) {
    echo $e->getMessage(), "\n";
}
