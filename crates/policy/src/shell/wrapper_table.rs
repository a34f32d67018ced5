//! Programs that start the program named behind them, with their options.

use crate::word_list::words;

/// How a program that starts another is called.
pub(super) struct Wrapper {
    pub(super) name: &'static str,
    /// Options without a value; a word of several short ones is fine.
    pub(super) flags: &'static [&'static str],
    /// Options with a value, in the same word or the next.
    pub(super) values: &'static [&'static str],
    /// The number of words between the options and the program.
    pub(super) skip: usize,
    /// Options with which it starts no program.
    pub(super) starts_nothing: &'static [&'static str],
    /// `NAME=value` may stand in front of the program.
    pub(super) assignments: bool,
    /// It appends arguments that are not in the text.
    pub(super) appends_arguments: bool,
    /// Only behind one of these words it starts a program.
    pub(super) words: &'static [&'static str],
    /// Options that are not listed here have no value.
    pub(super) unknown_options_have_no_value: bool,
}

const PLAIN: Wrapper = Wrapper {
    name: "",
    flags: &[],
    values: &[],
    skip: 0,
    starts_nothing: words!("--help --version"),
    assignments: false,
    appends_arguments: false,
    words: &[],
    unknown_options_have_no_value: false,
};

pub(super) const WRAPPERS: &[Wrapper] = &[
    Wrapper { name: "command", flags: words!("-p"), starts_nothing: words!("-v -V"), ..PLAIN },
    Wrapper { name: "builtin", ..PLAIN },
    Wrapper { name: "exec", flags: words!("-c -l"), values: words!("-a"), ..PLAIN },
    Wrapper { name: "nohup", ..PLAIN },
    Wrapper {
        name: "env",
        flags: words!("-i - -0 -v --ignore-environment --null --debug"),
        values: words!("-u --unset -C --chdir"),
        assignments: true,
        ..PLAIN
    },
    Wrapper {
        name: "timeout",
        flags: words!("--foreground --preserve-status -v --verbose -f -p"),
        values: words!("-k --kill-after -s --signal"),
        skip: 1,
        ..PLAIN
    },
    Wrapper { name: "nice", values: words!("-n --adjustment"), ..PLAIN },
    Wrapper {
        name: "ionice",
        flags: words!("-t --ignore"),
        values: words!("-c --class -n --classdata"),
        starts_nothing: words!("-p -P -u --help --version"),
        ..PLAIN
    },
    Wrapper { name: "setsid", flags: words!("-c -f -w --ctty --fork --wait"), ..PLAIN },
    Wrapper { name: "stdbuf", values: words!("-i -o -e --input --output --error"), ..PLAIN },
    Wrapper {
        name: "time",
        flags: words!("-p -v -a -q --portability --verbose --append --quiet"),
        values: words!("-f --format -o --output"),
        ..PLAIN
    },
    Wrapper {
        name: "sudo",
        flags: words!("-n -E -H -S -b -A -B -k -P"),
        values: words!("-u -g -h -p -C -r -t -T -D -R --user --group"),
        starts_nothing: words!("-v -l -K -V --help --version --list --validate"),
        assignments: true,
        ..PLAIN
    },
    Wrapper { name: "doas", flags: words!("-n"), values: words!("-u -C"), ..PLAIN },
    Wrapper {
        name: "xargs",
        flags: words!("-0 -r -t -p -x --null --no-run-if-empty --verbose --exit"),
        values: words!(
            "-I -n -P -L -d -E -s -a --max-args --max-procs --delimiter --max-chars --arg-file"
        ),
        appends_arguments: true,
        ..PLAIN
    },
    Wrapper {
        name: "flock",
        flags: words!(
            "-s -x -e -n -u -o -F --shared --exclusive --nonblock --nb --unlock --close --no-fork \
            --verbose"
        ),
        values: words!("-w --timeout -E --conflict-exit-code"),
        skip: 1,
        ..PLAIN
    },
    Wrapper {
        name: "strace",
        flags: words!("-f -ff -q -qq -t -tt -r -T -y -v -c -C"),
        values: words!("-o -e -s -u -E -P -O -S"),
        ..PLAIN
    },
    Wrapper {
        name: "watch",
        flags: words!("-d -t -b -e -g -c -x -p -w --exec --no-title"),
        values: words!("-n --interval -q --equexit"),
        ..PLAIN
    },
    Wrapper { name: "busybox", ..PLAIN },
    Wrapper { name: "toybox", ..PLAIN },
    Wrapper {
        name: "pkexec",
        flags: words!("--disable-internal-agent"),
        values: words!("--user"),
        ..PLAIN
    },
    Wrapper { name: "gosu", skip: 1, ..PLAIN },
    Wrapper { name: "su-exec", skip: 1, ..PLAIN },
    Wrapper { name: "fakeroot", flags: words!("-u"), values: words!("-l -s -i -b"), ..PLAIN },
    Wrapper { name: "eatmydata", ..PLAIN },
    Wrapper { name: "catchsegv", ..PLAIN },
    Wrapper { name: "nocache", ..PLAIN },
    Wrapper { name: "bwrap", ..PLAIN },
    Wrapper { name: "firejail", flags: words!("--quiet --noprofile"), ..PLAIN },
    Wrapper { name: "linux64", flags: words!("-R -v"), ..PLAIN },
    Wrapper { name: "linux32", flags: words!("-R -v"), ..PLAIN },
    Wrapper { name: "i386", flags: words!("-R -v"), ..PLAIN },
    Wrapper { name: "x86_64", flags: words!("-R -v"), ..PLAIN },
    Wrapper {
        name: "prlimit",
        starts_nothing: words!("-p --pid --help --version"),
        unknown_options_have_no_value: true,
        ..PLAIN
    },
    Wrapper {
        name: "choom",
        values: words!("-n --adjust"),
        starts_nothing: words!("-p --pid --help"),
        ..PLAIN
    },
    Wrapper { name: "cpulimit", flags: words!("-i -z -q"), values: words!("-l -e -p"), ..PLAIN },
    Wrapper {
        name: "caffeinate",
        flags: words!("-d -i -m -s -u"),
        values: words!("-t -w"),
        ..PLAIN
    },
    Wrapper {
        name: "ssh-agent",
        flags: words!("-D -d -s -c"),
        values: words!("-a -t -E -O -P"),
        starts_nothing: words!("-k"),
        ..PLAIN
    },
    Wrapper {
        name: "nsenter",
        flags: words!(
            "-a -m -u -i -n -p -C -U -T -F -Z -e --all --mount --uts --ipc --net --pid --cgroup \
            --user --time --no-fork --preserve-credentials"
        ),
        values: words!(
            "-t --target -S --setuid -G --setgid --mount --uts --ipc --net --pid --cgroup --user \
            --time --root --wd"
        ),
        ..PLAIN
    },
    Wrapper {
        name: "unshare",
        flags: words!(
            "-m -u -i -n -p -U -C -T -f -r -c --mount --uts --ipc --net --pid --user --cgroup \
            --time --fork --map-root-user --map-current-user --map-auto --mount-proc \
            --kill-child --keep-caps"
        ),
        values: words!(
            "-R --root -w --wd -S --setuid -G --setgid --map-user --map-group --map-users \
            --map-groups --propagation --setgroups --mount-proc --kill-child"
        ),
        ..PLAIN
    },
    Wrapper {
        name: "chroot",
        flags: words!("--skip-chdir"),
        values: words!("--userspec --groups"),
        skip: 1,
        ..PLAIN
    },
    Wrapper {
        name: "setpriv",
        flags: words!(
            "--clear-groups --init-groups --keep-groups --no-new-privs --nnp --reset-env"
        ),
        values: words!(
            "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --ambient-caps \
            --bounding-set --securebits --pdeathsig --selinux-label --apparmor-profile"
        ),
        starts_nothing: words!("-d --dump --list-caps --help --version"),
        ..PLAIN
    },
    Wrapper {
        name: "runuser",
        flags: words!("--login"),
        values: words!("-u --user -g -G"),
        ..PLAIN
    },
    Wrapper {
        name: "chrt",
        flags: words!("-b -f -i -o -r -d -R -a -v"),
        values: words!("-T -P -D"),
        skip: 1,
        starts_nothing: words!("-p -m --pid --max --help --version"),
        ..PLAIN
    },
    Wrapper {
        name: "taskset",
        flags: words!("-a -c --all-tasks --cpu-list"),
        skip: 1,
        starts_nothing: words!("-p --pid -cp -pc -ap --help --version"),
        ..PLAIN
    },
    Wrapper {
        name: "numactl",
        flags: words!("-l --localalloc -a --all -b --balancing"),
        values: words!(
            "-N -m -C -i -p --cpunodebind --membind --physcpubind --interleave --preferred"
        ),
        starts_nothing: words!("-s --show -H --hardware --help --version"),
        ..PLAIN
    },
    Wrapper {
        name: "ltrace",
        flags: words!("-f -c -C -i -r -t -tt -T -S -L -b"),
        values: words!("-o -e -s -n -a -u -l -x -A -D -w"),
        starts_nothing: words!("-p --help -V"),
        ..PLAIN
    },
    Wrapper {
        name: "valgrind",
        flags: words!("-q -v"),
        unknown_options_have_no_value: true,
        ..PLAIN
    },
    Wrapper {
        name: "perf",
        flags: words!(
            "-a -d -dd -ddd -v -g -A -B -S -n -i -s -T -P -q --null --all-cpus --detailed \
            --no-inherit"
        ),
        values: words!(
            "-e --event -o --output -F --freq -t --tid -C --cpu -r --repeat -I -D --delay -x \
            --call-graph -c --count -G -M -m"
        ),
        starts_nothing: words!("-p --pid --help"),
        words: words!("stat record trace"),
        ..PLAIN
    },
    Wrapper { name: "rr", flags: words!("-n -w"), words: words!("record"), ..PLAIN },
    Wrapper {
        name: "systemd-run",
        flags: words!(
            "--user --system --scope -t --pty -P --pipe -G --collect -q --quiet --wait --no-block \
            -r --remain-after-exit --same-dir -d --no-ask-password"
        ),
        values: words!(
            "-p --property -u --unit --slice --uid --gid --nice -E --setenv --working-directory \
            --description --on-active --on-calendar --service-type -M -H --on-boot --on-startup"
        ),
        ..PLAIN
    },
    Wrapper { name: "dbus-run-session", values: words!("--config-file --dbus-daemon"), ..PLAIN },
    Wrapper { name: "dbus-launch", flags: words!("--exit-with-session --sh-syntax"), ..PLAIN },
    Wrapper {
        name: "xvfb-run",
        flags: words!("-a --auto-servernum -l --listen-tcp"),
        values: words!(
            "-n --server-num -s --server-args -e --error-file -f --auth-file -w --wait -p \
            --xauth-protocol"
        ),
        ..PLAIN
    },
    Wrapper { name: "faketime", flags: words!("-m -f --exclude-monotonic"), skip: 1, ..PLAIN },
    Wrapper { name: "torsocks", flags: words!("-q -d -i"), values: words!("-a -P -u -p"), ..PLAIN },
    Wrapper { name: "torify", flags: words!("-q -v"), ..PLAIN },
    Wrapper { name: "proxychains", flags: words!("-q"), values: words!("-f"), ..PLAIN },
    Wrapper { name: "proxychains4", flags: words!("-q"), values: words!("-f"), ..PLAIN },
    Wrapper {
        name: "rlwrap",
        flags: words!("-A -a -c -i -I -n -N -r -R -o -U -w -X"),
        values: words!("-f -H -C -p -b -z -m -S -P -t -D -q -s"),
        ..PLAIN
    },
    Wrapper { name: "unbuffer", flags: words!("-p"), ..PLAIN },
    Wrapper { name: "chronic", flags: words!("-v -e"), ..PLAIN },
    Wrapper { name: "ifne", flags: words!("-n"), ..PLAIN },
    Wrapper { name: "entr", flags: words!("-a -c -cc -d -n -p -r -s -x -z"), ..PLAIN },
    Wrapper {
        name: "parallel",
        flags: words!(
            "-k --keep-order --bar --progress -u --ungroup --line-buffer --lb -0 --null -X -m -q \
            --quote --eta --no-notice --will-cite -v -t --verbose --pipe --tag -r \
            --no-run-if-empty --group --round-robin"
        ),
        values: words!(
            "-j --jobs -P -n -N -I -a --arg-file -C --colsep -d --delimiter --joblog --results \
            --halt --timeout --delay --retries --tmpdir --load --memfree --env --wd --workdir -L \
            -s --max-args --max-procs --block --tagstring"
        ),
        starts_nothing: words!("--help --version --citation --dry-run --dryrun"),
        ..PLAIN
    },
    Wrapper {
        name: "uv",
        flags: words!(
            "--frozen --locked --no-sync --isolated --all-extras --no-project --active --exact \
            --offline --no-dev --quiet -q -v --verbose --no-cache -n --managed-python \
            --no-progress --all-groups --only-dev --dev --native-tls --refresh --compile-bytecode \
            --no-config -s --script --no-default-groups --no-editable --upgrade -U \
            --no-managed-python --all-packages"
        ),
        values: words!(
            "--with -w --with-editable --with-requirements --python -p --extra --group --no-group \
            --only-group --package --project --directory --env-file --index --index-url \
            --default-index --color --cache-dir --python-preference --link-mode --resolution \
            --prerelease --from --config-file --no-extra --extra-index-url --find-links -f"
        ),
        starts_nothing: words!("-m --module --help -h --version -V"),
        words: words!("run x"),
        ..PLAIN
    },
    Wrapper {
        name: "uvx",
        flags: words!("--isolated --offline -q -v --quiet --verbose --refresh --no-cache"),
        values: words!("--from --with --python -p --with-editable --index --index-url"),
        ..PLAIN
    },
    Wrapper {
        name: "pipx",
        flags: words!("--no-cache -q"),
        values: words!("--spec --python --pip-args"),
        words: words!("run"),
        ..PLAIN
    },
    Wrapper {
        name: "poetry",
        flags: words!("-q --quiet -n --no-interaction -v -vv --no-ansi --ansi"),
        values: words!("-C --directory -P --project"),
        words: words!("run"),
        ..PLAIN
    },
    Wrapper { name: "pipenv", flags: words!("-q --quiet -v"), words: words!("run"), ..PLAIN },
    Wrapper {
        name: "pdm",
        flags: words!("-v -q -s"),
        values: words!("-p --project"),
        words: words!("run"),
        ..PLAIN
    },
    Wrapper {
        name: "rye",
        flags: words!("-q -v"),
        values: words!("--pyproject"),
        words: words!("run"),
        ..PLAIN
    },
    Wrapper {
        name: "hatch",
        flags: words!("-q -v"),
        values: words!("-e --env"),
        words: words!("run"),
        ..PLAIN
    },
    Wrapper {
        name: "pixi",
        values: words!("-e --environment --manifest-path"),
        words: words!("run exec"),
        ..PLAIN
    },
    Wrapper {
        name: "conda",
        flags: words!("-v --no-capture-output --live-stream --dev"),
        values: words!("-n --name -p --prefix --cwd"),
        words: words!("run"),
        ..PLAIN
    },
    Wrapper {
        name: "mamba",
        flags: words!("-v"),
        values: words!("-n --name -p --prefix"),
        words: words!("run"),
        ..PLAIN
    },
    Wrapper {
        name: "micromamba",
        values: words!("-n --name -p --prefix"),
        words: words!("run"),
        ..PLAIN
    },
    Wrapper {
        name: "npx",
        flags: words!(
            "-y --yes --no -q --quiet --no-install --ignore-existing --prefer-offline --offline \
            --workspaces -ws --legacy-peer-deps"
        ),
        values: words!("-p --package -w --workspace --prefix --loglevel --registry"),
        starts_nothing: words!("--help --version -v"),
        ..PLAIN
    },
    Wrapper {
        name: "bunx",
        flags: words!("--bun --no-install --verbose --silent"),
        values: words!("-p --package"),
        ..PLAIN
    },
    Wrapper {
        name: "bun",
        flags: words!("--bun --no-install"),
        values: words!("-p --package"),
        words: words!("x"),
        ..PLAIN
    },
    Wrapper { name: "pnpx", flags: words!("-s --silent"), values: words!("--package"), ..PLAIN },
    Wrapper {
        name: "npm",
        flags: words!("-y --yes --no -s --silent -q -ws --workspaces"),
        values: words!("-p --package -w --workspace --prefix -C"),
        words: words!("exec x"),
        ..PLAIN
    },
    Wrapper {
        name: "pnpm",
        flags: words!("-r --recursive -w --workspace-root -s --silent --parallel"),
        values: words!("-C --dir -F --filter --package"),
        words: words!("exec dlx"),
        ..PLAIN
    },
    Wrapper {
        name: "yarn",
        flags: words!("-s --silent -q"),
        values: words!("--cwd -p --package"),
        words: words!("exec dlx"),
        ..PLAIN
    },
    Wrapper {
        name: "bundle",
        flags: words!("--keep-file-descriptors"),
        values: words!("--gemfile"),
        words: words!("exec"),
        ..PLAIN
    },
    Wrapper { name: "rbenv", words: words!("exec"), ..PLAIN },
    Wrapper { name: "pyenv", words: words!("exec"), ..PLAIN },
    Wrapper { name: "asdf", words: words!("exec"), ..PLAIN },
    Wrapper { name: "nvm", flags: words!("--silent"), skip: 1, words: words!("exec"), ..PLAIN },
    Wrapper { name: "fnm", values: words!("--using"), words: words!("exec"), ..PLAIN },
    Wrapper { name: "volta", values: words!("--node --npm --yarn"), words: words!("run"), ..PLAIN },
    Wrapper { name: "direnv", skip: 1, words: words!("exec"), ..PLAIN },
    Wrapper {
        name: "dotenv",
        values: words!("-f -e"),
        flags: words!("-o"),
        words: words!("run"),
        ..PLAIN
    },
    Wrapper {
        name: "ld.so",
        flags: words!("--inhibit-cache"),
        values: words!("--library-path --preload --argv0 --inhibit-rpath --audit"),
        starts_nothing: words!("--verify --list --help --version"),
        ..PLAIN
    },
];
