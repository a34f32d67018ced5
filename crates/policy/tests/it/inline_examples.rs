//! Examples of code inside of shell commands.

use bailiwick_policy::shell::HiddenReason;

/// They run `git`; their requirements are available wherever these tests run.
pub(crate) const RUNS: [&str; 79] = [
    r#"python3 -c 'import os; os.system("git push")'"#,
    r#"python3 -c "import os; os.system('git push')""#,
    r#"python3 -c 'import subprocess; subprocess.run(["git", "push"])'"#,
    r#"python3 -c 'import subprocess as s; s.run(["git","push"], check=True)'"#,
    r#"python3 -c 'from subprocess import run; run(["git", "push"])'"#,
    r#"python3 -c 'from subprocess import run as r; r("git push", shell=True)'"#,
    r#"python3 -c 'from os import *; system("git push")'"#,
    r#"python3 -c 'import subprocess; cmd = "git"; subprocess.run([cmd, "push"])'"#,
    r#"python3 -c 'import subprocess; subprocess.check_output("gi" + "t push", shell=True)'"#,
    r#"python3 -c 'import subprocess; subprocess.Popen("git push".split()).wait()'"#,
    r#"python3 -c 'import subprocess; subprocess.call(("git", "push"))'"#,
    r#"python3 -c 'import subprocess, shlex; subprocess.call(shlex.split("git push"))'"#,
    r#"python3 -c '__import__("os").system("git push")'"#,
    r#"python3 -c 'getattr(__import__("os"), "sys" + "tem")("git push")'"#,
    r#"python3 -c 'import importlib; importlib.import_module("os").system("git push")'"#,
    r#"python3 -c 'import os; f = os.system; f("git push")'"#,
    r#"python3 -c 'import os; os.execvp("git", ["git", "push"])'"#,
    r#"python3 -c 'import os; os.execlp("git", "git", "push")'"#,
    r#"python3 -c 'import os; os.spawnlp(os.P_WAIT, "git", "git", "push")'"#,
    r#"python3 -c 'import os; print(os.popen("git push").read())'"#,
    r#"python3 -c 'import sys; sys.modules["os"].system("git push")'"#,
    r#"python3 -c 'exec("import os; os.system(\"git push\")")'"#,
    r#"python3 -c 'import subprocess
x = f"git push"
subprocess.getoutput(x)'"#,
    r#"python3 -c 'import asyncio
async def main():
    p = await asyncio.create_subprocess_exec("git", "push")
    await p.wait()
asyncio.run(main())'"#,
    r#"python3 -c 'import asyncio
async def main():
    p = await asyncio.create_subprocess_shell("git push")
    await p.wait()
asyncio.run(main())'"#,
    r##"python3 -c 'print("#"); import os; os.system("git push") # done'"##,
    r#"python3 -c 'x = '"'''"'
"quoted" # not a comment
'"'''"'; import os; os.system("git push")'"#,
    r#"python3 -c 'import subprocess
for f in ["a", "b"]:
    subprocess.run(["git", "add", f])'"#,
    r#"python3 -c 'import subprocess
args = ["git"]
args.append("push")
subprocess.run(args)'"#,
    r#"python3 -c 'import subprocess
subprocess.run(["python3", "-c", "import os; os.system(\"git push\")"])'"#,
    r#"python3 <<'E'
import subprocess
subprocess.run(["git", "push"])
E"#,
    "python3 - <<'E'
import os
os.system('git push')
E",
    "python3 - arg <<'E'
import os
os.system('git push')
E",
    r#"python3 <<< 'import os; os.system("git push")'"#,
    r#"perl -e 'system("git push")'"#,
    r#"perl -e 'system "git", "push"'"#,
    "perl -e 'system qw(git push)'",
    r#"perl -e 'exec "git push"'"#,
    "perl -e 'print `git push`'",
    "perl -e 'print qx(git push)'",
    "perl -e 'print qx{git push};'",
    r#"perl -e 'my $c = "git"; system("$c push")'"#,
    r#"perl -e 'my @c = ("git", "push"); system(@c)'"#,
    r#"perl -e 'my $x = "git " . "push"; system($x)'"#,
    r#"perl -e 'open(my $f, "-|", "git", "push"); print <$f>'"#,
    r#"perl -e 'open(F, "git push |"); print <F>'"#,
    r#"perl -e 'open F, "|git push"; close F'"#,
    r#"perl -e '$_ = "a"; s/a/`git push`/e'"#,
    r#"perl -e 'eval "system q(git push)"'"#,
    r##"perl -e 'print "# no comment"; system("git push")'"##,
    r#"perl -e '$x = 4 / 2; system("git push"); $y = 1 / 1'"#,
    r#"perl -E 'say 1; system("git push") if 1'"#,
    r#"perl -wle 'system("git push")'"#,
    r#"perl <<'E'
system("git push");
E"#,
    "perl -ne 'print' 'git push|'",
    r#"perl -e 'print "@{[`git push`]}"'"#,
    r#"perl -e 'print <<X; system("git push");
text "
X
'"#,
    r#"awk 'BEGIN { system("git push") }'"#,
    r#"awk 'BEGIN { "git push" | getline x; print x }'"#,
    r#"awk 'BEGIN { print "x" | "git push" }'"#,
    r#"awk 'BEGIN { cmd = "git push"; system(cmd) }'"#,
    "awk -v c='git push' 'BEGIN { system(c) }'",
    r#"awk 'BEGIN { x = "a/b"; split(x, p, /\//); system("git " "push") }'"#,
    r#"awk -F: 'BEGIN { while (("git push" | getline line) > 0) print line }'"#,
    r#"echo a | awk '{ print $1 | "git push" }'"#,
    "sed '1e git push' <<< a",
    "sed -n '1{e git push
}' <<< a",
    r#"bash -c 'python3 -c "import os; os.system(\"git push\")"'"#,
    "cat > x.sh <<'E'
git push
E
bash x.sh",
    r"printf '#!/bin/sh\ngit push\n' > x; sh ./x",
    "echo 'git push' > x.sh; . ./x.sh",
    "echo 'git push' > x.sh && source ./x.sh",
    r#"cat > x.py <<'E'
import os
os.system("git push")
E
python3 x.py"#,
    r#"cat > x.pl <<'E'
system("git push");
E
perl x.pl"#,
    r#"printf '%s\n' 'import os' 'os.system("git push")' > a.py && python3 a.py"#,
    "tee x.sh <<'E' > /dev/null
git push
E
sh x.sh",
    "echo 'git push' > x.sh; cp x.sh y.sh; sh y.sh",
    r#"echo 'BEGIN { system("git push") }' > x.awk; awk -f x.awk"#,
    "echo '1e git push' > x.sed; sed -f x.sed <<< a",
];

/// They run `git` too, with interpreters that may be missing.
pub(crate) const RUNS_WITH_OPTIONAL_INTERPRETERS: [&str; 97] = [
    r#"node -e 'require("child_process").execSync("git push")'"#,
    r#"node -e 'pub(crate) const {execSync: e} = require("node:child_process"); e("git push")'"#,
    r#"node -e 'pub(crate) const cp = require("child_process"); cp.exec("git push")'"#,
    r#"node -e 'pub(crate) const cp = require("child_process"); cp.spawn("git", ["push"], {stdio: "inherit"})'"#,
    r#"node --eval 'pub(crate) const { spawnSync } = require("child_process"); spawnSync("git", ["push"])'"#,
    r#"node -e 'require("child_process")["exec" + "Sync"]("git push")'"#,
    r#"node -p 'require("child_process").execSync(`git push`).toString()'"#,
    r#"node -e 'if (1) /"/.test("x"); require("child_process").execSync("git push") // "'"#,
    r#"node --input-type=module -e 'import { execSync } from "node:child_process"; execSync("git push")'"#,
    r#"node --input-type=module -e 'import * as cp from "child_process"; cp.exec("git push")'"#,
    r#"node -e 'import("child_process").then(c => c.execSync("git push"))'"#,
    r#"node -e 'console.log(`${require("child_process").execSync("git push")}`)'"#,
    r#"node -e 'eval("require(\"child_process\").execSync(\"git push\")")'"#,
    "node <<'E'
pub(crate) const { execFileSync } = require('child_process');
execFileSync('git', ['push']);
E",
    "node - <<'E'
require('child_process').execSync('git push')
E",
    r#"bun -e 'Bun.spawnSync(["git", "push"])'"#,
    r#"bun -e 'import { $ } from "bun"; await $`git push`'"#,
    r#"deno eval 'new Deno.Command("git", { args: ["push"] }).outputSync()'"#,
    r#"deno eval 'Deno.run({ cmd: ["git", "push"] })'"#,
    r#"ruby -e 'system("git push")'"#,
    r#"ruby -e 'system "git", "push"'"#,
    "ruby -e 'puts `git push`'",
    "ruby -e 'puts %x(git push)'",
    r#"ruby -e 'exec "git push"'"#,
    r#"ruby -e 'IO.popen(["git", "push"]) { |f| puts f.read }'"#,
    r#"ruby -ropen3 -e 'Open3.capture3("git", "push")'"#,
    r#"ruby -e 'open("|git push") { |f| f.read }'"#,
    r#"ruby -e 'Kernel.send(:system, "git push")'"#,
    r#"ruby -e 'spawn({"A" => "b"}, "git", "push")'"#,
    r##"ruby -e 'c = "git"; system("#{c} push")'"##,
    r##"ruby -e 'puts "#{`git push`}"'"##,
    r#"php -r 'shell_exec("git push");'"#,
    "php -r 'echo `git push`;'",
    r#"php -r '$c = "git"; system($c . " push");'"#,
    r#"php -r '$f = "system"; $f("git push");'"#,
    r#"php -r 'call_user_func("exec", "git push");'"#,
    r#"php -r 'proc_open(["git", "push"], [], $p);'"#,
    "php <<'E'
<?php passthru('git push');
E",
    r#"lua -e 'os.execute("git push")'"#,
    r#"lua5.4 -e 'io.popen("git " .. "push"):read("a")'"#,
    r#"lua -e 'os["execute"]("git push")'"#,
    r#"Rscript -e 'system("git push")'"#,
    r#"Rscript -e 'system2("git", c("push"))'"#,
    "tclsh <<'E'
exec git push
E",
    "tclsh <<'E'
puts [exec git push]
E",
    "expect -c 'spawn git push'",
    r#"gawk 'BEGIN { "git push" |& getline x }'"#,
    r#"gawk -e 'BEGIN { system("git push") }'"#,
    "vim -c '!git push' -c q file",
    "vim -es -c ':%!git push' -c 'wq' file",
    r#"nvim --headless +'call system("git push")' +qa"#,
    "vim -c 'r !git push' -c 'q!'",
    "ex -s file <<'E'
!git push
E",
    "ed -s file <<'E'
!git push
q
E",
    r#"emacs --batch --eval '(shell-command "git push")'"#,
    r#"emacs -batch -eval '(call-process "git" nil nil nil "push")'"#,
    r#"groovy -e '"git push".execute()'"#,
    "julia -e 'run(`git push`)'",
    r#"ghc -e 'System.Process.callCommand "git push"'"#,
    r#"osascript -e 'do shell script "git push"'"#,
    "pwsh -c 'git push'",
    "make -f - <<'E'
all:
	git push
E",
    "make --eval='$(shell git push)'",
    "cat > Makefile <<'E'
GIT = git
all: build
	@$(GIT) push
E
make all",
    "tar cf /dev/null x --checkpoint=1 --checkpoint-action=exec='git push'",
    "tar xf a.tar --to-command='git push'",
    "tar -I 'git push' -xf a.tar",
    "rsync -e 'git push' a b:c",
    "ssh -o ProxyCommand='git push' host",
    "gdb -batch -ex 'shell git push'",
    "gdb -batch -ex '!git push' ./x",
    "sqlite3 x.db '.shell git push'",
    "man -P 'git push' ls",
    "at now <<'E'
git push
E",
    "crontab - <<'E'
* * * * * git push
E",
    "hyperfine 'git push'",
    "uv run git push",
    r#"uv run python -c 'import os; os.system("git push")'"#,
    "poetry run git push",
    r#"npx -y tsx -e 'require("child_process").execSync("git push")'"#,
    r#"bundle exec ruby -e 'system("git push")'"#,
    "chroot / git push",
    "unshare -r git push",
    "taskset -c 0 git push",
    "systemd-run --user git push",
    "xvfb-run -a git push",
    "unbuffer git push",
    "valgrind --leak-check=full git push",
    "perf stat -e cycles git push",
    "parallel git ::: push",
    "ls | entr git push",
    "ls | entr -s 'git push'",
    "cat > run.sh <<'E'
#!/usr/bin/env bash
git push
E
chmod +x run.sh && ./run.sh",
    r#"cat > run <<'E'
#!/usr/bin/env python3
import subprocess
subprocess.run(["git", "push"])
E
chmod +x run; ./run"#,
    r#"pypy3 -c 'import os; os.system("git push")'"#,
    r#"python3 -Bc 'import os; os.system("git push")'"#,
    r#"GIT_EDITOR=true python3 -X dev -c 'import os; os.system("git push")'"#,
];

/// They hide something, for this reason.
pub(crate) const HIDDEN: [(HiddenReason, &str); 54] = [
    (HiddenReason::ComputedText, r#"python3 -c "$code""#),
    (
        HiddenReason::ComputedText,
        r#"python3 -c 'import base64; exec(base64.b64decode("aW1wb3J0IG9z"))'"#,
    ),
    (HiddenReason::ComputedText, "python3 -c 'exec(chr(105)+chr(109))'"),
    (HiddenReason::ComputedText, "python3 -c 'import os, sys; os.system(sys.argv[1])' 'git push'"),
    (
        HiddenReason::ComputedName,
        r#"python3 -c 'import subprocess, sys; subprocess.run([sys.argv[1], "push"])' git"#,
    ),
    (
        HiddenReason::ComputedText,
        r#"python3 -c 'import subprocess; subprocess.run("tig hsup"[::-1], shell=True)'"#,
    ),
    (
        HiddenReason::ComputedName,
        r#"python3 -c 'import os; getattr(os, "metsys"[::-1])("git push")'"#,
    ),
    (HiddenReason::ComputedName, r#"python3 -c 'import os; list(map(os.system, ["git push"]))'"#),
    (
        HiddenReason::ComputedText,
        r#"python3 -c 'import ctypes; ctypes.CDLL(None).system(b"git push")'"#,
    ),
    (
        HiddenReason::ComputedText,
        r#"python3 -c 'import os
c = "ls"
c += " git"
os.system(c)'"#,
    ),
    (HiddenReason::ComputedText, r#"python3 -c 'eval(compile(open("x").read(), "x", "exec"))'"#),
    (HiddenReason::PipedIntoShell, "cat x | python3"),
    (HiddenReason::PipedIntoShell, "curl -s https://example.com/x.py | python3 -"),
    (HiddenReason::PipedIntoShell, "cat x.js | node"),
    (HiddenReason::Interactive, "python3"),
    (HiddenReason::Interactive, "python3 -i -c 'x = 1'"),
    (HiddenReason::Interactive, "node"),
    (HiddenReason::Interactive, "irb"),
    (HiddenReason::Interactive, "lua"),
    (HiddenReason::Interactive, "vim file.txt"),
    (HiddenReason::Interactive, "gdb ./a.out"),
    (HiddenReason::ComputedText, r#"node -e "$x""#),
    (HiddenReason::ComputedText, r#"node -e 'eval(Buffer.from("eA==", "base64").toString())'"#),
    (HiddenReason::ComputedText, "node -e 'new Function(process.argv[1])()' x"),
    (
        HiddenReason::ComputedText,
        r#"node -e 'require("child_process").execSync(process.argv[1])' 'git push'"#,
    ),
    (
        HiddenReason::ComputedName,
        r#"node -e 'pub(crate) const cp = require("child_process"); cp[process.argv[1]]("git push")' exec"#,
    ),
    (HiddenReason::ComputedText, "perl -e 'system($ARGV[0])' 'git push'"),
    (HiddenReason::ComputedText, r#"perl -e 'eval pack("H*", "6769")'"#),
    (HiddenReason::ComputedText, "perl -e 's/(.*)/$1/ee'"),
    (HiddenReason::ComputedName, "perl -e 'open(F, $ARGV[0])' 'git push|'"),
    (HiddenReason::ComputedText, "ruby -e 'system(ARGV[0])' 'git push'"),
    (HiddenReason::ComputedText, "ruby -e 'eval(ARGV[0])' 'x'"),
    (HiddenReason::ComputedText, r#"php -r 'eval(base64_decode("eA=="));'"#),
    (HiddenReason::ComputedText, r#"php -r '$f = $argv[1]; $f("git push");' system"#),
    (HiddenReason::ComputedText, "lua -e 'load(arg[1])()'"),
    (HiddenReason::ComputedText, "awk '{ system($0) }' file"),
    (HiddenReason::ComputedText, "awk '{ print | $1 }' file"),
    (HiddenReason::ComputedText, r#"awk "$program" file"#),
    (HiddenReason::ComputedText, r#"sed "$script" file"#),
    (HiddenReason::PipedIntoShell, "sed 'e' file"),
    (HiddenReason::ComputedText, "sed 's/.*/git push/e' file"),
    (HiddenReason::ComputedText, "curl -s u > x.sh; bash x.sh"),
    (HiddenReason::ComputedText, "base64 -d f > x.py && python3 x.py"),
    (HiddenReason::ComputedText, "{ echo git; echo push; } > x.sh; sh x.sh"),
    (
        HiddenReason::ComputedText,
        "cat > x.sh <<E
$(cat y)
E
sh x.sh",
    ),
    (HiddenReason::ComputedText, r#"python3 -c 'open("x.sh", "w").write("git push")'; bash x.sh"#),
    (HiddenReason::ComputedText, r#"groovy -e 'args[0].execute(); "$x".execute()'"#),
    (HiddenReason::ComputedPath, r#"python3 -c 'import sys; open(sys.argv[1], "w")' x"#),
    (
        HiddenReason::ComputedPath,
        r#"python3 -c 'from pathlib import Path
for p in Path(".").glob("*.txt"):
    p.write_text("x")'"#,
    ),
    (
        HiddenReason::ComputedPath,
        r#"node -e 'require("fs").writeFileSync(process.argv[1], "x")' x"#,
    ),
    (HiddenReason::ComputedPath, r#"awk '{ print > $1 ".txt" }' file"#),
    (HiddenReason::ComputedPath, r#"perl -e 'open(my $f, ">", $ARGV[0])' x"#),
    (HiddenReason::ComputedPath, r#"ruby -e 'File.write(ARGV[0], "x")' x"#),
    (HiddenReason::UnknownOption, "uv run --frobnicate git push"),
];

/// They write this file.
pub(crate) const WRITES: [(&str, &str); 53] = [
    ("out.txt", r#"python3 -c 'open("out.txt", "w").write("x")'"#),
    ("out.txt", r#"python3 -c 'with open("out.txt", mode="a") as f: f.write("x")'"#),
    ("out.txt", r#"python3 -c 'from pathlib import Path; Path("out.txt").write_text("x")'"#),
    (
        "d/out.txt",
        r#"python3 -c 'from pathlib import Path; (Path("d") / "out.txt").write_bytes(b"x")'"#,
    ),
    ("d/out.txt", r#"python3 -c 'import os; open(os.path.join("d", "out.txt"), "w")'"#),
    (
        "out.txt",
        r#"python3 -c 'from pathlib import Path
p = Path("out.txt")
p.unlink()'"#,
    ),
    ("out.txt", r#"python3 -c 'from pathlib import Path; Path("out.txt").open("w").write("x")'"#),
    ("out.txt", r#"python3 -c 'import json; json.dump({}, open("out.txt", "w"))'"#),
    ("out.txt", r#"python3 -c 'import os; os.remove("out.txt")'"#),
    ("out.txt", r#"python3 -c 'import os; os.rename("a", "out.txt")'"#),
    ("out.txt", r#"python3 -c 'import shutil; shutil.copy("a", "out.txt")'"#),
    ("out.txt", r#"python3 -c 'import shutil; shutil.rmtree("out.txt")'"#),
    ("out.txt", r#"python3 -c 'import os; os.makedirs("out.txt", exist_ok=True)'"#),
    (
        "out.txt",
        r#"python3 - <<'E'
p = "out.txt"
s = open(p).read()
s = s.replace("a", "b")
open(p, "w").write(s)
E"#,
    ),
    (
        "out.txt",
        r#"python3 - <<'E'
import pathlib
p = pathlib.Path("out.txt")
p.write_text(p.read_text().replace("a", "b"))
E"#,
    ),
    ("out.txt", r#"node -e 'require("fs").writeFileSync("out.txt", "x")'"#),
    ("out.txt", r#"node -e 'pub(crate) const fs = require("fs"); fs.rm("out.txt", () => {})'"#),
    (
        "out.txt",
        r#"node -e 'pub(crate) const fs = require("fs/promises"); fs.appendFile("out.txt", "x")'"#,
    ),
    (
        "out.txt",
        r#"node -e 'pub(crate) const { renameSync } = require("fs"); renameSync("a", "out.txt")'"#,
    ),
    ("out.txt", r#"node -e 'fs.createWriteStream("out.txt")'"#),
    ("out.txt", r#"bun -e 'await Bun.write("out.txt", "x")'"#),
    ("out.txt", r#"deno eval 'Deno.writeTextFileSync("out.txt", "x")'"#),
    ("out.txt", r#"perl -e 'open(my $f, ">", "out.txt"); print $f 1'"#),
    ("out.txt", r#"perl -e 'open F, ">>out.txt"'"#),
    ("out.txt", r#"perl -e 'unlink "out.txt"'"#),
    ("out.txt", r#"perl -e 'rename "a", "out.txt" or die'"#),
    ("out.txt", "perl -pi -e 's/a/b/' out.txt"),
    ("out.txt", "perl -i.bak -ne 'print unless /x/' out.txt"),
    ("out.txt", "perl -0777 -pi -e 's/a/b/g' out.txt"),
    ("out.txt", r#"ruby -e 'File.write("out.txt", "x")'"#),
    ("out.txt", r#"ruby -e 'File.open("out.txt", "w") { |f| f.puts 1 }'"#),
    ("out.txt", r#"ruby -rfileutils -e 'FileUtils.rm_rf("out.txt")'"#),
    ("out.txt", r#"ruby -i -pe 'gsub(/a/, "b")' out.txt"#),
    ("out.txt", r#"php -r 'file_put_contents("out.txt", "x");'"#),
    ("out.txt", r#"php -r '$f = fopen("out.txt", "w");'"#),
    ("out.txt", r#"lua -e 'io.open("out.txt", "w"):write("x")'"#),
    ("out.txt", r#"lua -e 'os.remove("out.txt")'"#),
    ("out.txt", r#"Rscript -e 'write.csv(x, "out.txt")'"#),
    ("out.txt", r#"awk '{ print > "out.txt" }' file"#),
    ("out.txt", r#"awk '{ printf "%s\n", $1 >> "out.txt" }' file"#),
    ("out.txt", "gawk -i inplace '{ print }' out.txt"),
    ("out.txt", "sed -n 'w out.txt' file"),
    ("out.txt", "sed -n '/x/w out.txt' file"),
    ("out.txt", "sed 's/a/b/w out.txt' file"),
    ("out.txt", "sed -i 's/a/b/' out.txt"),
    ("out.txt", "sed -i.bak -e 's/a/b/' -e 's/c/d/' out.txt"),
    ("out.txt", "sed -Ei 's/(a)/b/' out.txt"),
    ("out.txt", "sed --in-place 's/a/b/' out.txt"),
    ("out.txt", "vim -c 's/a/b/' -c wq out.txt"),
    ("out.txt", "vim -es -c 'w out.txt' -c q file"),
    (
        "out.txt",
        "ed -s out.txt <<'E'
1d
w
q
E",
    ),
    ("out.txt", r#"emacs --batch --eval '(write-region "x" nil "out.txt")'"#),
    (
        "out.txt",
        "tclsh <<'E'
set f [open out.txt w]
E",
    ),
];

/// They run no `git`, hide nothing, and write nothing except by a redirection.
pub(crate) const NOTHING: [&str; 115] = [
    r#"python3 -c 'print("git push")'"#,
    "python3 -c 'print(1 + 1)'",
    r#"python3 -c 'import os; print(os.environ.get("HOME"))'"#,
    r#"python3 -c 'import os; print(os.path.exists("x"), os.getcwd(), os.listdir("."))'"#,
    r#"python3 -c 'import json, sys; print(json.load(sys.stdin)["x"])' < x.json"#,
    r#"curl -s u | python3 -c 'import json, sys; print(json.load(sys.stdin)["x"])'"#,
    "curl -s u | python3 -m json.tool",
    r#"cat x | python3 -c 'import sys
for line in sys.stdin:
    print(line.strip().split(",")[0])'"#,
    r#"python3 -c 'print(open("x").read())'"#,
    r#"python3 -c 'with open("x", "rb") as f: print(len(f.read()))'"#,
    r#"python3 -c 'from pathlib import Path; print(Path("x").read_text())'"#,
    "python3 -c 'import platform; print(platform.system())'",
    r#"python3 -c 'import re; print(re.compile(r"\d+").findall("a1"))'"#,
    "python3 -c 'import sys; sys.exit(0)'",
    "python3 -c 'import torch; model = None; model.eval()'",
    "python3 -c 'import numpy; print(numpy.__version__)'",
    r#"python3 -c 'import ast; ast.parse(open("x.py").read())'"#,
    r#"python3 -c 'import collections, csv; print(collections.Counter(r[0] for r in csv.reader(open("x.csv"))))'"#,
    r#"python3 -c 'x = "a-b".replace("-", "_"); print(x)'"#,
    r#"python3 -c 'import yaml; yaml.safe_load(open("x.yml"))'"#,
    r#"python3 -c 'print("os.system(\"git push\")")'"#,
    r#"python3 -c '# os.system("git push")
print(1)'"#,
    r#"python3 -c '"""os.system("git push")"""
print(1)'"#,
    r#"python3 - <<'E'
import json
data = json.load(open("x"))
for key, value in sorted(data.items()):
    print(f"{key}: {value['name']!r:>10}")
E"#,
    r#"python3 - <<'E'
import asyncio
async def main():
    print("git push")
asyncio.run(main())
E"#,
    r#"python3 - <<'E'
import sqlite3
c = sqlite3.connect("x.db").cursor()
c.execute("select 1")
print(c.fetchall())
E"#,
    r#"python3 - <<'E'
import ast, sys
class Finder(ast.NodeVisitor):
    def visit_Call(self, node):
        if getattr(node.func, "attr", None) == "system":
            print("system")
        getattr(self, "visit_" + type(node).__name__, self.generic_visit)
E"#,
    "python3 -m pytest -q",
    "python3 -m http.server 8000",
    "python3 -m venv .venv",
    "python3 -m pip install x",
    "python3 script.py --flag",
    "python3 --version",
    "python3 -V",
    "uv run pytest -x",
    "uv run python -c 'print(1)'",
    "poetry run pytest",
    "npx tsc --noEmit",
    "npx -y prettier --check .",
    "node -e 'console.log(1)'",
    r#"node -e 'console.log("child_process.exec")'"#,
    "node -p 'process.version'",
    r#"node -p 'require("./package.json").version'"#,
    r#"node -e 'pub(crate) const m = /a(b)/.exec("ab"); console.log(m[1])'"#,
    r#"node -e 'console.log(require("fs").readFileSync("x", "utf8").split("\n").length)'"#,
    r#"node -e 'JSON.parse(require("fs").readFileSync(0)).forEach(x => console.log(x.name.replace(/"/g, "")))' < x"#,
    r#"node -e 'for (pub(crate) const f of require("fs").readdirSync(".")) console.log(f, 4 / 2 / 1)'"#,
    r#"node -e '
// execSync("git push")
/* spawn("git") */
pub(crate) const s = `a ${1 + 1} b`;
console.log(s);
'"#,
    "node script.js",
    "node --check x.js",
    "node --version",
    "perl -ne 'print if /git/'",
    "perl -ne 'print if /git push/' file",
    "perl -pe 's/git push/x/g' file",
    "perl -lane 'print $F[0]' file",
    "perl -MJSON -e 'print 1'",
    r#"perl -e 'open(my $f, "<", $ARGV[0]) or die; while (<$f>) { print }' x"#,
    r#"perl -e 'print "system(1)"; # system("git push")'"#,
    "perl -e 'my %h = (system => 1, exec => 2); print $h{system}'",
    r#"perl -0777 -ne 'print "$1\n" while /"(.*?)"/g' file"#,
    r#"perl -e 'eval { die "x" }; print $@'"#,
    r#"perl -e 'printf "%d\n", 10 / 3'"#,
    "perl -v",
    "ruby -e 'puts 1'",
    "ruby -ne 'puts $_ if /git/' file",
    r#"ruby -rjson -e 'puts JSON.parse(File.read("x"))["a"]'"#,
    r#"ruby -e 'puts "system git push"'"#,
    "php -l x.php",
    "awk '/git push/' file",
    "awk '{ print $1 }' file",
    "awk -F: '$3 > 1000 { print $1 }' /etc/passwd",
    r#"awk '{ if ($1 > 2 || $2 == "x") print $1, $2 }' file"#,
    "awk 'NR==FNR { a[$1] = $2; next } $1 in a { print a[$1] }' x y",
    "awk '{ sum += $1 } END { print sum / NR }' file",
    r#"awk '{ print ($1 > 2) ? "a" : "b" }' file"#,
    r#"awk '{ print "x" > "/dev/stderr" }' file"#,
    r#"awk "NR==$n" file"#,
    r#"awk -v n="$n" 'NR == n { print }' file"#,
    r#"awk '{ gsub(/"/, ""); print }' file"#,
    r#"awk 'BEGIN { printf "%s|%s\n", "a", "b" }'"#,
    "awk '$0 ~ /^a|b$/ { print substr($0, 1, 5) }' file",
    "sed -n '1,5p' file",
    "sed 's/git push/x/' file",
    "sed -e 's/a/b/g' -e '/x/d' file",
    r#"sed -n "${n}p" file"#,
    r#"sed "s/x/$y/" file"#,
    r#"sed -n "$((n - 5)),$((n + 5))p" file"#,
    "sed 's|/a/b|/c/d|g; s/[/]/x/' file",
    r"sed -E 's/(a|b)+/\1/; /^#/d; $!N; y/abc/xyz/' file",
    "sed '/we/,/there/!d' file",
    "sed '1i we write text' file",
    "sed -n '/start/,/end/{/start/d;p}' file",
    r"sed ':a;N;$!ba;s/\n/ /g' file",
    "vim --version",
    "emacs --version",
    "tar czf /tmp/x.tar.gz src",
    "tar -xf x.tar -C d",
    "rsync -av a/ b/",
    "ssh host git push",
    "make test",
    "sqlite3 x.db 'select 1'",
    "gdb -batch -ex run -ex bt ./a.out",
    r#"cat > notes.py <<'E'
import os
os.system("git push")
E"#,
    "echo 'print(1)' > x.py; python3 x.py",
    r#"cat > t.sh <<'E'
#!/bin/bash
set -e
echo "hello"
ls -la
E
chmod +x t.sh && ./t.sh"#,
    "gcc main.c -o main && ./main",
    "deno run main.ts",
    "bun test",
    "bun run build",
    r#"for f in a b; do python3 -c 'import sys; print(sys.argv[1])' "$f"; done"#,
    "taskset -c 0 ls",
    "hyperfine --warmup 3 'ls -l'",
    "conda run -n env pytest",
    "yarn exec tsc",
    r#"python3 - <<'E'
import subprocess
subprocess.run(["ls", "-la"], check=True)
print(subprocess.check_output("cargo test 2>&1 | tail -3", shell=True, text=True))
E"#,
];

/// They try to run `git` unnoticed.
pub(crate) const EVASIVE: [&str; 150] = [
    r#"python3 -c 'import os as o; o.__dict__["system"]("git push")'"#,
    r#"python3 -c 'import os; vars(os)["system"]("git push")'"#,
    r#"python3 -c 'import os
def f(c): os.system(c)
f("git push")'"#,
    r#"python3 -c 'import os; (lambda c: os.system(c))("git push")'"#,
    r#"python3 -c 'import os; [os.system][0]("git push")'"#,
    r#"python3 -c 'import subprocess; subprocess.run(args=["git","push"])'"#,
    r#"python3 -c 'import subprocess; subprocess.run(*[["git","push"]])'"#,
    r#"python3 -c 'import subprocess; subprocess.run(**{"args": ["git","push"]})'"#,
    r#"python3 -c 'import subprocess; r = subprocess; r.run(["git","push"])'"#,
    r#"python3 -c 'from os import system as s; s("git push")'"#,
    r#"python3 -c 'import os
getattr(os, "system")("git push")'"#,
    r#"python3 -c 'import os.path as p; p.os.system("git push")'"#,
    r#"python3 -c 'import shutil; shutil.os.system("git push")'"#,
    r#"python3 -c 'import builtins; getattr(builtins, "ex"+"ec")("import os; os.system(\"git push\")")'"#,
    r#"python3 -c 'import posix; posix.system("git push")'"#,
    r#"python3 -c 'import pty; pty.spawn(["git","push"])'"#,
    r#"python3 -c 'import multiprocessing, os; multiprocessing.Process(target=os.system, args=("git push",)).start()'"#,
    r#"python3 -c 'import threading, subprocess; threading.Thread(target=subprocess.run, args=(["git","push"],)).start()'"#,
    r#"python3 -c 'globals()["__builtins__"].__import__("os").system("git push")'"#,
    r#"python3 -c '().__class__.__bases__[0].__subclasses__()[140].__init__.__globals__["system"]("git push")'"#,
    r#"python3 -c 'import os; x = os.system
x("git push")'"#,
    r#"python3 -c 'import os; os . system ( "git push" )'"#,
    r#"python3 -c 'import os; (os.system)("git push")'"#,
    r#"python3 -c 'import os; os.system(*["git push"])'"#,
    r#"python3 -c 'import os; os.system("git " "push")'"#,
    r#"python3 -c 'import os; os.system("%s push" % "git")'"#,
    r#"python3 -c 'import os; os.system("{} push".format("git"))'"#,
    r#"python3 -c 'import os; c="git"; os.system(f"{c} push")'"#,
    r#"python3 -c "import os; os.system('''git push''')""#,
    r#"python3 -c 'from subprocess import *; run(["git","push"])'"#,
    r#"python3 -c 'from subprocess import (
 run,
 Popen as P)
P(["git","push"])'"#,
    r#"python3 -c 'import sh; sh.git("push")'"#,
    r#"python3 -c 'import pexpect; pexpect.spawn("git push")'"#,
    r#"python3 -c 'import git; git.Repo(".").remote().push()'"#,
    r#"python3 -c 'import os;os.system("git push");"\
"'"#,
    r#"python3 -c 'from importlib import import_module as i; i("os").system("git push")'"#,
    r#"python3 -c 'import importlib; m = importlib.import_module("sub"+"process"); m.run(["git","push"])'"#,
    r#"python3 -c 'm = __import__("subprocess"); m.run(["git","push"])'"#,
    r#"node -e 'const c = require("child_"+"process"); c.execSync("git push")'"#,
    r#"node -e 'process.mainModule.require("child_process").execSync("git push")'"#,
    r#"node -e 'globalThis["eval"]("require(\"child_process\").execSync(\"git push\")")'"#,
    r#"node -e 'const {exec} = require("child_process"); exec("git push", (e,o) => console.log(o))'"#,
    r#"node -e 'const util = require("util"); const exec = util.promisify(require("child_process").exec); exec("git push")'"#,
    r#"node -e 'require("child_process").exec.call(null, "git push")'"#,
    r#"node -e 'const f = require("child_process").execSync; f("git push")'"#,
    r#"node -e 'let cp; cp = require("child_process"); cp.exec("git push")'"#,
    r#"node -e 'require("child_process").spawn("sh", ["-c", "git push"])'"#,
    r#"node -e '(async()=>{const {execSync}=await import("node:child_process");execSync("git push")})()'"#,
    r#"node -e 'const a = 1 /2; const b = "x"; require("child_process").execSync("git push") /2'"#,
    r#"node -e 'x = a++ /"/; require("child_process").execSync("git push"); y = "/"'"#,
    r#"node -e '[].constructor.constructor("return process")().mainModule.require("child_process").execSync("git push")'"#,
    r#"node -e 'require("module")._load("child_process").execSync("git push")'"#,
    r#"perl -e 'my $c="system"; &$c("git push")'"#,
    r#"perl -e '&{"system"}("git push")'"#,
    r#"perl -e 'CORE::system("git push")'"#,
    r#"perl -e 'system {"git"} "git", "push"'"#,
    r#"perl -e 'print `$ARGV[0]`' "git push""#,
    r#"perl -e 'my ($a,$b)=("git","push"); system($a,$b)'"#,
    r#"perl -e 'foreach my $c ("git push") { system $c }'"#,
    r#"perl -e 'system(join(" ", "git", "push"))'"#,
    r#"perl -e 'use POSIX; POSIX::system("git push")'"#,
    r#"perl '-Mstrict;system("git push")' -e 1"#,
    r#"perl -e '%h=(a=>1); print $h{a} / 2; system("git push"); print "/"'"#,
    r#"perl -e '@x = map { /a/ ? 1 : 0 } @y; system("git push") # /'"#,
    r##"perl -e 'print "a" =~ m#"#; system("git push"); print "x"'"##,
    r#"perl -e 'print $x{"a"} ; $y = $x =~ y/a/b/; system("git push")'"#,
    r#"perl -e 'print <<"A" . <<B; system("git push");
a
A
b
B
'"#,
    r#"perl -e 'sub s { 1 } system("git push")'"#,
    r#"ruby -e 'Process.spawn("git push")'"#,
    r#"ruby -e 'method(:system).call("git push")'"#,
    r#"ruby -e 'Object.const_get(:Kernel).system("git push")'"#,
    "ruby -e '%w[git push].then { |a| system(*a) }'",
    "ruby -e 'system(*%w[git push])'",
    "ruby -e 'a = %w(git push); system(*a)'",
    r#"ruby -e 'eval "sys" + "tem(\"git push\")"'"#,
    r#"ruby -e '[1].each do |x| system "git push" if x end'"#,
    r#"ruby -e 'x = 4 / 2; system("git push"); y = 1 / 1'"#,
    r#"ruby -e 'Kernel.`("git push")'"#,
    r#"ruby -e 'fork { exec("git push") }'"#,
    r#"ruby -e 'IO.popen("git push").read'"#,
    r#"php -r 'array_map("system", ["git push"]);'"#,
    r#"php -r '("sys"."tem")("git push");'"#,
    r#"php -r '\system("git push");'"#,
    r#"php -r 'exec("git push", $out, $rc); print_r($out);'"#,
    r#"php -r '$x = "a//b"; system("git push"); // done'"#,
    r#"php -r '$c = new ReflectionFunction("system"); $c->invoke("git push");'"#,
    r#"lua -e 'local f = os.execute; f("git push")'"#,
    r#"lua -e 'local o = os; o.execute("git push")'"#,
    r#"lua -e '_G["os"]["execute"]("git push")'"#,
    r#"lua -e 'os.execute"git push"'"#,
    "lua -e 'os.execute[[git push]]'",
    r#"lua -e 'x = #t -- comment "
os.execute("git push")'"#,
    r#"awk 'BEGIN{c="git";c=c" push";system(c)}'"#,
    r#"awk 'function f(c){system(c)} BEGIN{f("git push")}'"#,
    r#"awk 'BEGIN{print "git push" | "sh"}'"#,
    r#"awk 'BEGIN{f="system"; @f("git push")}'"#,
    r#"awk '{ a = $1 / 2; print "x" | "git push"; b = 3 / 1 }' x"#,
    r#"awk '/"/ { system("git push") }' x"#,
    r#"awk 'BEGIN { close("git push"); while ((c = ENVIRON["X"]) | getline) ; }'"#,
    r#"awk -f - x <<'E'
BEGIN { system("git push") }
E"#,
    r#"awk 'BEGIN{printf "git push" | "/bin/sh"}'"#,
    "awk -v x=1 -v 'c=git push' 'BEGIN{c | getline; print}'",
    "sed --expression='1e git push' f",
    "sed -e '1{' -e 'e git push' -e '}' f",
    r#"sed "1e git push
p" f"#,
    "sed '/[/]e/d;e git push' f",
    "sed 's,a,b,;e git push' f",
    "sed -f /dev/stdin f <<'E'
1e git push
E",
    "vim -c ':silent !git push' -c ':q' x",
    "vim +'!git push' +q",
    "vim -es '+g/x/normal! :!git push' +q",
    r#"tclsh <<'E'
set c "git push"
eval exec $c
E"#,
    "tclsh <<'E'
foreach x {1 2} {
  exec git push
}
E",
    r#"expect -c 'spawn bash; send "git push\r"; interact'"#,
    "expect <<'E'
spawn git push
expect eof
E",
    r#"node -e 'const cp = require("child_process"); const c = "ls"; ["git push"].forEach(c => cp.execSync(c))'"#,
    r#"node -e 'const cp = require("child_process"); var c = "ls"; for (var c of ["git push"]) cp.execSync(c)'"#,
    r#"node -e 'const cp = require("child_process"); let c = "ls"; [c] = ["git push"]; cp.execSync(c)'"#,
    r#"node -e 'const cp = require("child_process"); let c = "ls"; ({c} = {c: "git push"}); cp.execSync(c)'"#,
    r#"node -e 'const cp = require("child_process"); const c = "ls"; (function(c) { cp.execSync(c) })("git push")'"#,
    r#"perl -e 'my $c = "ls"; foreach my $c ("git push") { system $c }'"#,
    r#"perl -e 'my @c = ("ls"); unshift @c, "git"; system @c'"#,
    r#"perl -e 'my @c = ("git"); push @c, "push"; system @c'"#,
    r#"perl -e '$c = "ls"; ($c) = ("git push"); system $c'"#,
    r#"lua -e 'c = "ls"; f = function(c) os.execute(c) end; f("git push")'"#,
    r#"lua -e 'c = "ls"; local function f(a, c) os.execute(c) end; f(1, "git push")'"#,
    r#"ruby -e 'c = "ls"; ["git push"].each { |c| system c }'"#,
    r#"ruby -e 'c = "ls"; {1 => "git push"}.each { |a, c| system c }'"#,
    r#"ruby -e 'c = "ls"; c.replace("git push"); system c'"#,
    r#"ruby -e 'c = +"git"; c << " push"; system c'"#,
    r#"ruby -e 'c = "ls"; def f(c) = system(c); f("git push")'"#,
    r#"php -r '$c = "ls"; foreach ([1 => "git push"] as $k => $c) system($c);'"#,
    r#"php -r '$c = "ls"; [$c] = ["git push"]; system($c);'"#,
    r#"php -r '$c = "ls"; $f = function($c) { system($c); }; $f("git push");'"#,
    r#"python3 -c 'import os
c = "ls"
for a, c in [(1, "git push")]:
    os.system(c)'"#,
    r#"python3 -c 'import os
c = "ls"
a, c = 1, "git push"
os.system(c)'"#,
    r#"python3 -c 'import os
c = "ls"
[os.system(c) for c in ["git push"]]'"#,
    r#"python3 -c 'import os
c = "ls"
def f(c="x", *a): os.system(c)
f("git push")'"#,
    r#"python3 -c 'import os
c = "ls"
if (c := "git push"): os.system(c)'"#,
    r#"python3 -c 'import os
class A: c = "ls"
A.c = "git push"
os.system(A.c)'"#,
    r#"python3 -c 'import subprocess
cmd = ["ls"]
cmd[0] = "git"
subprocess.run(cmd)'"#,
    r#"python3 -c 'import subprocess
cmd = ["ls"]
cmd[:] = ["git", "push"]
subprocess.run(cmd)'"#,
    r#"python3 -c 'import subprocess
cmd = ["ls"]
cmd.insert(0, "git")
subprocess.run(cmd)'"#,
    r#"python3 -c 'import os
match "git push":
    case c: os.system(c)'"#,
    r#"python3 -c 'import os
d = {"c": "git push"}
os.system(d["c"])'"#,
    r#"Rscript -e 'c <- "ls"; f <- function(c) system(c); f("git push")'"#,
    r#"awk 'BEGIN { c = "ls"; split("git push", a); c = a[1]; system(c) }'"#,
    r#"awk 'BEGIN { c = "ls" } { sub(/ls/, "git push", c); system(c) }' f"#,
    "awk '{ system(c) }' c='git push' f",
    r#"awk 'BEGIN { c = "ls"; "echo git push" | getline c; system(c) }'"#,
];
