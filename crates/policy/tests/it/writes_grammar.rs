//! Random commands that write: the usual writers over a small tree with links in it.

use bailiwick_testkit::random::Random;

/// Makes commands. Every name begins with `z`, so that nothing else is hit by mistake.
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

    /// A word that stands for a file.
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
        let (one, other) = (self.file(), self.file());
        let (place, any) = (self.directory(), self.any());
        // What may not be a directory above everything.
        let named = self.pick(&["zd1", "zd2", "zl1", "zd2/zsub", "znewd", "zf1", "zd1/za"]);
        match self.random.below(73) {
            0..=3 => format!("echo x > {one}"),
            4 => format!("echo x >> {one}"),
            5 => format!("echo x >| {one} 2>&1"),
            6 => format!("ls znone &> {one}"),
            7 => format!("echo x | tee {one} {other} > /dev/null"),
            8 => format!("echo x | tee -a {one} | cat > {other}"),
            9 => format!("cp {one} {other}"),
            10 => format!("cp {one} {place}"),
            11 => format!("cp {one} {other} {place}"),
            12 => format!("cp -r {} {place}", no_link(named)),
            13 => format!("cp -a {named}/. {place}"),
            14 => format!("cp -t {place} {one} {other}"),
            15 => format!("cp -rT {} {place}", no_link(named)),
            16 => format!("cp -b {one} {other}"),
            17 => format!("cp --parents zd2/zsub/zc {place}"),
            18 => format!("cp -s $PWD/zf1 {other}"),
            19 => format!("mv {one} {other}"),
            20 => format!("mv {named} {place}"),
            21 => format!("mv -t {place} {one}"),
            22 => format!("mv {one} {other} {place}"),
            23 => format!("rm {one}"),
            24 => format!("rm -rf {named} {one}"),
            25 => format!("rm -f -- {one} {other}"),
            26 => format!("rmdir {named}"),
            27 => "rmdir -p zd3/ze".to_owned(),
            28 => format!("unlink {one}"),
            29 => format!("install -m 600 {one} {other}"),
            30 => format!("install -d {place} znewd/zq"),
            31 => format!("install -D {one} zq/zr/zs"),
            32 => format!("install -t {place} {one}"),
            33 => format!("ln -s {one} {other}"),
            34 => format!("ln -s {place} znew"),
            35 => format!("ln -sf ../zout {one}"),
            36 => format!("ln {one} {other}"),
            37 => format!("ln -sfn {place} zl1"),
            38 => "ln -s zd1/za".to_owned(),
            39 => format!("sed -i s/a/b/ {one}"),
            40 => format!("sed -i.bak -e s/o/b/ {one} {other}"),
            41 => format!("sed -n 's/o/b/w zlog' {one}"),
            42 => format!("sed --in-place=z_* s/o/c/ {one}"),
            43 => format!("dd if=zf1 of={one} status=none"),
            44 => format!("touch {one} {other}"),
            45 => format!("truncate -s 1 {one}"),
            46 => format!("mkdir {any}"),
            47 => format!("mkdir -p {place}/zq/zr"),
            // Nobody else names it: who opens it would wait for ever.
            48 => "mkfifo .zpipe".to_owned(),
            49 => format!("chmod 600 {one}"),
            50 => format!("chmod -R u-w {named}"),
            51 => format!("chmod -x {one}"),
            52 => format!("tar xf ztar.tar -C {place}"),
            53 => "tar xf ztar.tar".to_owned(),
            54 => format!("tar -C {place} -xf $PWD/ztar.tar"),
            55 => format!("tar cf {one} zd1"),
            // In a loop, names of names would grow longer than a name can be.
            56 => format!("gzip -f {}", no_pattern(&one)),
            57 => format!("gzip -kf {} && gunzip -f zf1.gz", no_pattern(&one)),
            58 => format!("split -n 2 zf1 {place}/zx"),
            59 => format!("sort -o {one} zf1"),
            60 => format!("uniq zf1 {one}"),
            61 => format!("find {named} -type f -delete"),
            62 => format!("find {named} -type f -exec sed -i s/o/q/ {{}} +"),
            63 => format!("find {named} -fprint {one}"),
            64 => format!("patch -sf {one} < zpatch"),
            65 => {
                "patch -sf -p1 <<'E'\n--- a/zf1\n+++ b/zf1\n@@ -1 +1 @@\n-one\n+two\nE\n".to_owned()
            }
            66 => format!("truncate -cs 0 {one}"),
            67 => format!("find {named} -type f | xargs -r sed -i s/o/q/"),
            68 => format!("grep -rl one {named} 2> /dev/null | sort | xargs -r truncate -s 1"),
            69 => format!("touch $(find {named} -name za)"),
            70 => format!("for x in $(grep -rl one {named}); do echo y > $x\ndone"),
            71 => format!("x={one} d={place} sh -c \"cp zf1 \\$x; cp zf2 \\$d\""),
            _ => format!("rmdir {place}"),
        }
    }

    /// Something that changes where the next command is.
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
        let one = self.command(depth);
        // Behind a document nothing but a new line may follow.
        let joint = if one.ends_with('\n') { "" } else { self.joint() };
        match self.random.below(22) {
            0 => format!("( {one}\n)"),
            1 => format!("{{ {one}\n}}"),
            2 => format!("( {}{}{one}\n)", self.moves(), self.joint()),
            3..=6 => format!("{}{}{one}", self.moves(), self.joint()),
            7 | 8 => format!("{}; {one}", self.sets()),
            9 => format!("for x in zf1 {}; do {one}\ndone", self.file()),
            10 => format!("for x in zd1/* zf*; do {one}\ndone"),
            11 => format!("for d in zd1 {}; do {one}\ndone", self.directory()),
            12 => format!("if {}; then {one}\nelse {}\nfi", self.moves(), self.writer()),
            13 => format!("f() {{ {one}\n}}; {}; f", self.moves()),
            14 if !one.contains(['\'', '\n']) => format!("bash -c '{one}'"),
            15 => format!("f() {{ {}; }}; f; {one}", self.moves()),
            16 => format!("x=zf2; while {}; do {one}\nbreak; done", self.writer()),
            17 => format!("env -C {} {}", self.pick(&DIRECTORIES), self.writer()),
            18 => format!("ln -s {} zk; {one}; echo y > zk/zq; echo y > zk", self.any()),
            19 => format!("{one}{joint}{}", self.writer()),
            20 => format!("case z in z) {one}\n;; esac"),
            _ => format!("{one}{joint}{}", self.command(depth)),
        }
    }
}

fn no_pattern(file: &str) -> &str {
    if file.contains('*') { "zf1" } else { file }
}

/// A link that was there before is copied as a link, and what is then copied into the copy goes
/// where it leads: text cannot tell, and the gate looks only at what is there before the command.
fn no_link(named: &str) -> &str {
    if named.contains("zl") { "zd1" } else { named }
}
