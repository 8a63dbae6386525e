"""Small shell, perl, awk, C, C++, python and node programs, written for what sandboxes break."""

import harness
import sides

PROGRAMS = {
    "sh arithmetic": ["sh", "-c", "i=0; s=0; while [ $i -lt 5000 ]; do s=$((s + i * i)); i=$((i + 1)); done; echo $s"],
    "sh traps": ["sh", "-c", "trap 'echo term' TERM; kill -TERM $$; trap 'echo bye' EXIT; exit 9"],
    "sh pipes": ["sh", "-c", "seq 1 5000 | sort -rn | head -3 | tac; yes | head -1000 | uniq -c"],
    "sh background": ["bash", "-c", "for i in 1 2 3; do (sleep 0.0$i; exit $i) & p[i]=$!; done; for i in 1 2 3; do wait ${p[i]}; echo $?; done"],
    "sh files": ["sh", "-c", "mkdir -p a/b && cd a && echo x > b/f && ln b/f g && ln -s b l && cat l/f && stat -c '%F %h %a' b/f l g && find . | sort && rm -r b; ls"],
    "sh here-document": ["bash", "-c", "cat <<< hello; cat <(echo from a process); printf -v x %05d 42; echo $x; ulimit -c"],
    "sh no such command": ["sh", "-c", "no_such_command_at_all 2>/dev/null; echo $?; exec /no/such/file 2>/dev/null"],
    "sh limits": ["sh", "-c", "umask; umask 077; touch f; stat -c %a f"],
    "sed and awk": ["sh", "-c", "seq 100 | awk '{s += $1; a[$1 % 7]++} END {print s; for (i = 0; i < 7; i++) print i, a[i]}' | sed -n 's/^\\([0-9]\\) /\\1: /p'"],
    "tar and gzip": ["sh", "-c", "mkdir d; seq 1000 > d/s; chmod 640 d/s; tar cf - d | gzip -n | gunzip | tar tvf - | awk '{print $1, $3, $6}'; tar cf t d; rm -r d; tar xf t && md5sum d/s"],
    "perl": ["perl", "-e", "my %h; $h{$_ % 13} += $_ for 1..10000; print join(',', map {\"$_=$h{$_}\"} sort {$a <=> $b} keys %h), \"\\n\"; exit 3"],
    "perl fork": ["perl", "-e", "$|=1; for my $i (1..4) { my $p = fork; if (!$p) { exit $i } waitpid $p, 0; print $? >> 8, \"\\n\" } open my $f, '-|', 'echo', 'piped'; print <$f>; kill 15, $$"],
    "perl files": ["perl", "-e", "open my $f, '>', 'x' or die; flock $f, 2 or die; print $f 'abc'; close $f; print -s 'x', \"\\n\"; rename 'x', 'y'; utime 1, 2, 'y'; print +(stat 'y')[9], \"\\n\"; opendir my $d, '.'; print join ' ', sort readdir $d"],
    "perl sockets": ["perl", "-e", "use IO::Socket; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die; if (!fork) { my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $s->sockport); print $c \"hi\\n\"; exit } my $c = $s->accept; print scalar <$c>; wait"],
    "C program": ["sh", "-c", "printf '%s\\n' '#include <stdio.h>' '#include <stdlib.h>' '#include <pthread.h>' '#include <unistd.h>' "
                  "'static void* f(void* p) { return (void*)((long)p * 2); }' "
                  "'int main(void) { pthread_t t; void* r; pthread_create(&t, 0, f, (void*)21l); pthread_join(t, &r); printf(\"%ld\\n\", (long)r); "
                  "FILE* g = tmpfile(); fputs(\"x\", g); printf(\"%ld %d\\n\", ftell(g), isatty(0)); fflush(stdout); abort(); }' > p.c && gcc -pthread -o p p.c && ./p"],
    "C++ exceptions": ["sh", "-c", "printf '%s\\n' '#include <iostream>' '#include <stdexcept>' '#include <map>' 'int main() { try { std::map<int, int> m; m.at(3); } "
                       "catch (const std::out_of_range& e) { std::cout << \"caught\\n\"; } throw std::runtime_error(\"x\"); }' > p.cc && g++ -o p p.cc && ./p"],
    "python": ["/usr/bin/python3", "-c", "import os, sys, subprocess, tempfile, socket\nprint(subprocess.run(['false']).returncode, socket.socketpair()[0].family.name, os.cpu_count() > 0)\n"
               "os.mkfifo('f'); print(oct(os.stat('f').st_mode)); sys.exit(11)"],
    "node timers": ["node", "-e", "setTimeout(() => console.log('later'), 5); console.log([...'abc'].reverse().join(''))"],
    "node files": ["node", "-e", "const fs = require('fs'); fs.writeFileSync('a', 'x'); fs.renameSync('a', 'b'); console.log(fs.readdirSync('.'), process.argv.length); process.exitCode = 12"],
    "git": ["sh", "-c", "git init -q r 2>/dev/null && cd r && echo x > f && git add f && git -c user.name=a -c user.email=a@example.org commit -qm m && git log --format=%s && git status --short"],
    "make": ["sh", "-c", "printf 'all: a b\\n\\t@echo done\\na b:\\n\\t@echo $@ > $@; echo $@\\n' > Makefile && make -j1"],
}


def every_program():
    return [sides.Program("small", name, argv) for name, argv in PROGRAMS.items() if harness.have(argv[0])]
