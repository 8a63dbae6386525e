#!/bin/sh
# Joins two tables with sort, join, awk and cut; here documents instead of files.
set -eu
cat > people <<'EOF'
3,Cyd,Oslo
1,Ann,Rome
2,Bob,Oslo
EOF
cat > sales <<'EOF'
2,10
1,5
2,7
9,1
EOF
sort -t, -k1,1 people > people.sorted
sort -t, -k1,1 sales > sales.sorted
echo "-- joined"
join -t, people.sorted sales.sorted
echo "-- without sales"
join -t, -v1 people.sorted sales.sorted | cut -d, -f2
echo "-- unknown"
join -t, -v2 people.sorted sales.sorted
echo "-- by city"
join -t, people.sorted sales.sorted | awk -F, '{ sum[$3] += $4 } END { for (city in sum) print city, sum[city] }' | sort
echo "-- letters"
tr -cs '[:alpha:]' '\n' < people | sed '/^$/d' | tr '[:upper:]' '[:lower:]' | sort | uniq -c | sort -k1,1nr -k2 | head -n 2 | sed 's/^ *//'
