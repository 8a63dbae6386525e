#!/usr/bin/env bash
# Makes a tree of files, packs and unpacks it, compares sums, and shows here documents and file tests.
set -euo pipefail
mkdir -p tree/sub
for i in 1 2 3; do
  for ((j = 0; j < 1000; j++)); do echo "file $i line $j"; done > "tree/sub/$i.txt"
done
cat > tree/script.sh <<'EOF'
#!/bin/sh
echo "I am $1"
EOF
chmod 750 tree/script.sh
ln -s sub/1.txt tree/link
tar -czf tree.tar.gz -C tree .
mkdir copy
tar -xzf tree.tar.gz -C copy
(cd tree && find . -type f -exec sha256sum {} + | sort -k2) > before
(cd copy && find . -type f -exec sha256sum {} + | sort -k2) > after
if cmp -s before after; then echo "the same $(wc -l < after) files"; fi
[[ -x copy/script.sh && -L copy/link ]] && copy/script.sh "unpacked"
packed=$(stat -c %s tree.tar.gz) plain=$(cat tree/sub/*.txt | wc -c)
echo "packed to less than a half: $((packed * 2 < plain))"
sed -n '500p' copy/link
printf '%s\n' copy/sub/*.txt | while read -r file; do printf '%s ' "${file##*/}"; done
echo
awk '{ sum += $4 } END { print sum }' copy/sub/2.txt
