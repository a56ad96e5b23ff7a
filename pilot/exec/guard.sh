# Guard of a pilot's payloads: when the pilot has gone, kills what it has left.
# $1 begins the mark of all their processes: see mark.go. $2, where processes
# cannot be marked, is what their environment says.
trap '' HUP INT QUIT TERM PIPE
marked() {
	while read -r _ name what soft hard _; do
		case "$name $what $soft $hard " in
		"file locks "*"$1"?????????" "*) return 0 ;;
		"file locks "*) return 1 ;;
		esac
	done <"$process/limits"
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
	round=$((round + 1)) found=
	if [ "$2" ]; then
		for process in $(grep -ls "$2" /proc/[0-9]*/environ); do
			process=${process%/environ}
			end
		done
	else
		# Without a fork, for which a payload may have left no process.
		for process in /proc/[0-9]*; do
			marked "$1" && end
		done
	fi
	clean=$((clean + 1))
	[ "$found" = "$before" ] || clean=0
	before=$found
	[ $clean -gt 1 ] || sleep 0.1 || sleep 1
done
