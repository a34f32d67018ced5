#!/bin/sh
# After the agent: one capability checks its work. Nothing to do while none is named; a missing or killed program fails.
[ -n "${KEI_CAPABILITY_NAME:-}" ] || exit 0
kei-capability verify "$KEI_CAPABILITY_NAME"
case $? in 0) exit 0 ;; 2) exit 2 ;; *) echo "FAIL $KEI_CAPABILITY_NAME: kei-capability could not run" >&2; exit 2 ;; esac
