//! Random shell commands: everything that can hide a name, around names that are recorded.

use bailiwick_testkit::random::Random;

/// Makes commands.
pub(crate) struct Grammar<'a> {
    random: &'a mut Random,
}

impl<'a> Grammar<'a> {
    pub(crate) fn new(random: &'a mut Random) -> Self {
        Self { random }
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random.below(from.len())]
    }

    fn name(&mut self) -> &'static str {
        self.pick(&["gti", "s0", "s1", "s2", "s3", "s4", "push", "wipe", "echo", ":", "true", "cat"])
    }

    /// A name, written so that it is hard to see.
    fn disguised(&mut self) -> String {
        let name = self.name();
        if name.len() < 2 {
            return name.to_owned();
        }
        let (head, tail) = name.split_at(1);
        match self.random.below(16) {
            0 => format!("{head}''{tail}"),
            1 => format!("{head}\"{tail}\""),
            2 => format!("\\{head}{tail}"),
            3 => format!("'{head}'{tail}"),
            4 => format!("$'\\x{:02x}{tail}'", head.as_bytes()[0]),
            5 => format!("{head}\\\n{tail}"),
            6 => format!("$'\\{:03o}'{tail}", head.as_bytes()[0]),
            7 => format!("\"{head}\"'{tail}'"),
            8 => format!("{head}$(){tail}"),
            9 => format!("{head}${{none-{tail}}}"),
            10 => format!("{head}{{{tail},}}"),
            _ => name.to_owned(),
        }
    }

    fn argument(&mut self) -> String {
        match self.random.below(18) {
            0 => "gti".to_owned(),
            1 => "'a b'".to_owned(),
            2 => "\"$x\"".to_owned(),
            3 => "$x".to_owned(),
            4 => "${y:-gti}".to_owned(),
            5 => format!("$({})", self.simple(0)),
            6 => format!("`{}`", self.name()),
            7 => format!("<({})", self.simple(0)),
            8 => "*".to_owned(),
            9 => "{a,b}".to_owned(),
            10 => "\"${arr[@]}\"".to_owned(),
            11 => "~".to_owned(),
            12 => "$((1+2))".to_owned(),
            13 => format!("\"$({})\"", self.name()),
            14 => "# gti".to_owned(),
            15 => "\"$@\"".to_owned(),
            _ => "arg".to_owned(),
        }
    }

    fn arguments(&mut self) -> String {
        (0..self.random.below(3)).map(|_| format!(" {}", self.argument())).collect()
    }

    fn simple(&mut self, depth: usize) -> String {
        let depth = depth.saturating_sub(1);
        let name = self.disguised();
        let arguments = self.arguments();
        let plain = format!("{name}{arguments}");
        let inner = self.name();
        let quoted = plain.replace('\'', "'\\''");
        match self.random.below(62) {
            0 => format!("x={inner}"),
            1 => format!("x={inner} {plain}"),
            2 => format!("x={inner}; $x{arguments}"),
            3 => format!("arr=({inner} push); \"${{arr[@]}}\""),
            4 => format!("arr=({inner} push); ${{arr[0]}}"),
            5 => format!("f() {{ {plain}; }}; f{arguments}"),
            6 => format!("f() {{ \"$@\"; }}; f {plain}"),
            7 => format!("f() {{ $1 $2; }}; f {inner} x"),
            8 => format!("eval '{quoted}'"),
            9 => format!("eval \"{inner}\" push"),
            10 => format!("bash -c '{quoted}'"),
            11 => format!("sh -c '\"$@\"' name {inner}"),
            12 => format!("env {plain}"),
            13 => format!("env -i PATH=\"$PATH\" {inner}"),
            14 => format!("env -S '{inner} push'"),
            15 => format!("timeout 9 {plain}"),
            16 => format!("timeout -k 9 -s TERM 9 {inner}"),
            17 => format!("nice -n 1 {plain}"),
            18 => format!("nohup {inner}"),
            19 => format!("command {plain}"),
            20 => format!("command -v {inner}"),
            21 => format!("exec {inner}"),
            22 => format!("printf x | xargs {inner}"),
            23 => format!("printf x | xargs -I{{}} {inner} {{}}"),
            24 => format!("printf '{inner}\\n' | xargs"),
            25 => format!("find . -maxdepth 0 -exec {inner} {{}} \\;"),
            26 => format!("echo '{inner}' | bash"),
            27 => format!("bash <<< '{inner} x'"),
            28 => format!("bash <<'E'\n{plain}\nE"),
            29 => format!("cat <<E\n$({inner})\nE"),
            30 => format!("cat <<'E'\n$({inner})\nE"),
            31 => format!("trap '{inner}' EXIT"),
            32 => format!("{plain} > out"),
            33 => format!("{plain} &"),
            34 => format!("! {plain}"),
            35 => format!("x=a; y=$x{inner}; ${{y#a}}"),
            36 => format!("set -- {inner} push; \"$@\""),
            37 => format!("read x <<< {inner}; $x"),
            38 => format!("alias s0={inner}; s0"),
            39 => format!("export x={inner}; bash -c '$x'"),
            40 => format!("x={inner}; bash -c \"$x push\""),
            41 => format!("[[ -n $({inner}) ]]"),
            42 => format!("(( 1 )) && {inner}"),
            43 if depth > 0 => format!("( ({inner}) )"),
            44 => format!("x={inner}; f() {{ local x=s0; }}; f; $x"),
            45 => format!("readonly x={inner}; x=s0; $x"),
            46 => format!("f() {{ {inner}; }}; f=1; unset f; f"),
            47 => format!("x=s0; trap '$x' EXIT; x={inner}"),
            48 => format!("trap f EXIT; f() {{ {inner}; }}"),
            49 => format!("printf {inner} | xargs -I@ sh -c '@ push'"),
            50 => format!("declare -u x; x={inner}; $x"),
            51 => format!("declare -n r=x; x=s0; r={inner}; $x"),
            52 => format!(": {inner}; $_"),
            53 => format!("x={inner}; ( x=s0 ); $x"),
            54 => format!("x={inner}; x=s0 :; $x"),
            55 => format!("x=s0; false && x={inner}; $x"),
            56 => format!("x=s0; [ a = a ] && x={inner}; $x"),
            57 => format!("f() {{ x={inner}; }}; x=s0; f; $x"),
            58 => format!("x=({inner} s0); x[0]=s1; ${{x[0]}}"),
            59 => format!("IFS=x; y=s0x{inner}; $y"),
            _ => plain,
        }
    }

    fn list(&mut self, depth: usize) -> String {
        let count = 1 + self.random.below(3);
        let mut text = String::new();
        for index in 0..count {
            if index > 0 {
                text += self.pick(&["; ", " && ", " || ", " | ", "\n"]);
            }
            let command = self.command(depth);
            // Behind `&`, a comment or a document nothing but a new line may follow.
            let open = command.ends_with('&') || command.contains("# ") || command.contains("<<");
            text += &command;
            if open {
                text.push('\n');
                return text;
            }
        }
        text
    }

    /// A command.
    pub(crate) fn command(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.simple(2);
        }
        let depth = depth - 1;
        match self.random.below(14) {
            0 => format!("( {} )", self.list(depth)),
            1 => format!("{{ {}\n}}", self.list(depth)),
            2 => format!("if {}\nthen {}\nfi", self.list(depth), self.list(depth)),
            3 => format!(
                "if {}\nthen {}\nelse {}\nfi",
                self.list(depth),
                self.list(depth),
                self.list(depth)
            ),
            4 => format!("for x in {} {}; do {}\ndone", self.name(), self.name(), self.list(depth)),
            5 => format!("case x in y) {}\n;; *) {}\n;; esac", self.list(depth), self.list(depth)),
            6 => format!("f() {{ {}\n}}; f{}", self.list(depth), self.arguments()),
            7 => format!("n=0; while [ $n -lt 2 ]; do n=$((n+1)); {}\ndone", self.list(depth)),
            8 => self.list(depth),
            9 => format!("x={}; {}", self.name(), self.list(depth)),
            10 => format!("echo $({}\n)", self.list(depth)),
            _ => self.simple(2),
        }
    }
}
