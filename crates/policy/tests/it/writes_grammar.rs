//! Random commands that write: the usual writers over a small tree with links in it.

use bailiwick_testkit::random::Random;

/// Generates commands. Every name starts with `z`, so that nothing else is changed by mistake.
pub(crate) struct Writers<'a> {
    random: &'a mut Random,
}

const FILES: [&str; 20] = [
    "zf1",
    "zf2",
    "zf3.txt",
    "znew",
    "zd1/za",
    "zd1/znew",
    "zd2/zsub/zc",
    "zl2",
    "zl1/za",
    "zl1/znew",
    "zl3/zo",
    "zl3/znew",
    "./zf1",
    "zd1/../zf2",
    "zl1/../zf1",
    "../zout/zo",
    "$PWD/zf1",
    "~/zh",
    "\"zg 4\"",
    "zd2//zb",
];
const DIRECTORIES: [&str; 14] = [
    "zd1",
    "zd2",
    "zd2/zsub",
    "zl1",
    "zl3",
    "znewd",
    "zd1/",
    "zl1/",
    "../zout",
    "zd1/../zd2",
    "$PWD/zd1",
    "~",
    "./zd2",
    "zl1/..",
];

impl<'a> Writers<'a> {
    pub(crate) fn new(random: &'a mut Random) -> Self {
        Self { random }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len())]
    }

    /// A word that names a file.
    fn file(&mut self) -> String {
        match self.random.below(14) {
            0 => "$x".to_owned(),
            1 => "\"$x\"".to_owned(),
            2 => "zd1/*".to_owned(),
            3 => "zf*".to_owned(),
            4 => "${x}".to_owned(),
            5 => "zd1/z{a,b}".to_owned(),
            _ => self.pick(&FILES).to_owned(),
        }
    }

    fn directory(&mut self) -> String {
        match self.random.below(10) {
            0 => "$d".to_owned(),
            1 => "\"$d\"".to_owned(),
            _ => self.pick(&DIRECTORIES).to_owned(),
        }
    }

    fn any(&mut self) -> String {
        if self.random.once_in(2) { self.file() } else { self.directory() }
    }

    /// One command that writes.
    fn writer(&mut self) -> String {
        let (first, second) = (self.file(), self.file());
        let (place, any_path) = (self.directory(), self.any());
        // Paths that must not be a directory above everything.
        let named = self.pick(&["zd1", "zd2", "zl1", "zd2/zsub", "znewd", "zf1", "zd1/za"]);
        match self.random.below(73) {
            0..=3 => format!("echo x > {first}"),
            4 => format!("echo x >> {first}"),
            5 => format!("echo x >| {first} 2>&1"),
            6 => format!("ls znone &> {first}"),
            7 => format!("echo x | tee {first} {second} > /dev/null"),
            8 => format!("echo x | tee -a {first} | cat > {second}"),
            9 => format!("cp {first} {second}"),
            10 => format!("cp {first} {place}"),
            11 => format!("cp {first} {second} {place}"),
            12 => format!("cp -r {} {place}", no_link(named)),
            13 => format!("cp -a {named}/. {place}"),
            14 => format!("cp -t {place} {first} {second}"),
            15 => format!("cp -rT {} {place}", no_link(named)),
            16 => format!("cp -b {first} {second}"),
            17 => format!("cp --parents zd2/zsub/zc {place}"),
            18 => format!("cp -s $PWD/zf1 {second}"),
            19 => format!("mv {first} {second}"),
            20 => format!("mv {named} {place}"),
            21 => format!("mv -t {place} {first}"),
            22 => format!("mv {first} {second} {place}"),
            23 => format!("rm {first}"),
            24 => format!("rm -rf {named} {first}"),
            25 => format!("rm -f -- {first} {second}"),
            26 => format!("rmdir {named}"),
            27 => "rmdir -p zd3/ze".to_owned(),
            28 => format!("unlink {first}"),
            29 => format!("install -m 600 {first} {second}"),
            30 => format!("install -d {place} znewd/zq"),
            31 => format!("install -D {first} zq/zr/zs"),
            32 => format!("install -t {place} {first}"),
            33 => format!("ln -s {first} {second}"),
            34 => format!("ln -s {place} znew"),
            35 => format!("ln -sf ../zout {first}"),
            36 => format!("ln {first} {second}"),
            37 => format!("ln -sfn {place} zl1"),
            38 => "ln -s zd1/za".to_owned(),
            39 => format!("sed -i s/a/b/ {first}"),
            40 => format!("sed -i.bak -e s/o/b/ {first} {second}"),
            41 => format!("sed -n 's/o/b/w zlog' {first}"),
            42 => format!("sed --in-place=z_* s/o/c/ {first}"),
            43 => format!("dd if=zf1 of={first} status=none"),
            44 => format!("touch {first} {second}"),
            45 => format!("truncate -s 1 {first}"),
            46 => format!("mkdir {any_path}"),
            47 => format!("mkdir -p {place}/zq/zr"),
            // No other command uses this name: opening it would wait forever.
            48 => "mkfifo .zpipe".to_owned(),
            49 => format!("chmod 600 {first}"),
            50 => format!("chmod -R u-w {named}"),
            51 => format!("chmod -x {first}"),
            52 => format!("tar xf ztar.tar -C {place}"),
            53 => "tar xf ztar.tar".to_owned(),
            54 => format!("tar -C {place} -xf $PWD/ztar.tar"),
            55 => format!("tar cf {first} zd1"),
            // In a loop, derived names would exceed the maximum length of a name.
            56 => format!("gzip -f {}", no_pattern(&first)),
            57 => format!("gzip -kf {} && gunzip -f zf1.gz", no_pattern(&first)),
            58 => format!("split -n 2 zf1 {place}/zx"),
            59 => format!("sort -o {first} zf1"),
            60 => format!("uniq zf1 {first}"),
            61 => format!("find {named} -type f -delete"),
            62 => format!("find {named} -type f -exec sed -i s/o/q/ {{}} +"),
            63 => format!("find {named} -fprint {first}"),
            64 => format!("patch -sf {first} < zpatch"),
            65 => {
                "patch -sf -p1 <<'E'\n--- a/zf1\n+++ b/zf1\n@@ -1 +1 @@\n-one\n+two\nE\n".to_owned()
            }
            66 => format!("truncate -cs 0 {first}"),
            67 => format!("find {named} -type f | xargs -r sed -i s/o/q/"),
            68 => format!("grep -rl one {named} 2> /dev/null | sort | xargs -r truncate -s 1"),
            69 => format!("touch $(find {named} -name za)"),
            70 => format!("for x in $(grep -rl one {named}); do echo y > $x\ndone"),
            71 => format!("x={first} d={place} sh -c \"cp zf1 \\$x; cp zf2 \\$d\""),
            _ => format!("rmdir {place}"),
        }
    }

    /// Changes the directory of the next command.
    fn moves(&mut self) -> String {
        let place = self.directory();
        match self.random.below(12) {
            0 => "cd ..".to_owned(),
            1 => "cd -".to_owned(),
            2 => "cd".to_owned(),
            3 => format!("pushd {place}"),
            4 => "popd".to_owned(),
            5 => format!("cd {place} || exit"),
            6 => format!("mkdir -p {place}; cd {place}"),
            7 => "cd znone".to_owned(),
            _ => format!("cd {place}"),
        }
    }

    fn sets(&mut self) -> String {
        let (file, place) = (self.pick(&FILES), self.pick(&DIRECTORIES));
        match self.random.below(9) {
            0 => "d=$(mktemp -d)".to_owned(),
            1 => "x=$(mktemp)".to_owned(),
            2 => format!("x={file}; x=${{x%1}}.k"),
            3 => format!("x=$(basename {file})"),
            4 => format!("d=$(dirname {file})"),
            5 => "d=$PWD".to_owned(),
            6 => format!("d={place}"),
            7 => format!("d={place}; x=$d/zn$((1+1))"),
            _ => format!("x={file}"),
        }
    }

    fn joint(&mut self) -> &'static str {
        self.pick(&["; ", " && ", " && ", " || ", "\n"])
    }

    /// A few commands.
    pub(crate) fn command(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.writer();
        }
        let depth = depth - 1;
        let inner = self.command(depth);
        // After a document only a new line may follow.
        let joint = if inner.ends_with('\n') { "" } else { self.joint() };
        match self.random.below(22) {
            0 => format!("( {inner}\n)"),
            1 => format!("{{ {inner}\n}}"),
            2 => format!("( {}{}{inner}\n)", self.moves(), self.joint()),
            3..=6 => format!("{}{}{inner}", self.moves(), self.joint()),
            7 | 8 => format!("{}; {inner}", self.sets()),
            9 => format!("for x in zf1 {}; do {inner}\ndone", self.file()),
            10 => format!("for x in zd1/* zf*; do {inner}\ndone"),
            11 => format!("for d in zd1 {}; do {inner}\ndone", self.directory()),
            12 => format!("if {}; then {inner}\nelse {}\nfi", self.moves(), self.writer()),
            13 => format!("f() {{ {inner}\n}}; {}; f", self.moves()),
            14 if !inner.contains(['\'', '\n']) => format!("bash -c '{inner}'"),
            15 => format!("f() {{ {}; }}; f; {inner}", self.moves()),
            16 => format!("x=zf2; while {}; do {inner}\nbreak; done", self.writer()),
            17 => format!("env -C {} {}", self.pick(&DIRECTORIES), self.writer()),
            18 => format!("ln -s {} zk; {inner}; echo y > zk/zq; echo y > zk", self.any()),
            19 => format!("{inner}{joint}{}", self.writer()),
            20 => format!("case z in z) {inner}\n;; esac"),
            _ => format!("{inner}{joint}{}", self.command(depth)),
        }
    }
}

fn no_pattern(file: &str) -> &str {
    if file.contains('*') { "zf1" } else { file }
}

/// An existing link is copied as a link, and a later copy into it goes to its target:
/// text cannot show this, and the gate inspects only the state before the command.
fn no_link(named: &str) -> &str {
    if named.contains("zl") { "zd1" } else { named }
}
