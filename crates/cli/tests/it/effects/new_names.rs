//! Ways to create a file with a forbidden name.

use super::ways::{Way, way};

/// Commands that create a file that must not exist.
pub(super) const CREATIONS: [Way; 4] = [
    way(
        "making",
        &[
            "mkdir -p {D}; echo EVIL > {T}",
            "mkdir -p {D}; touch {T}",
            "mkdir -p {D}; echo EVIL | tee {T}",
            "mkdir -p {D}; cp /etc/hostname {T}",
            "install -D -m 644 /etc/hostname {T}",
            "mkdir -p {D}; python3 -c \"open('{T}', 'w').write('EVIL')\"",
            "mkdir -p {D}; node -e \"require('fs').writeFileSync('{T}', 'EVIL')\"",
            "mkdir -p {D}; perl -e \"open F, '>', '{T}'; print F 'EVIL'\"",
            "mkdir -p {D}; dd if=/dev/zero of={T} bs=1 count=5 status=none",
            "mkdir -p {D}; {RAW} creat {T} {W}",
            "mkdir -p {D}; (sleep 0.1; echo EVIL > {T}) & sleep 0.3",
        ],
    ),
    way(
        "renaming",
        &[
            "mkdir -p {D}; echo EVIL > {W}/x; mv {W}/x {T}",
            "mkdir -p {D}; echo EVIL > {D}/plain.md; mv {D}/plain.md {T}",
            "mkdir -p {D}; echo EVIL > {D}/plain.md; ln {D}/plain.md {T}",
            "mkdir -p {W}/t/$(dirname {R}); echo EVIL > {W}/t/{R}; cp -r {W}/t/. {B}/",
            "mkdir -p {W}/t/$(dirname {R}); echo EVIL > {W}/t/{R}; tar -C {W}/t -cf - . | tar -C {B} -xf -",
            "mkdir -p {W}/t/$(dirname {R}); echo EVIL > {W}/t/{R}; (cd {W}/t; zip -qr {W}/z.zip .); unzip -qo {W}/z.zip -d {B}",
            "mkdir -p {D}; {RAW} rename {T} {D}",
            "mkdir -p {D}; {RAW} rename {T} {W}; echo EVIL > {D}/a.md; cp -l {D}/a.md {T}",
            "mkdir -p {D}; python3 -c \"import os; open('{D}/a.md', 'w').write('EVIL'); os.replace('{D}/a.md', '{T}')\"",
            "mkdir -p {D}; printf -- '--- /dev/null\\n+++ b/{R}\\n@@ -0,0 +1 @@\\n+EVIL\\n' | patch -s -d {B} -p1",
        ],
    ),
    way(
        "links and hiding",
        &[
            "mkdir -p {D}; ln -s /etc/hostname {T}",
            "mkdir -p {D}; ln -s missing {T}",
            "mkdir -p {D}; echo EVIL > {T}; echo '*' > {D}/.gitignore",
            "mkdir -p {D}; echo EVIL > {T}; chmod 000 {T}",
            "mkdir -p {D}; echo EVIL > {T}; chmod 444 {T}; chmod 555 {D}",
            "mkdir -p {D}; cp /bin/true {T}",
            "mkdir -p {D}; truncate -s 5M {T}",
            "mkdir -p {D}; ln -s /proc/self/environ {T}",
            "mkdir -p {D}; echo EVIL > {T}; touch -d 1999-01-01 {T}",
            "mkdir -p {D}; : > {T}; mkdir -p {D}/$(printf 'a\\nb'); echo x > {D}/$(printf 'a\\nb')/c",
        ],
    ),
    way(
        "many at once",
        &[
            "mkdir -p {D}; for n in 1 2 3; do mkdir -p {D}/$n; cp /etc/hostname {D}/$n/x; done; echo EVIL > {T}",
            "mkdir -p {D}; seq 1 50 | while read n; do echo $n > {D}/f$n.md; done; echo EVIL > {T}",
            "mkdir -p {D}; echo EVIL > {T}; rm -f {T}; echo EVIL > {T}",
            "mkdir -p {D}; echo EVIL > {T}; mv {T} {T}.x; mv {T}.x {T}",
            "mkdir -p {D}; echo EVIL > {T} & wait",
            "mkdir -p {D}; for n in 1 2 3 4 5; do echo EVIL >> {T}; sleep 0.01; done",
            "mkdir -p {D}; setsid -f sh -c 'echo EVIL > {T}'; sleep 0.1",
            "mkdir -p {D}/deep/er/still; echo EVIL > {T}; echo x > {D}/deep/er/still/y.md",
            "mkdir -p {D}; echo EVIL > {T}; exec 9< {T}; true",
            "mkdir -p {D}; exec 9> {T}; echo EVIL >&9",
        ],
    ),
];
