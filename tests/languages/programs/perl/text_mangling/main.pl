# What Perl is for: substitutions with code, recursion in a pattern, sprintf, local, here documents, tr, sort by key.
use strict;
use warnings;
use utf8;
binmode STDOUT, ':encoding(UTF-8)';
binmode STDIN, ':encoding(UTF-8)';

my %names = (name => 'Ann', n => 3, price => 4.5);
my $template = do { local $/; <STDIN> };
$template =~ s/\{(\w+)(?::([^}]+))?\}/exists $names{$1} ? sprintf($2 ? "%$2" : '%s', $names{$1}) : "<$1?>"/ge;
print $template;

my $balanced = qr/(\((?:[^()]++|(?1))*\))/;
for my $text ('f(a, g(b)) + (c', '((x)', '()()') {
    my @groups;
    push @groups, $1 while $text =~ /$balanced/g;
    print "$text: @groups\n";
}
my @words = sort { lc $a cmp lc $b or $a cmp $b } qw(pear Fig apple fig Äpfel);
print "@words\n";
(my $rotated = 'Hello, World') =~ tr/A-Za-z/N-ZA-Mn-za-m/;
my $vowels = ($rotated =~ tr/aeiou//);
print "$rotated $vowels\n";
my @table = map { [split /,/] } split /\n/, <<'END';
3,three
1,one
2,two
END
print join(' ', map { $_->[1] } sort { $a->[0] <=> $b->[0] } @table), "\n";
my $count = () = 'abracadabra' =~ /a/g;
my %seen;
my @unique = grep { !$seen{$_}++ } split //, 'abracadabra';
print "$count @unique ", join('', reverse split //, 'größe'), "\n";
print "camelCaseToSnake" =~ s/([A-Z])/_\l$1/gr, ' ', join('|', 'a1b22c333' =~ /\d+/g), "\n";
