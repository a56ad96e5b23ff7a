# Guard of a pilot's payloads: when the pilot has gone, kills what it has left.
# $1 begins the mark of all their processes: see mark.go. $2, where processes
# cannot be marked, is what their environment says. $3 is the account of payloads
# that have walls: some may have lowered the mark, which nobody can raise again.
trap '' HUP INT QUIT TERM PIPE
limits() {
	while read -r _ name what soft hard _; do
		[ "$name $what" != "file locks" ] || return 0
	done <"$process/limits"
	return 1
}
marked() {
	case " $soft $hard " in *" $1"?????????" "*) return 0 ;; esac
	return 1
}
# What has a limit, the account and the payloads' lack of new privileges, and is of
# no pilot whose guard stands, has lowered its mark.
lowered() {
	case "$hard" in unlimited | ???????????????????*) return 1 ;; esac
	while read -r name value _; do
		case "$name $value" in
		"Uid: $1" | "NoNewPrivs: 1") ;;
		Uid:* | NoNewPrivs:*) return 1 ;;
		esac
	done <"$process/status"
	stands "${hard%?????????}" && return 1
	return 0
}
# Guards stand before their payloads, and have no limit themselves.
stands() {
	case $1 in ?????????) ;; *) return 1 ;; esac
	case "$pilots " in *" $1 "*) return 0 ;; esac
	suspect=$process
	for process in /proc/[0-9]*; do
		read -r line <"$process/cmdline"
		case "$line" in *pilotage-guard"$1"*) limits && [ "$hard" = unlimited ] && pilots="$pilots $1" ;; esac
	done
	process=$suspect
	case "$pilots " in *" $1 "*) return 0 ;; esac
	return 1
}
end() {
	kill -9 "${process#/proc/}"
	found="$found $process"
}
read -r _ # comes to its end when the pilot does: nobody writes
# A round that finds only what the last one has killed already (zombies, which
# nobody buries, or processes stuck in the kernel) finds nothing.
clean=0 round=0 before=
while [ $clean -lt 2 ] && [ $round -lt 60 ]; do
	round=$((round + 1)) found='' pilots=
	if [ "$2" ]; then
		for process in $(grep -ls "$2" /proc/[0-9]*/environ); do
			process=${process%/environ}
			end
		done
	else
		# Without a fork, for which a payload may have left no process.
		for process in /proc/[0-9]*; do
			limits || continue
			if marked "$1" || { [ "$3" ] && lowered "$3"; }; then end; fi
		done
	fi
	clean=$((clean + 1))
	[ "$found" = "$before" ] || clean=0
	before=$found
	[ $clean -gt 1 ] || sleep 0.1 || sleep 1
done
