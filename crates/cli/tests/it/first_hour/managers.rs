//! Small repositories of other package managers. The tests install those of npm and pip, and use the others if
//! this machine has them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use bailiwick_testkit::Scratch;

use super::repositories::{Project, must, nothing, package_settings};

/// The directory of Debian's Java libraries.
const MAVEN_REPOSITORY: &str = "/usr/share/maven-repo";

/// Programs of npm, installed once, with symlinks to them, as with an npm prefix in the home.
fn npm_programs() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package-managers");
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(&directory);
        must(npm.args(["yarn@1.22.22", "pnpm@9.15.9"]));
        directory.join("node_modules/.bin")
    })
}

/// Programs of pip in a virtual environment, with symlinks to them, as pipx makes them.
fn python_programs() -> &'static Path {
    static PLACE: OnceLock<PathBuf> = OnceLock::new();
    PLACE.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-managers");
        let (environment, links) = (directory.join("environment"), directory.join("bin"));
        must(Command::new("python3").args(["-m", "venv"]).arg(&environment));
        let mut pip = Command::new(environment.join("bin/pip"));
        must(pip.args(["install", "--quiet", "uv==0.13.7", "poetry==2.5.1"]));
        std::fs::create_dir_all(&links).unwrap();
        for name in ["uv", "poetry"] {
            let link = links.join(name);
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(environment.join("bin").join(name), link).unwrap();
        }
        links
    })
}

fn with_programs(place: &Path, command: &mut Command) {
    package_settings(command);
    let set = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
    let path = std::env::split_paths(set.unwrap()).chain([place.to_owned()]);
    let path = std::env::join_paths(path).unwrap();
    command.env("PATH", path);
}

fn write_javascript(scratch: &Scratch, below: &str) {
    let write = |path: &str, text: &str| scratch.write(&format!("{below}{path}"), text);
    write(
        "package.json",
        r#"{ "name": "greeter", "version": "1.0.0", "private": true, "scripts": { "test": "node --test" },
  "dependencies": { "is-number": "7.0.0" } }
"#,
    );
    write(
        "src/greet.js",
        "const is = require('is-number');\nexports.greet = (name) => `Hello ${name} ${is(5)}`;\n",
    );
    write(
        "test/greet.test.js",
        "const assert = require('node:assert');\nrequire('node:test')('name', () => {\n  \
         assert.match(require('../src/greet.js').greet('Ada'), /Ada true/);\n});\n",
    );
    write(".gitignore", "node_modules\n");
}

fn write_python(scratch: &Scratch, below: &str) {
    let write = |path: &str, text: &str| scratch.write(&format!("{below}{path}"), text);
    write(".gitignore", ".venv/\n__pycache__/\n.pytest_cache/\n");
    write("greeter/__init__.py", "def greet(name):\n    return f\"Hello {name}\"\n");
    write(
        "tests/test_greet.py",
        "from greeter import greet\n\n\ndef test_name():\n    assert \"Ada\" in greet(\"Ada\")\n",
    );
}

/// Writes a lock file with a program of the project.
fn lock(scratch: &Scratch, place: &Path, line: &[&str]) {
    let mut command = scratch.command("env");
    with_programs(place, &mut command);
    must(command.args(line));
}

/// A URL of a public registry.
fn url(name: &str, path: &str) -> String {
    format!("https://{name}.org{path}")
}

pub(super) const YARN: Project = Project {
    name: "yarn",
    write: |scratch| {
        write_javascript(scratch, "");
        lock(scratch, npm_programs(), &["yarn", "install", "--silent"]);
    },
    environment: |_, command| with_programs(npm_programs(), command),
    change: "sed -i 's/Hello/Good morning,/' src/greet.js",
    file: "src/greet.js",
    test: "yarn test",
    proof: "pass 1",
};

pub(super) const PNPM: Project = Project {
    name: "pnpm",
    write: |scratch| {
        write_javascript(scratch, "");
        lock(scratch, npm_programs(), &["pnpm", "install", "--lockfile-only"]);
    },
    test: "pnpm test",
    ..YARN
};

pub(super) const UV: Project = Project {
    name: "uv",
    write: |scratch| {
        write_python(scratch, "");
        scratch.write(
            "pyproject.toml",
            "[project]\nname = \"greeter\"\nversion = \"0.1.0\"\nrequires-python = \">=3.9\"\n\n\
             [dependency-groups]\ndev = [\"pytest==8.4.2\"]\n\n[tool.pytest.ini_options]\npythonpath = [\".\"]\n",
        );
        lock(scratch, python_programs(), &["uv", "lock", "--quiet"]);
    },
    environment: |_, command| with_programs(python_programs(), command),
    change: "sed -i 's/Hello/Good morning,/' greeter/__init__.py",
    file: "greeter/__init__.py",
    test: "uv run --frozen pytest",
    proof: "1 passed",
};

pub(super) const POETRY: Project = Project {
    name: "poetry",
    write: |scratch| {
        write_python(scratch, "");
        let index = url("pypi", "/simple/");
        scratch.write(
            "pyproject.toml",
            &format!("[tool.poetry]\nname = \"greeter\"\nversion = \"0.1.0\"\ndescription = \"\"\nauthors = []\n\n\
             [tool.poetry.dependencies]\npython = \">=3.9\"\n\n[tool.poetry.group.dev.dependencies]\npytest = \
             \"8.4.2\"\n\n[[tool.poetry.source]]\nname = \"simple\"\nurl = \"{index}\"\n\n\
             [build-system]\nrequires = [\"poetry-core\"]\nbuild-backend = \"poetry.core.masonry.api\"\n"),
        );
        lock(scratch, python_programs(), &["poetry", "lock", "--quiet"]);
    },
    test: "poetry run pytest",
    ..UV
};

pub(super) const MAKE: Project = Project {
    name: "make",
    write: |scratch| {
        scratch.write("src/greet.h", "void greet(const char *name);\n");
        scratch.write(
            "src/greet.c",
            "#include <stdio.h>\n#include \"greet.h\"\n\nvoid greet(const char *name) {\n  printf(\"Hello \
             %s\\n\", name);\n}\n",
        );
        scratch.write(
            "src/main.c",
            "#include \"greet.h\"\n\nint main(void) {\n  greet(\"Ada\");\n}\n",
        );
        scratch.write(
            "Makefile",
            "build/greet: src/greet.c src/main.c\n\tmkdir -p build && $(CC) -o $@ $^\n\ntest: build/greet\n\t\
             ./build/greet | grep -q Ada && echo all good\n",
        );
        scratch.write(".gitignore", "build\n");
    },
    environment: nothing,
    change: "sed -i 's/Hello/Good morning,/' src/greet.c",
    file: "src/greet.c",
    test: "make test",
    proof: "all good",
};

/// Two stacks in one repository.
pub(super) const MONOREPO: Project = Project {
    name: "monorepo",
    write: |scratch| {
        write_javascript(scratch, "web/");
        write_python(scratch, "api/");
        scratch.write("api/requirements.txt", "pytest==8.4.2\n");
        let mut npm = scratch.command("npm");
        package_settings(&mut npm);
        npm.args(["--prefix", "web", "install", "--package-lock-only", "--no-audit", "--no-fund"]);
        must(&mut npm);
    },
    environment: |_, command| package_settings(command),
    change: "sed -i 's/Hello/Good morning,/' web/src/greet.js",
    file: "web/src/greet.js",
    test: "(cd api && .venv/bin/python -m pytest) && (cd web && npm test)",
    proof: "pass 1",
};

/// With gems that come with Ruby.
pub(super) const BUNDLER: Project = Project {
    name: "bundler",
    write: |scratch| {
        let source = url("rubygems", "");
        let gems = format!("source \"{source}\"\ngem \"rake\"\ngem \"minitest\"\n");
        scratch.write("Gemfile", &gems);
        scratch.write("lib/greet.rb", "def greet(name) = \"Hello #{name}\"\n");
        scratch.write(
            "test/test_greet.rb",
            "require \"minitest/autorun\"\nrequire \"greet\"\n\nclass TestGreet < Minitest::Test\n  def \
             test_name = assert_includes(greet(\"Ada\"), \"Ada\")\nend\n",
        );
        let tasks =
            "require \"rake/testtask\"\nRake::TestTask.new { |task| task.libs << \"lib\" }\n";
        scratch.write("Rakefile", tasks);
        must(scratch.command("bundle").args(["lock", "--local"]));
    },
    environment: nothing,
    change: "sed -i 's/Hello/Good morning,/' lib/greet.rb",
    file: "lib/greet.rb",
    test: "bundle exec rake test",
    proof: "0 failures, 0 errors",
};

fn write_java(scratch: &Scratch) {
    scratch.write(
        "src/main/java/greeter/Greeter.java",
        "package greeter;\n\npublic class Greeter {\n  public static String greet(String name) {\n    return \
         \"Hello \" + name;\n  }\n}\n",
    );
    scratch.write(
        "src/test/java/greeter/GreeterTest.java",
        "package greeter;\n\nimport static org.junit.Assert.assertTrue;\n\nimport org.junit.Test;\n\npublic \
         class GreeterTest {\n  @Test\n  public void name() {\n    \
         assertTrue(Greeter.greet(\"Ada\").contains(\"Ada\"));\n  }\n}\n",
    );
}

/// The settings of the user name a mirror: the libraries of Debian.
pub(super) const MAVEN: Project = Project {
    name: "maven",
    write: |scratch| {
        write_java(scratch);
        let plugin = |name: &str| {
            let place = format!("{MAVEN_REPOSITORY}/org/apache/maven/plugins/maven-{name}-plugin");
            let versions = std::fs::read_dir(&place).unwrap();
            let version = versions.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            let version = version.filter(|name| name.starts_with(char::is_numeric)).max().unwrap();
            format!(
                "<plugin><artifactId>maven-{name}-plugin</artifactId><version>{version}</version></plugin>\n"
            )
        };
        let plugins: String = ["compiler", "resources", "surefire", "jar"].map(plugin).concat();
        scratch.write(
            "pom.xml",
            &format!(
                "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\n\
                 <groupId>greeter</groupId><artifactId>greeter</artifactId><version>1</version>\n\
                 <properties><maven.compiler.source>11</maven.compiler.source>\n\
                 <maven.compiler.target>11</maven.compiler.target></properties>\n<dependencies><dependency>\
                 <groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version>\
                 <scope>test</scope></dependency></dependencies>\n<build><plugins>\n{plugins}</plugins></build>\
                 </project>\n"
            ),
        );
        scratch.write(".gitignore", "target\n");
        let settings = scratch.place().join("home/.m2");
        std::fs::create_dir(&settings).unwrap();
        let mirror = format!(
            "<settings><mirrors><mirror><id>debian</id><mirrorOf>*</mirrorOf>\
             <url>file://{MAVEN_REPOSITORY}</url></mirror></mirrors></settings>\n"
        );
        std::fs::write(settings.join("settings.xml"), mirror).unwrap();
    },
    environment: nothing,
    change: "sed -i 's/Hello/Good morning,/' src/main/java/greeter/Greeter.java",
    file: "src/main/java/greeter/Greeter.java",
    test: "mvn -B test",
    proof: "Tests run: 1, Failures: 0",
};

pub(super) const GRADLE: Project = Project {
    name: "gradle",
    write: |scratch| {
        write_java(scratch);
        scratch.write(
            "build.gradle",
            &format!(
                "apply plugin: 'java'\nrepositories {{ maven {{ url 'file://{MAVEN_REPOSITORY}' }} }}\n\
                 dependencies {{ testCompile 'junit:junit:4.13.2' }}\ntest {{ testLogging {{ events 'passed' }} }}\n"
            ),
        );
        scratch.write("settings.gradle", "rootProject.name = 'greeter'\n");
        scratch.write(".gitignore", "build\n.gradle\n");
    },
    test: "gradle --no-daemon test",
    proof: "GreeterTest > name PASSED",
    ..MAVEN
};

/// Whether this machine has a program, and Debian's libraries for it.
pub(super) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|place| place.join(program).is_file());
    let java = ["mvn", "gradle"].contains(&program);
    found && (!java || Path::new(MAVEN_REPOSITORY).join("junit/junit/4.13.2").is_dir())
}
