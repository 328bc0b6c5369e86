#!/bin/sh
# Collects what treering's doctor needs from a Cassandra node, on machines without Python.
#
#   sh collect.sh [-o FILE] [-n NODE] [-k KEYSPACE] [--with-keys] [--overwrite] FOLDER...
#
# FILE is the bundle, treering-bundle.tar.gz where it is not said. It is there once it is whole; one
# that is there already is not replaced without --overwrite.
# FOLDER is a data folder (/var/lib/cassandra/data), a keyspace's or a table's folder.
# NODETOOL="nodetool -h ..." says how nodetool is called; NODETOOL= leaves it out.
# CQLSH="cqlsh ..." also keeps what DESCRIBE says about the keyspaces.
#
# It only reads, and copies nothing of Data.db. Without --with-keys, neither partition keys nor
# clustering values are in the bundle: they are overwritten with zeros in the copies of
# Statistics.db, and a file in which they cannot be told is left out and named.

set -eu
umask 077
LC_ALL=C
export LC_ALL

out=treering-bundle.tar.gz
node=$(uname -n)
only=
keys=blanked
overwrite=
while [ $# -gt 0 ]; do
    case $1 in
        -o|-n|-k)
            [ $# -gt 1 ] || { echo "error: $1 needs a value" >&2; exit 2; }
            case $1 in -o) out=$2 ;; -n) node=$2 ;; -k) only=$2 ;; esac
            shift 2 ;;
        --with-keys) keys=kept; shift ;;
        --overwrite) overwrite=1; shift ;;
        -h|--help) sed -n '2,16s/^# \{0,1\}//p' "$0"; exit 0 ;;
        --) shift; break ;;
        -*) echo "error: unknown option $1; see --help" >&2; exit 2 ;;
        *) break ;;
    esac
done
[ $# -gt 0 ] || { echo "error: which folder? for instance /var/lib/cassandra/data" >&2; exit 2; }
case $out in /*) ;; *) out=$(pwd)/$out ;; esac

# Ends where the bundle would replace what it may not; a folder never is.
refuse_existing() {
    [ ! -d "$out" ] || { echo "error: $out is a folder; name a file with -o" >&2; exit 2; }
    [ -z "$overwrite" ] || return 0
    [ -e "$out" ] || [ -h "$out" ] || return 0
    echo "error: $out is there already; name another file with -o, or say --overwrite" >&2
    exit 2
}
refuse_existing

work=${TMPDIR:-/tmp}/treering-collect.$$
part=$out.$$.part
child=
mkdir "$work"
trap 'rm -rf "$work" "$part"' EXIT
# Whatever runs beside is ended, since nobody would wait for it.
trap 'kill "$child" 2>/dev/null || :; exit 129' HUP
trap 'kill "$child" 2>/dev/null || :; exit 130' INT
trap 'kill "$child" 2>/dev/null || :; exit 143' TERM
# Said now rather than after all the work.
(: >"$part") 2>/dev/null || { echo "error: ${out%/*} cannot be written to" >&2; exit 1; }
bundle=$work/treering-bundle
mkdir -p "$bundle/nodetool" "$bundle/schema"
: >"$work/tables"
: >"$bundle/left-out"

say() { echo "$*" >&2; }
left_out() { say "left out: $1 ($2)"; printf '%s\t%s\n' "$1" "$2" >>"$bundle/left-out"; }

# Prints "offset length" of every key and clustering value in a Statistics.db; fails where it
# cannot tell. The argument is the version, such as nb.
find_secrets() {
    od -An -v -tu1 | awk -v version="$1" '
    function bad() { failed = 1; exit 1 }
    function need(at, count) { if (count < 0 || at + count > limit) bad() }
    function u16(at) { need(at, 2); return b[at] * 256 + b[at + 1] }
    function u32(at) {
        need(at, 4)
        return ((b[at] * 256 + b[at + 1]) * 256 + b[at + 2]) * 256 + b[at + 3]
    }
    # An unsigned variable integer: the leading ones of the first byte say how many bytes follow.
    function vint(  first, extra, bit, value, i) {
        need(p, 1); first = b[p++]; extra = 0; bit = 128
        while (bit >= 1 && first >= bit) { first -= bit; extra++; bit /= 2 }
        if (extra > 6) bad()
        need(p, extra); value = first
        for (i = 0; i < extra; i++) value = value * 256 + b[p++]
        return value
    }
    function secret(at, count) { need(at, count); if (count > 0) found[++n] = at " " count }
    function legacy(  count, length_, i) {
        count = u32(p); p += 4
        if (count > 1000) bad()
        for (i = 0; i < count; i++) {
            length_ = u16(p); secret(p + 2, length_); p += 2 + length_
        }
    }
    function fixed(type,  name) {
        name = type
        while (1) {
            sub(/^org\.apache\.cassandra\.db\.marshal\./, "", name)
            if (name !~ /^(ReversedType|FrozenType)\(/) break
            sub(/^[A-Za-z]*\(/, "", name); sub(/\)$/, "", name)
        }
        if (name ~ /^VectorType/) bad()
        return name in width ? width[name] : -1
    }
    function text(count,  i, out) {
        need(p, count); out = ""
        for (i = 0; i < count; i++) out = out sprintf("%c", b[p + i])
        p += count
        return out
    }
    function bound(  count, i, header, state, length_) {
        need(p, 1); p++
        count = u16(p); p += 2
        if (count > types) bad()
        for (i = 0; i < count; i++) {
            if (i % 32 == 0) header = vint()
            state = header % 4; header = int(header / 4)
            if (state) continue
            length_ = type_width[i] < 0 ? vint() : type_width[i]
            secret(p, length_); p += length_
        }
    }
    BEGIN {
        width["BooleanType"] = 1; width["DateType"] = 8; width["DoubleType"] = 8
        width["EmptyType"] = 0; width["FloatType"] = 4; width["Int32Type"] = 4
        width["LexicalUUIDType"] = 16; width["LongType"] = 8; width["TimestampType"] = 8
        width["TimeUUIDType"] = 16; width["UUIDType"] = 16
    }
    { for (i = 1; i <= NF; i++) b[size++] = $i + 0 }
    END {
        limit = size
        is_wide = version ~ /^[od]/
        if (version !~ /^(m[de]|n[ab]|oa|da)$/) bad()
        count = u32(0)
        if (count > 16) bad()
        entry = version ~ /^m/ ? 4 : 8
        start = -1; end = size
        for (i = 0; i < count; i++) {
            if (u32(entry + 8 * i) != 2) continue
            start = u32(entry + 8 * i + 4)
            if (i + 1 < count) end = u32(entry + 8 * i + 12)
        }
        if (start < 0 || end > size) bad()
        limit = end; p = start
        p += 4 + 16 * u32(p)
        p += 4 + 16 * u32(p)
        p += 12 + 16 + 8 + 8 + 8
        p += 8 + u32(p + 4) * (is_wide ? 12 : 16)
        p += 4 + 8
        if (!is_wide) { legacy(); legacy() }
        else {
            types = vint()
            if (types > 26) bad()
            for (i = 0; i < types; i++) type_width[i] = fixed(text(vint()))
            bound(); bound()
            p += 1 + 16 + 12
            p += 4 + 24 * u32(p)
            need(p, 1); p += b[p] ? 17 : 1
            p += 1
            need(p, 1); p += b[p] ? 17 : 1
            p += 1
            for (i = 0; i < 2; i++) { count = vint(); secret(p, count); p += count }
        }
        need(p, 0)
        for (i = 1; i <= n; i++) print found[i]
        print "end"
    }'
}

# Copies a Statistics.db with zeros over its keys and clustering values.
copy_statistics() {
    name=${1##*/}
    find_secrets "${name%%-*}" <"$1" >"$work/secrets" 2>/dev/null || return 1
    [ "$(tail -n 1 "$work/secrets")" = end ] || return 1
    cp "$1" "$work/copy"
    while IFS=" " read -r offset count; do
        [ "$offset" != end ] || break
        dd if=/dev/zero of="$work/copy" bs=1 seek="$offset" count="$count" conv=notrunc 2>/dev/null ||
            return 1
    done <"$work/secrets"
    mv "$work/copy" "$2"
}

# Copies a component whole, or where it is long its two ends.
copy_ends() {
    [ -f "$1" ] || return 0
    if [ -n "$(find "$1" -size +512)" ]; then
        head -c 65536 "$1" >"$2.head"
        tail -c 262144 "$1" >"$2.tail"
    else
        cp "$1" "$2"
    fi
}

# Takes the top partitions, which name keys, out of a JSON document.
without_keys() {
    tr -d '\n\r' | fold -b -w 512 | awk '
    {
        line = $0; total = length(line)
        for (i = 1; i <= total; i++) {
            c = substr(line, i, 1)
            if (skipping) {
                if (quoted) {
                    if (escaped) escaped = 0
                    else if (c == "\\") escaped = 1
                    else if (c == "\"") quoted = 0
                    continue
                }
                if (c == "\"") { quoted = 1; continue }
                if (depth == 0 && (c == "," || c == "}")) { skipping = 0; printf "null%s", c; continue }
                if (c == "{" || c == "[") depth++
                if (c == "}" || c == "]") depth--
                continue
            }
            printf "%s", c
            if (quoted) {
                if (escaped) { escaped = 0; word = word c }
                else if (c == "\\") escaped = 1
                else if (c == "\"") quoted = 0
                else word = word c
            }
            else if (c == "\"") { quoted = 1; word = "" }
            else if (c == ":" && word ~ /^top_/) { skipping = 1; depth = 0 }
        }
    }
    END { print ""; if (skipping || quoted) exit 1 }'
}

# The folders that stand above a table's files in the bundle: keyspace, table or nothing.
prefix_of() {
    case ${1##*/} in
        *-????????????????????????????????) above=${1%/*}; echo "${above##*/}/${1##*/}" ;;
        *)
            for table in "$1"/*-????????????????????????????????; do
                [ ! -d "$table" ] || { echo "${1##*/}"; return; }
            done ;;
    esac
}

is_wanted() {
    case $1 in
        */*) keyspace=${1%%/*} ;;
        *) return 1 ;;
    esac
    if [ -n "$only" ]; then
        [ "$keyspace" = "$only" ]
        return
    fi
    case $keyspace in
        system|system_*) return 1 ;;
    esac
}

collect_table() {
    # $1 the table's folder, $2 its place in the bundle, $3 keyspace and folder of the table
    mkdir -p "$2"
    printf '%s\n' "$3" >>"$work/tables"
    find "$1" -type f -exec ls -lnd {} + 2>/dev/null | awk -v cut="$(printf '%s' "$1/" | wc -c)" '
        {
            bytes = $5
            for (i = 1; i <= 8; i++) sub(/^[^ ]+ +/, "")
            print bytes "\t" substr($0, cut + 1)
        }' >"$2/listing" || return 0
    for statistics in "$1"/*-Statistics.db "$1"/.[!.]*/*-Statistics.db; do
        [ -f "$statistics" ] || continue
        base=${statistics%Statistics.db}
        copy=$2/${base#"$1/"}
        mkdir -p "${copy%/*}"
        if [ "$keys" = kept ]; then
            cp "$statistics" "${copy}Statistics.db" 2>/dev/null || continue
            copy_ends "${base}Summary.db" "${copy}Summary.db" || true
        elif ! copy_statistics "$statistics" "${copy}Statistics.db"; then
            [ ! -f "$statistics" ] || left_out "$statistics" "its keys could not be told"
            continue
        fi
        if [ -f "${base}TOC.txt" ]; then cp "${base}TOC.txt" "${copy}TOC.txt" || true; fi
        copy_ends "${base}CompressionInfo.db" "${copy}CompressionInfo.db" || true
        # Nothing of Data.db but when it was written.
        : >"${copy}Data.db"
        touch -r "${base}Data.db" "${copy}Data.db" 2>/dev/null || rm -f "${copy}Data.db"
    done
    for log in "$1"/*_txn_*.log; do
        [ ! -f "$log" ] || cp "$log" "$2/" || true
    done
}

number=0
for folder in "$@"; do
    here=$(cd "$folder" 2>/dev/null && pwd -P) || { left_out "$folder" "cannot be entered"; continue; }
    place=$bundle/data/$number
    mkdir -p "$place"
    printf '%s' "$here" >"$place.folder"
    prefix=$(prefix_of "$here")
    case $prefix in
        */*) set_of=$here ;;
        ?*) set_of="$here/*-????????????????????????????????" ;;
        *) set_of="$here/*/*-????????????????????????????????" ;;
    esac
    before=$(wc -l <"$work/tables")
    IFS=
    # shellcheck disable=SC2086
    for table in $set_of; do
        [ -d "$table" ] && [ ! -h "$table" ] || continue
        above=${table%/*}
        name=${above##*/}/${table##*/}
        is_wanted "$name" || continue
        say "reading $name"
        mkdir -p "$place/${above##*/}"
        [ -r "$table" ] || { left_out "$table" "cannot be read"; continue; }
        collect_table "$table" "$place/$name" "$name"
    done
    unset IFS
    [ "$(wc -l <"$work/tables")" -gt "$before" ] || left_out "$here" "has no table of Cassandra"
    number=$((number + 1))
done

# Runs a command for a minute at the most. A shell hears a signal while it waits, and not while a
# command runs in front of it.
bounded() {
    if command -v timeout >/dev/null 2>&1; then timeout 60 "$@" & else "$@" & fi
    child=$!
    wait "$child" || { code=$?; child=; return "$code"; }
    child=
}

if [ -z "${NODETOOL+set}" ]; then
    NODETOOL=
    if command -v nodetool >/dev/null 2>&1; then NODETOOL=nodetool; fi
fi
# Runs nodetool, whose call may have options of its own, and keeps what it prints in a file.
run_nodetool() {
    to=$1
    shift
    # shellcheck disable=SC2086
    bounded $NODETOOL "$@" >"$work/printed" 2>"$work/said" </dev/null || {
        left_out "nodetool $1" "$(head -n 1 "$work/said")"
        return 1
    }
    mv "$work/printed" "$bundle/nodetool/$to"
}
if [ -n "$NODETOOL" ]; then
    say "asking nodetool"
    run_nodetool version.txt version || true
    run_nodetool listsnapshots.txt listsnapshots || true
    if run_nodetool tablestats.json tablestats -F json && [ "$keys" = blanked ]; then
        if without_keys <"$bundle/nodetool/tablestats.json" >"$work/stats"; then
            mv "$work/stats" "$bundle/nodetool/tablestats.json"
        else
            rm -f "$bundle/nodetool/tablestats.json"
            left_out "nodetool tablestats" "its keys could not be told"
        fi
    fi
    sort -u "$work/tables" >"$work/names"
    while IFS=/ read -r keyspace table; do
        run_nodetool "tablehistograms.$keyspace.${table%-*}.txt" tablehistograms \
            "$keyspace" "${table%-*}" || true
    done <"$work/names"
fi
if [ -n "${CQLSH:-}" ]; then
    say "asking cqlsh"
    cut -d / -f 1 "$work/tables" | sort -u >"$work/names"
    while read -r keyspace; do
        # shellcheck disable=SC2086
        bounded $CQLSH -e "DESCRIBE KEYSPACE \"$keyspace\"" >"$work/printed" 2>/dev/null </dev/null &&
            mv "$work/printed" "$bundle/schema/$keyspace.cql" ||
            left_out "cqlsh DESCRIBE KEYSPACE $keyspace" "it failed"
    done <"$work/names"
fi

{
    echo "format=1"
    echo "maker=script"
    echo "keys=$keys"
    echo "made_at_s=$(date +%s)"
    printf 'node=%s\n' "$node"
} >"$bundle/manifest"

(cd "$work" && tar cf bundle.tar treering-bundle)
gzip -c "$work/bundle.tar" >"$part"
refuse_existing
# Nothing comes between the file that takes the name and the bundle that takes its place.
trap '' HUP INT TERM
[ -n "$overwrite" ] || (set -C; : >"$out") 2>/dev/null || refuse_existing
mv -f "$part" "$out"
tables=$(sort -u "$work/tables" | wc -l)
say "$out holds $((tables)) table(s); check it with: treering doctor check $out"
[ -s "$work/tables" ] || exit 1
[ ! -s "$bundle/left-out" ] || exit 3
