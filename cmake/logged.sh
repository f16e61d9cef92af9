#!/bin/sh
# logged.sh LOG COMMAND...: the command's messages go to the file LOG, and are shown if it fails.
log=$1
shift
"$@" >"$log.new" 2>&1
status=$?
[ $status = 0 ] || cat "$log.new" >&2
mv "$log.new" "$log"
exit $status
