//! The writes of a command, its directory and the kind of write: by example.

use bailiwick_policy::shell::{Directory, HiddenReason, Shape, Write, WriteKind, read};

/// `x` changed, `x/**` filled, `-x` deleted, `-x/**` deleted with everything below; then the directory.
pub(crate) fn describe(write: &Write) -> String {
    let path = match write.kind {
        WriteKind::Change => format!("{}", write.path),
        WriteKind::WriteBelow => format!("{}/**", write.path),
        WriteKind::Delete => format!("-{}", write.path),
        WriteKind::DeleteTree => format!("-{}/**", write.path),
    };
    if write.from == [Directory::start()] {
        return path;
    }
    let place = |directory: &Directory| {
        let path = match directory.path.as_deref() {
            None => "?",
            Some("") => ".",
            Some(path) => path,
        };
        match &directory.unless {
            Some(unless) => format!("{path} unless {unless}"),
            None => path.to_owned(),
        }
    };
    format!("{path} @ {}", write.from.iter().map(place).collect::<Vec<_>>().join(", "))
}

/// Every command writes exactly this, and hides nothing.
fn check(examples: &[(&str, &[&str])]) {
    for (text, expected) in examples {
        let reading = read(text);
        assert!(reading.hidden.is_empty(), "{text}: {:?}", reading.hidden);
        let found: Vec<String> = reading.writes.iter().map(describe).collect();
        assert_eq!(&found, expected, "{text}");
    }
}

#[test]
fn redirections_and_pipes_name_their_files() {
    check(&[
        ("echo a > x", &["x"]),
        ("echo a >> x 2>&1", &["x"]),
        ("echo a >| x", &["x"]),
        ("echo a &> x", &["x"]),
        ("echo a &>> x", &["x"]),
        ("echo a >& x", &["x"]),
        ("cat <> x", &["x"]),
        ("echo a 2> x", &["x"]),
        ("echo a > 5", &["5"]),
        ("echo a >&2", &[]),
        ("echo a >&-", &[]),
        ("exec 3> x", &["x"]),
        ("exec {fd}> x", &["x"]),
        ("echo a > /dev/null", &["/dev/null"]),
        ("echo a > /dev/tcp/h/1", &["/dev/tcp/h/1"]),
        ("ls > >(tee log)", &["log"]),
        ("ls | tee a b", &["a", "b"]),
        ("ls | tee -a log > /dev/null", &["/dev/null", "log"]),
        ("{ echo a; } > x", &["x"]),
        ("for i in 1 2; do echo $i; done > out", &["out"]),
        ("cat > x <<E\nhi\nE", &["x"]),
        ("ls | sponge f", &["f"]),
        ("ls | xargs rm", &["-…/**"]),
        ("ls | xargs -I{} cp {} d/", &["…", "d/", "d/*"]),
        ("echo hi | tee >(cat > x)", &["x", "/dev/fd/63"]),
    ]);
}

#[test]
fn changes_of_the_directory_are_followed() {
    check(&[
        ("(cd sub; echo > x)", &["x @ sub, . unless sub"]),
        ("cd a && echo > x", &["x @ a"]),
        ("cd a; echo > x", &["x @ a, . unless a"]),
        ("cd a || exit; echo > x", &["x @ a"]),
        ("cd a || exit 1\necho > x", &["x @ a"]),
        ("cd a && cd b && echo > x", &["x @ a/b"]),
        ("cd a; cd b; echo > x", &["x @ a/b, b unless a, a unless a/b, . unless a"]),
        ("cd /tmp && echo > x", &["x @ /tmp"]),
        ("cd; echo > x", &["~/x", "x"]),
        ("cd && echo > x", &["~/x"]),
        ("cd ~/x && echo > y", &["~/x/y"]),
        ("cd \"$HOME/x\" && echo > y", &["~/x/y"]),
        ("cd - ; echo > x", &["x @ ?, ."]),
        ("cd a && cd - && echo > x", &["x"]),
        ("cd a && cd .. && echo > x", &["x @ ., a/.."]),
        ("cd $x && echo > y", &["y @ ?"]),
        ("cd $x; echo > /tmp/y", &["/tmp/y"]),
        ("pushd a && echo > x && popd && echo > y", &["x @ a", "y"]),
        ("pushd a; echo > x; popd; echo > y", &["x @ a, . unless a", "y @ ., a"]),
        ("(cd a && echo > x); echo > y", &["x @ a", "y"]),
        ("cd a && (cd b && echo > x) && echo > y", &["x @ a/b", "y @ a"]),
        ("CDPATH=/etc; cd a && echo > x", &["x @ ?"]),
        ("export PATH=~/bin:$PATH; cd a && echo > ~/x", &["~/x"]),
        ("f() { local a=(b c) d=$1; echo > ~/x; }; f", &["~/x"]),
        ("source .venv/bin/activate && echo > x", &["x"]),
        ("env -C a touch x", &["x @ a"]),
        ("env --chdir=a touch x", &["x @ a"]),
        ("sudo -D a touch x", &["x @ a"]),
        ("bash -c 'cd a && touch x'", &["x @ a"]),
        ("cd a && bash -c 'touch x'", &["x @ a"]),
        ("cd a && eval 'touch x'", &["x @ a"]),
        ("f() { cd a; }; f; touch x", &["x @ a, . unless a"]),
        ("f() { touch \"$1\"; }; cd a && f x", &["x @ a"]),
        ("cd a && ls | xargs touch", &["… @ a"]),
        ("if cd a; then touch x; else touch y; fi", &["x @ a", "y @ . unless a"]),
        ("! cd a && touch x", &["x @ . unless a"]),
        ("cd a | cat; touch x", &["x"]),
        ("cd a & touch x", &["x"]),
        ("mkdir -p a && cd a && touch x", &["a", "x @ a"]),
        (
            "while cd a; do touch x; done",
            &[
                "x @ a, . unless a",
                "x @ a/a, a unless a, a, . unless a",
                "x @ a/a/a, a/a unless a, a/a, a unless a, a, . unless a",
                "x @ ?",
            ],
        ),
        ("for d in a b; do cd $d; touch x; cd ..; done", &["x @ a, . unless a", "x @ ?"]),
        ("for d in a b; do (cd $d && touch x); done", &["x @ a", "x @ b"]),
        ("cd a && echo > $PWD/x", &["./a/x"]),
        ("set -e; cd a; touch x", &["x @ a, . unless a"]),
        ("rm -rf a; cd a; touch x", &["-a/**", "x @ a, ."]),
    ]);
}

#[test]
fn variables_with_file_names_are_followed() {
    check(&[
        ("dir=src; echo > $dir/x", &["src/x"]),
        ("n=$(cat n); echo > \"src/$n.txt\"", &["src/….txt"]),
        ("for f in src/*.rs; do sed -i s/a/b/ \"$f\"; done", &["src/*.rs"]),
        ("for f in src/*.rs; do sed -i s/a/b/ $f; done", &["src/*.rs"]),
        (
            "for f in *.txt; do mv \"$f\" \"${f%.txt}.md\"; done",
            &["-*.txt/**", "*.md/**", "*.md/*.txt/**"],
        ),
        ("for f in a b; do touch $f.x; done", &["a.x", "b.x"]),
        ("for f in src/*; do cp \"$f\" \"out/$(basename \"$f\")\"; done", &["out/*", "out/*/*"]),
        ("for f in src/*.c; do gcc -o \"out/$(basename \"$f\" .c)\" \"$f\"; done", &["out/*"]),
        ("for i in {1..3}; do touch f$i; done", &["f1", "f2", "f3"]),
        ("for i in $(seq 1 3); do touch f$i; done", &["f*"]),
        ("for i in 1 2 3 4 5 6 7 8 9 10; do touch f$i; done", &["f*"]),
        ("i=$((i+1)); touch f$i", &["f*"]),
        ("f=$(mktemp); echo > $f", &["$(mktemp)", "$(mktemp)"]),
        ("d=$(mktemp -d); echo > \"$d/x\"", &["$(mktemp)", "$(mktemp)/x"]),
        ("d=$(mktemp -d) && cd \"$d\" && touch x", &["$(mktemp)", "$(mktemp)/x"]),
        ("TMPDIR=/x; d=$(mktemp -d); echo > \"$d/x\"", &["…", "…/x"]),
        ("mktemp -d /tmp/x.XXXX", &["/tmp/*"]),
        ("echo > ${TMPDIR:-/tmp}/x", &["$(mktemp)/x", "/tmp/x"]),
        ("while read f; do rm \"$f\"; done", &["-…/**"]),
        ("x=${f%.rs}.txt; touch $x", &["….txt"]),
        (
            "f=src/a.rs; touch \"${f%.rs}.txt\" \"${f##*/}\" \"${f%/*}/b\"",
            &["src/a.txt", "a.rs", "src/b"],
        ),
        ("out=\"$dir/$name.txt\"; echo > \"$out\"", &["…/….txt"]),
        ("echo > $PWD/x", &["./x"]),
        ("echo > \"$(pwd)/x\"", &["./x"]),
        ("echo > ~/x", &["~/x"]),
        ("echo > ~root/x", &["~root/x"]),
        ("HOME=/etc; echo > ~/x", &["/etc/x"]),
        ("touch file{1,2}.txt", &["file1.txt", "file2.txt"]),
        ("touch \"$(date +%Y-%m-%d).log\"", &["*.log"]),
        ("touch log.$$", &["log.*"]),
        ("trap 'rm -f \"$t\"' EXIT", &["-…/**"]),
        (
            "t=$(mktemp); trap 'rm -f \"$t\"' EXIT; echo > \"$t\"",
            &["$(mktemp)", "$(mktemp)", "-$(mktemp)"],
        ),
    ]);
}

#[test]
fn copies_and_deletions_name_their_files() {
    check(&[
        ("cp a b", &["b", "b/a"]),
        ("cp a b dir/", &["dir/a", "dir/b"]),
        ("cp -t dir a b", &["dir/a", "dir/b"]),
        ("cp --target-directory=dir a", &["dir/a"]),
        ("cp --targ dir a", &["dir/a"]),
        ("cp -r a b", &["b/**", "b/a/**"]),
        ("cp -a src/. dst", &["dst/**"]),
        ("cp -r a .", &["./a/**"]),
        ("cp a .", &["./a"]),
        ("cp a/b/c ../", &["../c"]),
        ("cp -- -a b", &["b", "b/-a"]),
        ("cp $x a b", &["…", "a", "b", "b/*", "b/a"]),
        ("cp \"$x\" dir/", &["…", "dir/", "dir/*"]),
        ("cp -- \"$x\" dir/", &["dir/*"]),
        ("cp a/*.rs dir/", &["dir/*.rs"]),
        ("cp -b a b", &["b", "b~", "b.~*", "b/a", "b/a~", "b/a.~*"]),
        ("cp -T a b", &["b"]),
        ("cp -rf a b", &["b/**", "b/a/**"]),
        ("cp --frob a b", &["a", "b", "b/a"]),
        ("mv a b", &["-a/**", "b/**", "b/a/**"]),
        ("mv a b dir", &["-a/**", "-b/**", "dir/a/**", "dir/b/**"]),
        ("mv *.txt dir/", &["-*.txt/**", "dir/*.txt/**"]),
        ("mv -t dir a", &["-a/**", "dir/a/**"]),
        ("rm a b", &["-a", "-b"]),
        ("rm -rf a", &["-a/**"]),
        ("rm -r -- -x", &["--x/**"]),
        ("rm -f *.o", &["-*.o"]),
        ("rm -rf \"$d\"", &["-…/**"]),
        ("rm -rf \"${d:?}/x\"", &["-…/x/**"]),
        ("rmdir a", &["-a"]),
        ("rmdir -p a/b/c", &["-a/b", "-a", "-a/b/c"]),
        ("unlink a", &["-a"]),
        ("shred -u a", &["-a", "a"]),
        ("install -m 755 a bin/b", &["bin/b", "bin/b/a"]),
        ("install -d a b", &["a", "b"]),
        ("install -Dm644 a -t dir", &["dir/a"]),
        ("rsync -a a/ b/", &["b//**"]),
        ("rsync -a --delete a/ b/", &["b//**", "-b//**"]),
        ("rsync -av a host:b", &[]),
        ("rsync -n a b", &[]),
        ("cp a b 2>/dev/null", &["/dev/null", "b", "b/a"]),
    ]);
}

#[test]
fn links_of_the_same_command_are_followed() {
    check(&[
        ("ln -s a b", &["b", "b/a"]),
        ("ln -s /etc d && echo x > d/passwd", &["d", "d/etc", "d/passwd", "/etc/passwd"]),
        ("ln secret ok; echo > ok", &["ok", "ok/secret", "ok", "secret"]),
        ("ln -s ../x", &["./x"]),
        (
            "ln -s /etc d; mv d e; echo > e/passwd",
            &["d", "d/etc", "-d/**", "e/**", "e/d/**", "e/passwd", "d/passwd", "/etc/passwd"],
        ),
        (
            "ln -s /etc/passwd a; cp -a a b; echo > b",
            &["a", "a/passwd", "b/**", "b/a/**", "b", "a", "/etc/passwd"],
        ),
        ("ln -s /etc d; rm -rf d", &["d", "d/etc", "-d/**"]),
        ("ln -s /etc d; cd d; echo > x", &["d", "d/etc", "x @ d, . unless d", "/etc/x"]),
        ("ln -sf a b; touch c", &["b", "b/a", "c"]),
        (
            "ln -sf ../x d/a; touch d/*",
            &["d/a", "d/a/x", "d/*", "d/../x", "d/a/../x", "d/../x/../x"],
        ),
        ("ln -s /etc/x l/n; echo > d/n", &["l/n", "l/n/x", "d/n", "/etc/x"]),
        ("ln -s $t d; echo > d/x", &["…", "d", "d/*", "d/x", "…"]),
    ]);
}

#[test]
fn other_writers_name_their_files() {
    check(&[
        ("sed -i s/a/b/ f", &["f"]),
        ("sed -i.bak s/a/b/ f g", &["f.bak", "f", "g.bak", "g"]),
        ("sed -i -e s/a/b/ f", &["f"]),
        ("sed -ne 's/a/b/p' f", &[]),
        ("sed -n -i p f", &["f"]),
        ("sed --in-place=.orig s/a/b/ f", &["f.orig", "f"]),
        ("sed -i 's/a/b/w log' f", &["log", "f"]),
        ("sed \"s/$a/$b/\" f", &[]),
        ("sed -i \"s/$a/$b/\" f", &["f"]),
        ("sed 's/a/b/' f > g", &["g"]),
        ("sed -n '1,5p' f", &[]),
        ("dd if=a of=b bs=1", &["b"]),
        ("dd if=a of=~/b", &["~/b"]),
        ("dd if=a of=d/*", &["d/*"]),
        ("dd if=a of=\"$x\"", &["…"]),
        ("touch a b", &["a", "b"]),
        ("touch -r a b", &["b"]),
        ("truncate -s 0 a", &["a"]),
        ("mkdir -p a/b c", &["a/b", "c"]),
        ("mkfifo p", &["p"]),
        ("mknod p p", &["p"]),
        ("chmod +x a", &["a"]),
        ("chmod -x a", &["a"]),
        ("chmod -R 755 a", &["a/**"]),
        ("chmod u+w,go-w a b", &["a", "b"]),
        ("chown -R u:g a", &["a/**"]),
        ("chown --reference=a b", &["b"]),
        ("patch f < p", &["f.orig", "f.rej", "f"]),
        ("patch -p1 <<'E'\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\nE", &["x.orig", "x.rej", "x"]),
        ("patch -d d -p0 <<'E'\n--- x\n+++ x\nE", &["d/x.orig", "d/x.rej", "d/x"]),
        ("split -l 5 a", &["x*"]),
        ("split a pre-", &["pre-*"]),
        ("csplit a 5", &["xx*"]),
        ("curl -o f u", &["f"]),
        ("curl -sSLo f u", &["f"]),
        ("curl -O https://h/a/b.tgz", &["b.tgz"]),
        ("curl -sSL u", &[]),
        ("curl -fsSL u -o /dev/null", &["/dev/null"]),
        ("curl -D h u", &["h"]),
        ("curl -LO --output-dir d https://h/x", &["d/x"]),
        ("wget u", &["./*"]),
        ("wget -O f u", &["f"]),
        ("wget -qO- u", &[]),
        ("wget -P d u", &["d/*"]),
        ("wget -r u", &["./**"]),
        ("sort -o a a", &["a"]),
        ("sort a", &[]),
        ("uniq a b", &["b"]),
        ("uniq a", &[]),
        ("xxd -l 16 a b", &["b"]),
        ("xxd -r -p a", &[]),
        ("iconv -f a -t b x -o y", &["y"]),
        ("yq -i '.a = 1' f.yml", &["f.yml"]),
        ("yq '.a' f.yml", &[]),
        ("xmllint --output f g", &["f"]),
        ("openssl req -out a -keyout b", &["a", "b"]),
        ("gcc -o a a.c", &["a"]),
        ("gcc a.c", &["a.out"]),
        ("gcc -c src/a.c", &["a*"]),
        ("clang -fsyntax-only a.c", &[]),
        ("strip a", &["a"]),
        ("strip -o b a", &["b"]),
        ("pandoc a.md -o a.html", &["a.html"]),
        ("convert a.png b.png", &["b.png"]),
        ("script -qc ls /dev/null", &["/dev/null"]),
        ("time -p -o log ls", &[]),
        ("/usr/bin/time -o log ls", &["log"]),
        ("strace -o log ls", &["log"]),
        ("sqlite3 a.db 'select 1'", &["a.db", "a.db-journal"]),
        ("sqlite3 -readonly a.db 'select 1'", &[]),
        ("prettier --write a.js src", &["a.js", "src/**"]),
        ("prettier --check a.js", &[]),
        ("eslint --fix src", &["src/**"]),
        ("black .", &["./**"]),
        ("black --check .", &[]),
        ("ruff check --fix a.py", &["a.py"]),
        ("ruff check a.py", &[]),
        ("ruff format", &["./**"]),
        ("gofmt -w a.go", &["a.go"]),
        ("gofmt -l .", &[]),
        ("rustfmt a.rs", &["a.rs"]),
        ("clang-format -i a.c", &["a.c"]),
        ("dos2unix a", &["a"]),
        ("tee \"$x\" < y", &["…"]),
        ("git diff > p", &["p"]),
        ("make", &[]),
        ("echo \"a > b\"", &[]),
    ]);
}

#[test]
fn archives_name_the_directories_that_they_fill() {
    check(&[
        ("tar xf a.tar", &["./**"]),
        ("tar xzf a.tgz -C d", &["d/**"]),
        ("tar -xf a -C d", &["d/**"]),
        ("tar -C d -xf a", &["d/**"]),
        ("tar --extract --file=a --directory=d", &["d/**"]),
        ("tar tf a", &[]),
        ("tar czf out.tgz src", &["out.tgz"]),
        ("tar cf - src | gzip > x", &["x"]),
        ("tar -czf out.tgz -C src .", &["out.tgz"]),
        ("tar -xOf a", &[]),
        ("tar xPf a", &["…/**"]),
        ("unzip a.zip", &["./**"]),
        ("unzip a.zip -d d", &["d/**"]),
        ("unzip -o -q a.zip -d d", &["d/**"]),
        ("unzip -l a.zip", &[]),
        ("unzip -p a.zip x", &[]),
        ("zip -r out.zip src", &["out.zip"]),
        ("zip out a", &["out.zip", "out"]),
        ("zip - a", &[]),
        ("gzip a", &["-a", "a.gz"]),
        ("gzip -k a", &["a.gz"]),
        ("gzip -c a", &[]),
        ("gzip -d a.gz", &["-a.gz", "a"]),
        ("gunzip a.gz", &["-a.gz", "a"]),
        ("gunzip -c a.gz", &[]),
        ("xz -dk a.xz", &["a"]),
        ("zstd a", &["a.zst"]),
        ("zstd -d a.zst -o b", &["b"]),
        ("bzip2 a", &["-a", "a.bz2"]),
        ("zcat a.gz", &[]),
    ]);
}

#[test]
fn actions_of_find_are_found() {
    check(&[
        ("find . -name x -delete", &["-./**"]),
        ("find a b -delete", &["-a/**", "-b/**"]),
        ("find . -fprint log", &["log"]),
        ("find src -name '*.rs' -exec sed -i s/a/b/ {} +", &["src*"]),
    ]);
}

#[test]
fn computed_paths_are_reported_as_hidden() {
    for (text, why) in [
        ("patch -p1 < fix.patch", HiddenReason::ComputedPath),
        ("git diff | patch -p1", HiddenReason::ComputedPath),
        ("patch -p1 -i fix.patch", HiddenReason::ComputedPath),
        ("sed 1e f", HiddenReason::PipedIntoShell),
        ("sed 's/x/y/e' f", HiddenReason::ComputedText),
        ("tar xIf sh a", HiddenReason::RunsText),
    ] {
        let reading = read(text);
        assert!(reading.hidden.iter().any(|hidden| hidden.why == why), "{text}: {reading:?}");
    }
}

#[test]
fn shape_describes_what_is_known_about_a_path() {
    let home = |rest: &str| Shape::UnderHome { user: None, rest: rest.to_owned() };
    for (text, shape) in [
        ("echo > 'a b'", Shape::Known("a b".to_owned())),
        ("echo > ~/x", home("/x")),
        ("echo > ~", home("")),
        ("echo > $HOME/x", home("/x")),
        ("cd ~ && echo > x", home("/x")),
        ("echo > ~/../x", home("/../x")),
        ("echo > ~joe/x", Shape::UnderHome { user: Some("joe".to_owned()), rest: "/x".to_owned() }),
        ("rm src/*.rs", Shape::Glob("src/*.rs".to_owned())),
        ("rm src/'[a]'*", Shape::Glob("src/\\[a\\]*".to_owned())),
        ("cp -t src -- \"$x\"", Shape::Within("src".to_owned())),
        ("find src -exec rm {} +", Shape::Within("src".to_owned())),
        ("find /var/x -exec rm {} +", Shape::Within("/var/x".to_owned())),
        ("touch /a/f$$", Shape::Within("/a".to_owned())),
        ("touch f$((1+1))", Shape::Within(".".to_owned())),
        ("touch .$((1+1))", Shape::Unknown),
        ("echo > $(mktemp)", Shape::Temporary),
        ("echo > $(mktemp -d)/a/b", Shape::Temporary),
        ("echo > $(mktemp -d)/../b", Shape::Unknown),
        ("echo > $(mktemp -p /x)", Shape::Unknown),
        ("mktemp() { echo /etc; }; echo > $(mktemp -d)/a", Shape::Unknown),
        ("PATH=/x; echo > $(mktemp -d)/a", Shape::Unknown),
        ("echo > \"$x\"", Shape::Unknown),
        ("echo > src/$x", Shape::Unknown),
        ("source env; echo > ~/x", Shape::Unknown),
        ("unset HOME; echo > ~/x", Shape::Unknown),
        ("HOME=$x; echo > ~/x", Shape::Unknown),
        ("export HOME=/etc; bash -c 'echo > ~/x'", Shape::Known("/etc/x".to_owned())),
        ("env HOME=/etc bash -c 'echo > ~/x'", Shape::Known("/etc/x".to_owned())),
        ("GIT_DIR=.git sh -c 'echo > $GIT_DIR/HEAD'", Shape::Known(".git/HEAD".to_owned())),
        ("X=a; export X; X=b bash -c 'echo > $X/c'", Shape::Known("b/c".to_owned())),
        ("export X=a; env -u X sh -c 'echo > $X/c'", Shape::Unknown),
        ("export X=a; env -- X=b sh -c 'echo > $X/c'", Shape::Known("b/c".to_owned())),
        ("export X=a; unset X; X=b; sh -c 'echo > $X/c'", Shape::Unknown),
        ("export X=a; sudo sh -c 'echo > $X/c'", Shape::Unknown),
        ("export X=a; export -n X; sh -c 'echo > $X/c'", Shape::Unknown),
        ("X=a; sh -c 'echo > $X/c'", Shape::Unknown),
        ("X=a y; sh -c 'echo > $X/c'", Shape::Unknown),
        ("f() { sh -c 'echo > $X/c'; }; X=a f", Shape::Unknown),
    ] {
        let reading = read(text);
        let last = reading
            .writes
            .iter()
            .rfind(|write| !write.only_existing)
            .unwrap_or_else(|| panic!("{text}: nothing"));
        assert_eq!(last.path.shape(), shape, "{text}: {last:?}");
    }
}

#[test]
fn text_around_the_xargs_placeholder_is_kept() {
    check(&[
        ("xargs -I{} touch src/{} <<< x", &["src/x"]),
        ("xargs -I{} touch src/{} <<'E'\na\nb\nE", &["src/a", "src/b"]),
        ("printf '%s\\n' a b | xargs -I @ touch @/y", &["a/y", "b/y"]),
        ("xargs -I{} sh -c 'echo {} && wc -l < {}' <<< src/lib.rs", &[]),
        ("ls | xargs -I{} touch .git/{}", &[".git/…"]),
    ]);
}
