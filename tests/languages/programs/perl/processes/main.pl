# fork and pipes, a pool that waits for whichever ends, signals, sockets of a pair, files in a temporary directory.
use strict;
use warnings;
use Socket;
use IO::Handle;
use File::Temp qw(tempdir);
use File::Find;

$| = 1;
my %square;
my %child;
for my $n (1 .. 5) {
    pipe(my $reader, my $writer) or die $!;
    my $pid = fork // die $!;
    if (!$pid) {
        close $reader;
        print $writer $n * $n;
        close $writer;
        require POSIX;
        POSIX::_exit($n == 4 ? 9 : 0);
    }
    close $writer;
    $child{$pid} = [$n, $reader];
}
my $failed = 0;
while ((my $pid = wait) > 0) {
    my ($n, $reader) = @{delete $child{$pid}};
    $square{$n} = <$reader>;
    $failed++ if $? >> 8;
}
print join(' ', map {"$_:$square{$_}"} sort keys %square), " failed: $failed\n";

socketpair(my $here, my $there, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die $!;
$_->autoflush(1) for $here, $there;
if (!(my $pid = fork)) {
    close $here;
    while (my $line = <$there>) { print $there uc $line }
    exit;
}
close $there;
for my $word (qw(tea pot)) { print $here "$word\n"; print "answer: ", scalar <$here> }
close $here;
wait;

my $caught = 0;
local $SIG{ALRM} = sub { $caught++ };
kill ALRM => $$ for 1 .. 2;
print "signals: $caught\n";
my $folder = tempdir(CLEANUP => 1);
mkdir "$folder/sub";
for my $name ('a.txt', 'sub/b.txt') { open my $out, '>', "$folder/$name" or die $!; print $out "x" x 10; close $out }
my @found;
find({no_chdir => 1, wanted => sub { push @found, substr($_, length($folder) + 1) . '=' . -s if -f }}, $folder);
print "@{[sort @found]}\n";
print `echo from a shell; exit 3`, $? >> 8, "\n";
