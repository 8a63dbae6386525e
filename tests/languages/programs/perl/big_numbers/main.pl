# bigint and bigrat of the core, a million sorted, closures that generate.
use strict;
use warnings;
use Math::BigInt;
use Math::BigFloat;

my $factorial = Math::BigInt->new($ARGV[0])->bfac;
print "$factorial\n", length($factorial), "\n";
print Math::BigInt->new(3)->bmodpow(Math::BigInt->new(10)->bpow(18), 1_000_000_007), "\n";
print Math::BigFloat->new(2)->bsqrt(50), "\n";
print Math::BigInt->from_hex('ffffffffffffffffffff'), ' ', Math::BigInt->new('1234567890123456789')->bgcd('987654321'), "\n";

my $state = 12345;
my @numbers = map { $state = ($state * 1664525 + 1013904223) & 0xffffffff } 1 .. 1_000_000;
my @sorted = sort { $a <=> $b } @numbers;
print "@sorted[0, 500_000, 999_999]\n";

sub counter { my ($n, $step) = @_; return { next => sub { $n += $step }, reset => sub { $n = 0 } } }
my ($by_two, $by_five) = (counter(0, 2), counter(100, 5));
print join(' ', map({ $by_two->{next}->() } 1 .. 4), map({ $by_five->{next}->() } 1 .. 3)), "\n";
my %memo;
my $fib;
$fib = sub { my $n = shift; $memo{$n} //= $n < 2 ? Math::BigInt->new($n) : $fib->($n - 1) + $fib->($n - 2) };
print $fib->(90), "\n";
