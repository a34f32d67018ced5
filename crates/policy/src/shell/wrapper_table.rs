//! Programs that start the program named behind them, with their options.

/// How a program that starts another is called. Lists are words with a blank between them.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Options without a value; a word of several short ones is fine.
    pub(super) flags: &'static str,
    /// Options with a value, in the same word or the next.
    pub(super) values: &'static str,
    /// How many words stand between the options and the program.
    pub(super) skip: usize,
    /// Options with which no program is started at all.
    pub(super) quiet: &'static str,
    /// `NAME=value` may stand in front of the program.
    pub(super) assignments: bool,
    /// More arguments, which are not in the text, are put behind those that are.
    pub(super) more: bool,
    /// Only behind one of these words it starts a program.
    pub(super) words: &'static str,
    /// An option that is not named here stands alone, whatever it is.
    pub(super) lenient: bool,
}

const PLAIN: Wrapper = Wrapper {
    name: "",
    flags: "",
    values: "",
    skip: 0,
    quiet: "--help --version",
    assignments: false,
    more: false,
    words: "",
    lenient: false,
};

pub(super) const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "command", flags: "-p", quiet: "-v -V", ..PLAIN },
    Wrapper { name: "builtin", ..PLAIN },
    Wrapper { name: "exec", flags: "-c -l", values: "-a", ..PLAIN },
    Wrapper { name: "nohup", ..PLAIN },
    Wrapper {
        name: "env",
        flags: "-i - -0 -v --ignore-environment --null --debug",
        values: "-u --unset -C --chdir",
        assignments: true,
        ..PLAIN
    },
    Wrapper {
        name: "timeout",
        flags: "--foreground --preserve-status -v --verbose -f -p",
        values: "-k --kill-after -s --signal",
        skip: 1,
        ..PLAIN
    },
    Wrapper { name: "nice", values: "-n --adjustment", ..PLAIN },
    Wrapper {
        name: "ionice",
        flags: "-t --ignore",
        values: "-c --class -n --classdata",
        quiet: "-p -P -u --help --version",
        ..PLAIN
    },
    Wrapper { name: "setsid", flags: "-c -f -w --ctty --fork --wait", ..PLAIN },
    Wrapper { name: "stdbuf", values: "-i -o -e --input --output --error", ..PLAIN },
    Wrapper {
        name: "time",
        flags: "-p -v -a -q --portability --verbose --append --quiet",
        values: "-f --format -o --output",
        ..PLAIN
    },
    Wrapper {
        name: "sudo",
        flags: "-n -E -H -S -b -A -B -k -P",
        values: "-u -g -h -p -C -r -t -T -D -R --user --group",
        quiet: "-v -l -K -V --help --version --list --validate",
        assignments: true,
        ..PLAIN
    },
    Wrapper { name: "doas", flags: "-n", values: "-u -C", ..PLAIN },
    Wrapper {
        name: "xargs",
        flags: "-0 -r -t -p -x --null --no-run-if-empty --verbose --exit",
        values: "-I -n -P -L -d -E -s -a --max-args --max-procs --delimiter --max-chars --arg-file",
        more: true,
        ..PLAIN
    },
    Wrapper {
        name: "flock",
        flags: "-s -x -e -n -u -o -F --shared --exclusive --nonblock --nb --unlock --close --no-fork \
            --verbose",
        values: "-w --timeout -E --conflict-exit-code",
        skip: 1,
        ..PLAIN
    },
    Wrapper {
        name: "strace",
        flags: "-f -ff -q -qq -t -tt -r -T -y -v -c -C",
        values: "-o -e -s -u -E -P -O -S",
        ..PLAIN
    },
    Wrapper {
        name: "watch",
        flags: "-d -t -b -e -g -c -x -p -w --exec --no-title",
        values: "-n --interval -q --equexit",
        ..PLAIN
    },
    Wrapper { name: "busybox", ..PLAIN },
    Wrapper { name: "toybox", ..PLAIN },
    Wrapper { name: "pkexec", flags: "--disable-internal-agent", values: "--user", ..PLAIN },
    Wrapper { name: "gosu", skip: 1, ..PLAIN },
    Wrapper { name: "su-exec", skip: 1, ..PLAIN },
    Wrapper { name: "fakeroot", flags: "-u", values: "-l -s -i -b", ..PLAIN },
    Wrapper { name: "eatmydata", ..PLAIN },
    Wrapper { name: "catchsegv", ..PLAIN },
    Wrapper { name: "nocache", ..PLAIN },
    Wrapper { name: "bwrap", ..PLAIN },
    Wrapper { name: "firejail", flags: "--quiet --noprofile", ..PLAIN },
    Wrapper { name: "linux64", flags: "-R -v", ..PLAIN },
    Wrapper { name: "linux32", flags: "-R -v", ..PLAIN },
    Wrapper { name: "i386", flags: "-R -v", ..PLAIN },
    Wrapper { name: "x86_64", flags: "-R -v", ..PLAIN },
    Wrapper { name: "prlimit", quiet: "-p --pid --help --version", lenient: true, ..PLAIN },
    Wrapper { name: "choom", values: "-n --adjust", quiet: "-p --pid --help", ..PLAIN },
    Wrapper { name: "cpulimit", flags: "-i -z -q", values: "-l -e -p", ..PLAIN },
    Wrapper { name: "caffeinate", flags: "-d -i -m -s -u", values: "-t -w", ..PLAIN },
    Wrapper {
        name: "ssh-agent",
        flags: "-D -d -s -c",
        values: "-a -t -E -O -P",
        quiet: "-k",
        ..PLAIN
    },
    Wrapper {
        name: "nsenter",
        flags: "-a -m -u -i -n -p -C -U -T -F -Z -e --all --mount --uts --ipc --net --pid --cgroup \
            --user --time --no-fork --preserve-credentials",
        values: "-t --target -S --setuid -G --setgid --mount --uts --ipc --net --pid --cgroup --user \
            --time --root --wd",
        ..PLAIN
    },
    Wrapper {
        name: "unshare",
        flags: "-m -u -i -n -p -U -C -T -f -r -c --mount --uts --ipc --net --pid --user --cgroup \
            --time --fork --map-root-user --map-current-user --map-auto --mount-proc --kill- \
            child --keep-caps",
        values: "-R --root -w --wd -S --setuid -G --setgid --map-user --map-group --map-users --map- \
            groups --propagation --setgroups --mount-proc --kill-child",
        ..PLAIN
    },
    Wrapper {
        name: "chroot",
        flags: "--skip-chdir",
        values: "--userspec --groups",
        skip: 1,
        ..PLAIN
    },
    Wrapper {
        name: "setpriv",
        flags: "--clear-groups --init-groups --keep-groups --no-new-privs --nnp --reset-env",
        values: "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --ambient-caps \
            --bounding-set --securebits --pdeathsig --selinux-label --apparmor-profile",
        quiet: "-d --dump --list-caps --help --version",
        ..PLAIN
    },
    Wrapper { name: "runuser", flags: "--login", values: "-u --user -g -G", ..PLAIN },
    Wrapper {
        name: "chrt",
        flags: "-b -f -i -o -r -d -R -a -v",
        values: "-T -P -D",
        skip: 1,
        quiet: "-p -m --pid --max --help --version",
        ..PLAIN
    },
    Wrapper {
        name: "taskset",
        flags: "-a -c --all-tasks --cpu-list",
        skip: 1,
        quiet: "-p --pid -cp -pc -ap --help --version",
        ..PLAIN
    },
    Wrapper {
        name: "numactl",
        flags: "-l --localalloc -a --all -b --balancing",
        values: "-N -m -C -i -p --cpunodebind --membind --physcpubind --interleave --preferred",
        quiet: "-s --show -H --hardware --help --version",
        ..PLAIN
    },
    Wrapper {
        name: "ltrace",
        flags: "-f -c -C -i -r -t -tt -T -S -L -b",
        values: "-o -e -s -n -a -u -l -x -A -D -w",
        quiet: "-p --help -V",
        ..PLAIN
    },
    Wrapper { name: "valgrind", flags: "-q -v", lenient: true, ..PLAIN },
    Wrapper {
        name: "perf",
        flags: "-a -d -dd -ddd -v -g -A -B -S -n -i -s -T -P -q --null --all-cpus --detailed --no- \
            inherit",
        values: "-e --event -o --output -F --freq -t --tid -C --cpu -r --repeat -I -D --delay -x \
            --call-graph -c --count -G -M -m",
        quiet: "-p --pid --help",
        words: "stat record trace",
        ..PLAIN
    },
    Wrapper { name: "rr", flags: "-n -w", words: "record", ..PLAIN },
    Wrapper {
        name: "systemd-run",
        flags: "--user --system --scope -t --pty -P --pipe -G --collect -q --quiet --wait --no-block \
            -r --remain-after-exit --same-dir -d --no-ask-password",
        values: "-p --property -u --unit --slice --uid --gid --nice -E --setenv --working-directory \
            --description --on-active --on-calendar --service-type -M -H --on-boot --on-startup",
        ..PLAIN
    },
    Wrapper { name: "dbus-run-session", values: "--config-file --dbus-daemon", ..PLAIN },
    Wrapper { name: "dbus-launch", flags: "--exit-with-session --sh-syntax", ..PLAIN },
    Wrapper {
        name: "xvfb-run",
        flags: "-a --auto-servernum -l --listen-tcp",
        values: "-n --server-num -s --server-args -e --error-file -f --auth-file -w --wait -p \
            --xauth-protocol",
        ..PLAIN
    },
    Wrapper { name: "faketime", flags: "-m -f --exclude-monotonic", skip: 1, ..PLAIN },
    Wrapper { name: "torsocks", flags: "-q -d -i", values: "-a -P -u -p", ..PLAIN },
    Wrapper { name: "torify", flags: "-q -v", ..PLAIN },
    Wrapper { name: "proxychains", flags: "-q", values: "-f", ..PLAIN },
    Wrapper { name: "proxychains4", flags: "-q", values: "-f", ..PLAIN },
    Wrapper {
        name: "rlwrap",
        flags: "-A -a -c -i -I -n -N -r -R -o -U -w -X",
        values: "-f -H -C -p -b -z -m -S -P -t -D -q -s",
        ..PLAIN
    },
    Wrapper { name: "unbuffer", flags: "-p", ..PLAIN },
    Wrapper { name: "chronic", flags: "-v -e", ..PLAIN },
    Wrapper { name: "ifne", flags: "-n", ..PLAIN },
    Wrapper { name: "entr", flags: "-a -c -cc -d -n -p -r -s -x -z", ..PLAIN },
    Wrapper {
        name: "parallel",
        flags: "-k --keep-order --bar --progress -u --ungroup --line-buffer --lb -0 --null -X -m -q \
            --quote --eta --no-notice --will-cite -v -t --verbose --pipe --tag -r --no-run-if- \
            empty --group --round-robin",
        values: "-j --jobs -P -n -N -I -a --arg-file -C --colsep -d --delimiter --joblog --results \
            --halt --timeout --delay --retries --tmpdir --load --memfree --env --wd --workdir -L \
            -s --max-args --max-procs --block --tagstring",
        quiet: "--help --version --citation --dry-run --dryrun",
        ..PLAIN
    },
    Wrapper {
        name: "uv",
        flags: "--frozen --locked --no-sync --isolated --all-extras --no-project --active --exact \
            --offline --no-dev --quiet -q -v --verbose --no-cache -n --managed-python --no- \
            progress --all-groups --only-dev --dev --native-tls --refresh --compile-bytecode \
            --no-config -s --script --no-default-groups --no-editable --upgrade -U --no-managed- \
            python --all-packages",
        values: "--with -w --with-editable --with-requirements --python -p --extra --group --no-group \
            --only-group --package --project --directory --env-file --index --index-url \
            --default-index --color --cache-dir --python-preference --link-mode --resolution \
            --prerelease --from --config-file --no-extra --extra-index-url --find-links -f",
        quiet: "-m --module --help -h --version -V",
        words: "run x",
        ..PLAIN
    },
    Wrapper {
        name: "uvx",
        flags: "--isolated --offline -q -v --quiet --verbose --refresh --no-cache",
        values: "--from --with --python -p --with-editable --index --index-url",
        ..PLAIN
    },
    Wrapper {
        name: "pipx",
        flags: "--no-cache -q",
        values: "--spec --python --pip-args",
        words: "run",
        ..PLAIN
    },
    Wrapper {
        name: "poetry",
        flags: "-q --quiet -n --no-interaction -v -vv --no-ansi --ansi",
        values: "-C --directory -P --project",
        words: "run",
        ..PLAIN
    },
    Wrapper { name: "pipenv", flags: "-q --quiet -v", words: "run", ..PLAIN },
    Wrapper { name: "pdm", flags: "-v -q -s", values: "-p --project", words: "run", ..PLAIN },
    Wrapper { name: "rye", flags: "-q -v", values: "--pyproject", words: "run", ..PLAIN },
    Wrapper { name: "hatch", flags: "-q -v", values: "-e --env", words: "run", ..PLAIN },
    Wrapper {
        name: "pixi",
        values: "-e --environment --manifest-path",
        words: "run exec",
        ..PLAIN
    },
    Wrapper {
        name: "conda",
        flags: "-v --no-capture-output --live-stream --dev",
        values: "-n --name -p --prefix --cwd",
        words: "run",
        ..PLAIN
    },
    Wrapper { name: "mamba", flags: "-v", values: "-n --name -p --prefix", words: "run", ..PLAIN },
    Wrapper { name: "micromamba", values: "-n --name -p --prefix", words: "run", ..PLAIN },
    Wrapper {
        name: "npx",
        flags: "-y --yes --no -q --quiet --no-install --ignore-existing --prefer-offline --offline \
            --workspaces -ws --legacy-peer-deps",
        values: "-p --package -w --workspace --prefix --loglevel --registry",
        quiet: "--help --version -v",
        ..PLAIN
    },
    Wrapper {
        name: "bunx",
        flags: "--bun --no-install --verbose --silent",
        values: "-p --package",
        ..PLAIN
    },
    Wrapper {
        name: "bun",
        flags: "--bun --no-install",
        values: "-p --package",
        words: "x",
        ..PLAIN
    },
    Wrapper { name: "pnpx", flags: "-s --silent", values: "--package", ..PLAIN },
    Wrapper {
        name: "npm",
        flags: "-y --yes --no -s --silent -q -ws --workspaces",
        values: "-p --package -w --workspace --prefix -C",
        words: "exec x",
        ..PLAIN
    },
    Wrapper {
        name: "pnpm",
        flags: "-r --recursive -w --workspace-root -s --silent --parallel",
        values: "-C --dir -F --filter --package",
        words: "exec dlx",
        ..PLAIN
    },
    Wrapper {
        name: "yarn",
        flags: "-s --silent -q",
        values: "--cwd -p --package",
        words: "exec dlx",
        ..PLAIN
    },
    Wrapper {
        name: "bundle",
        flags: "--keep-file-descriptors",
        values: "--gemfile",
        words: "exec",
        ..PLAIN
    },
    Wrapper { name: "rbenv", words: "exec", ..PLAIN },
    Wrapper { name: "pyenv", words: "exec", ..PLAIN },
    Wrapper { name: "asdf", words: "exec", ..PLAIN },
    Wrapper { name: "nvm", flags: "--silent", skip: 1, words: "exec", ..PLAIN },
    Wrapper { name: "fnm", values: "--using", words: "exec", ..PLAIN },
    Wrapper { name: "volta", values: "--node --npm --yarn", words: "run", ..PLAIN },
    Wrapper { name: "direnv", skip: 1, words: "exec", ..PLAIN },
    Wrapper { name: "dotenv", values: "-f -e", flags: "-o", words: "run", ..PLAIN },
    Wrapper {
        name: "ld.so",
        flags: "--inhibit-cache",
        values: "--library-path --preload --argv0 --inhibit-rpath --audit",
        quiet: "--verify --list --help --version",
        ..PLAIN
    },
];
