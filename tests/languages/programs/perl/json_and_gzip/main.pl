# JSON by the core's JSON::PP, gzip by IO::Compress, digests, time and lists.
use strict;
use warnings;
use JSON::PP;
use IO::Compress::Gzip qw(gzip $GzipError);
use IO::Uncompress::Gunzip qw(gunzip $GunzipError);
use Digest::SHA qw(sha256_hex);
use List::Util qw(sum max first reduce uniq shuffle);
use POSIX qw(strftime floor);

my $json = JSON::PP->new->canonical->utf8;
my $records = $json->decode(do { local $/; <STDIN> });
my %total;
$total{$_->{city}} += $_->{amount} for @$records;
print $json->encode(\%total), "\n";
print $json->pretty->indent_length(1)->encode({best => (reduce { $a->{amount} > $b->{amount} ? $a : $b } @$records), n => scalar @$records, ok => JSON::PP::true});

my $text = join '', map {"line $_\n"} 1 .. 20000;
gzip \$text => \my $packed or die $GzipError;
gunzip \$packed => \my $back or die $GunzipError;
printf "%d bytes, same: %s, small: %s, %s\n", length $text, ($text eq $back ? 'yes' : 'no'),
    (length $packed < 60000 ? 'yes' : 'no'), substr sha256_hex($text), 0, 16;
print strftime('%Y-%m-%d %H:%M', gmtime 1_700_000_000), "\n";
print join(' ', sum(1 .. 100), max(3, 9, 2), first { $_ > 3 } (1, 5, 7)), "\n";
print join(',', uniq(map { floor($_ / 3) } 1 .. 9)), "\n";
my $result = eval { $json->decode('{"broken": ') };
print defined $result ? "odd\n" : "not JSON\n";
