#!/bin/sh
# Finds for protein sequences the most similar ones of a database, by the words
# of five residues that they share. POSIX tools only; the same bytes whichever
# awk and sort a node has.
#
#   clean  IN.fasta OUT            one line a sequence: name, residues
#   split  IN N PREFIX SUFFIX      into N parts: PREFIX00SUFFIX, PREFIX01SUFFIX, ...
#   index  PART OUT                every word of a part and the sequences that have it
#   search QUERIES INDEX OUT       sequences of one index that share words with each query
#   best   N OUT HITS ...          the N best hits of each query
#   report QUERIES BEST OUT        a line for each query: its best hit
set -eu
LC_ALL=C
export LC_ALL

usage() {
  echo "$0: usage: see the comment at its top" >&2
  exit 2
}

# Names go by accession: "sp|Q8AWH3|SX17A_XENTR ..." is Q8AWH3. What is too
# short for a word is left out, and of equal names the first one stays.
clean() {
  awk '
    function put() { if (length(residues) >= 5 && !(name in seen)) { print name "\t" residues; seen[name] = 1 } }
    /^>/ {
      put()
      n = split(substr($1, 2), word, "|")
      name = n >= 2 ? word[2] : word[1]
      residues = ""
      next
    }
    { residues = residues toupper($1) }
    END { put() }
  ' "$1" >"$2"
}

split_parts() {
  awk -v parts="$2" -v prefix="$3" -v suffix="$4" '
    BEGIN { for (i = 0; i < parts; i++) { file[i] = sprintf("%s%02d%s", prefix, i, suffix); printf "" >file[i] } }
    { print >file[(NR - 1) % parts] }
  ' "$1"
}

# Lines "word name name ...", words and names in order.
index_part() {
  awk -F '\t' '{ for (i = length($2) - 4; i >= 1; i--) print substr($2, i, 5), $1 }' "$1" |
    sort -u |
    awk '
      $1 != word { if (NR > 1) print line; word = $1; line = $1 }
      { line = line " " $2 }
      END { if (NR) print line }
    ' >"$2"
}

# Lines "query, hit, shared words, percent of the query's words", at least 4
# words shared.
search() {
  awk '
    FILENAME == ARGV[1] {
      words[$1] = 0
      for (i = length($2) - 4; i >= 1; i--) {
        word = substr($2, i, 5)
        if (last[word] == $1) continue
        last[word] = $1
        queries[word] = queries[word] " " $1
        words[$1]++
      }
      next
    }
    $1 in queries {
      n = split(queries[$1], query, " ")
      for (i = 1; i <= n; i++)
        for (j = 2; j <= NF; j++) shared[query[i] "\t" $j]++
    }
    END {
      for (pair in shared) {
        if (shared[pair] < 4) continue
        split(pair, name, "\t")
        printf "%s\t%d\t%d\n", pair, shared[pair], int(100 * shared[pair] / words[name[1]])
      }
    }
  ' "$1" "$2" | sort >"$3"
}

# Ties go to the name that comes first.
best() {
  most=$1
  out=$2
  shift 2
  sort -t "$(printf '\t')" -k1,1 -k3,3nr -k2,2 "$@" |
    awk -F '\t' -v most="$most" '$1 != query { query = $1; n = 0 } n++ < most' >"$out"
}

report() {
  awk -F '\t' '
    FILENAME == ARGV[1] { if (!($1 in hits)) { first[$1] = $2 "\t" $3 "\t" $4 } hits[$1]++; next }
    { print $1 "\t" (($1 in hits) ? hits[$1] "\t" first[$1] : "0\t-\t0\t0") }
  ' "$2" "$1" | sort >"$3"
}

[ $# -ge 1 ] || usage
step=$1
shift
case $step:$# in
clean:2) clean "$@" ;;
split:4) split_parts "$@" ;;
index:2) index_part "$@" ;;
search:3) search "$@" ;;
best:0 | best:1 | best:2) usage ;;
best:*) best "$@" ;;
report:3) report "$@" ;;
*) usage ;;
esac
