#!/bin/sh
# Makes database.fasta and queries.fasta from the two files that the Debian
# package mmseqs2-examples brings along (see README.md):
#   ./select.sh DB.fasta.gz QUERY.fasta.gz
set -eu
LC_ALL=C
export LC_ALL

# Writes 60 residues a line, and headers without the packaging's "Split=0".
wrap='{
  sub(/ Split=[0-9]+ *$/, "", header)
  print header
  for (i = 1; i <= length($0); i += 60) print substr($0, i, 60)
}'

# Queries: the first 144 of 100 to 600 residues.
gzip -dc "$2" | awk '
  /^>/ { header = $0; next }
  length($0) >= 100 && length($0) <= 600 && ++n <= 144 '"$wrap" >queries.fasta

# Database: what shares at least eight words of five residues with a query, so
# that there is something to find, and every eighth of the others; none longer
# than 1200 residues.
gzip -dc "$1" | awk '
  FILENAME == "queries.fasta" {
    if (/^>/) { query++; last = ""; next }
    text = last $0
    for (i = 1; i <= length(text) - 4; i++) {
      word = substr(text, i, 5)
      if (index(queries[word] " ", " " query " ") == 0) queries[word] = queries[word] " " query
    }
    last = substr(text, length(text) - 3)
    next
  }
  /^>/ { header = $0; next }
  length($0) > 1200 { next }
  {
    best = 0
    split("", seen); split("", shared)
    for (i = 1; i <= length($0) - 4; i++) {
      word = substr($0, i, 5)
      if (!(word in queries) || word in seen) continue
      seen[word] = 1
      n = split(queries[word], of, " ")
      for (j = 1; j <= n; j++) if (++shared[of[j]] > best) best = shared[of[j]]
    }
    if (best >= 8 || ++others % 8 == 0) '"$wrap"'
  }' queries.fasta - >database.fasta
