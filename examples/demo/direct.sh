#!/bin/sh
# The computation of workflow.yaml without Pilotage: the same steps, one after
# the other, on this machine.
#   ./direct.sh FOLDER      writes FOLDER/best.tsv and FOLDER/report.tsv
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
tool=$here/proteins.sh
numbers="00 01 02 03 04 05 06 07 08 09 10 11"

"$tool" clean "$here/data/database.fasta" db.tsv
"$tool" clean "$here/data/queries.fasta" queries.tsv
"$tool" split db.tsv 12 part. .tsv
"$tool" split queries.tsv 12 chunk. .tsv
for p in $numbers; do
  "$tool" index "part.$p.tsv" "part.$p.idx"
done
for c in $numbers; do
  for p in $numbers; do
    "$tool" search "chunk.$c.tsv" "part.$p.idx" "hits.$c.$p.tsv"
  done
  "$tool" best 5 "best.$c.tsv" "hits.$c."??.tsv
done
"$tool" best 5 best.tsv best.??.tsv
"$tool" report queries.tsv best.tsv report.tsv
