#!/bin/sh
# PreToolUse: one capability judges the call. Nothing to do while none is named; a missing or killed program denies.
[ -n "${KEI_CAPABILITY_NAME:-}" ] || exit 0
kei-capability check "$KEI_CAPABILITY_NAME"
case $? in 0) exit 0 ;; 2) exit 2 ;; *) echo "bailiwick: kei-capability could not run, so the call is denied" >&2; exit 2 ;; esac
