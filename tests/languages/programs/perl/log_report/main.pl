#!/usr/bin/perl
# An access log on stdin: hashes of hashes, named captures, a format and a sorted report.
use strict;
use warnings;
use utf8;
use open qw(:std :encoding(UTF-8));

my (%by_path, %by_host, @bad);
while (my $line = <STDIN>) {
    chomp $line;
    unless ($line =~ m{^(?<host>\S+) \s+ "(?<verb>[A-Z]+) \s (?<path>[^\s?"]+) (?:\?[^"]*)? " \s+ (?<status>\d{3}) \s+ (?<bytes>\d+|-)$}x) {
        push @bad, "$.: $line";
        next;
    }
    my %hit = %+;
    $by_path{$hit{path}}{count}++;
    $by_path{$hit{path}}{bytes} += $hit{bytes} eq '-' ? 0 : $hit{bytes};
    push @{$by_path{$hit{path}}{failures}}, "$hit{verb} $hit{status}" if $hit{status} >= 400;
    $by_host{$hit{host}}++;
}
for my $path (sort { $by_path{$b}{bytes} <=> $by_path{$a}{bytes} || $a cmp $b } keys %by_path) {
    my $entry = $by_path{$path};
    printf "%-12s %3d %8s %s\n", $path, $entry->{count}, commas($entry->{bytes}), join ',', @{$entry->{failures} || []};
}
print "hosts: ", join(', ', map {"$_=$by_host{$_}"} sort keys %by_host), "\n";
print "bad: $_\n" for @bad;
exit scalar @bad;

sub commas {
    my $text = reverse shift;
    $text =~ s/(\d{3})(?=\d)/$1,/g;
    return scalar reverse $text;
}
