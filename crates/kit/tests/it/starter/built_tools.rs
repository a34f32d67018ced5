//! Stacks whose tool builds and tests by itself.

use super::{assert_project, malformed, recognise, shown};

#[test]
fn cargo() {
    let package = "[package]\nname = \"a\"\n";
    let project = recognise(&[
        ("Cargo.toml", package),
        ("build.rs", ""),
        (".gitignore", "/target\n"),
        ("src/lib.rs", ""),
        ("tests/all.rs", ""),
    ]);
    let commands = ["cargo check --all-targets", "cargo test"];
    assert_project(&project, "cargo (Cargo.toml)", &[], &commands, &["src/**", "tests/**"]);
    assert_eq!(project.notes, []);
    let broken = recognise(&[("Cargo.toml", "[package\n"), ("src/main.rs", "")]);
    assert_eq!(malformed(&broken), ["Cargo.toml"]);
    assert_eq!(broken.commands, commands);
}

#[test]
fn go() {
    let module = ("go.mod", "module example.org/a\n");
    let project = recognise(&[module, ("main.go", ""), ("internal/a/a.go", "")]);
    let commands = ["go vet ./...", "go test ./..."];
    assert_project(&project, "go (go.mod)", &[], &commands, &["/*.go", "internal/**"]);
    let with_sums = recognise(&[module, ("go.sum", ""), ("main.go", "")]);
    assert_eq!(with_sums.setup, ["go mod download"]);
    let vendored = [module, ("go.sum", ""), ("vendor/modules.txt", ""), ("main.go", "")];
    assert_eq!(recognise(&vendored).setup, [""; 0]);
}

#[test]
fn many_directories_become_one_glob() {
    let names: Vec<String> = (0..20).map(|number| format!("p{number}/a.go")).collect();
    let mut files = vec![("go.mod", "module a\n")];
    files.extend(names.iter().map(|name| (name.as_str(), "")));
    assert_eq!(recognise(&files).whitelist, ["**/*.go"]);
}

#[test]
fn maven_and_gradle_with_wrapper_or_without() {
    let source = ("src/main/java/A.java", "");
    let project = recognise(&[("pom.xml", "<project/>"), source]);
    assert_eq!(project.commands, ["mvn -B -q test"]);
    assert!(project.setup[0].starts_with("mvn -B -q test -Dtest=NoSuchTest"));
    assert_eq!(project.stacks[0].programs, ["mvn"]);
    let wrapped = recognise(&[("pom.xml", "<project/>"), ("mvnw", ""), source]);
    assert_eq!(wrapped.commands, ["./mvnw -B -q test"]);
    assert_eq!(wrapped.stacks[0].programs, ["java"]);

    let project = recognise(&[("build.gradle", ""), source]);
    let (setup, test) = (["gradle --no-daemon testClasses"], ["gradle --no-daemon test"]);
    assert_project(&project, "gradle (build.gradle)", &setup, &test, &["src/**"]);
    let kotlin = [
        ("settings.gradle.kts", ""),
        ("app/build.gradle.kts", ""),
        ("gradlew", ""),
        ("app/src/main/kotlin/A.kt", ""),
    ];
    let project = recognise(&kotlin);
    let (setup, test) = (["./gradlew --no-daemon testClasses"], ["./gradlew --no-daemon test"]);
    assert_project(&project, "gradle (settings.gradle.kts)", &setup, &test, &["app/**"]);
    let both = recognise(&[("pom.xml", ""), ("build.gradle", ""), ("gradlew", ""), source]);
    assert_eq!(shown(&both), ["gradle (build.gradle)"]);
}

#[test]
fn bundler_with_each_test_framework() {
    let gemfile = ("Gemfile", "gem 'rspec'\n");
    let project =
        recognise(&[gemfile, ("Gemfile.lock", ""), ("lib/a.rb", ""), ("spec/a_spec.rb", "")]);
    let globs = ["lib/**", "spec/**"];
    assert_project(
        &project,
        "bundler (Gemfile.lock)",
        &["bundle install"],
        &["bundle exec rspec"],
        &globs,
    );

    let plain = ("Gemfile", "source 'https://gems.example'\ngemspec\n");
    let rake = ("Rakefile", "Rake::TestTask.new\n");
    let test = ("test/a_test.rb", "");
    assert_eq!(recognise(&[plain, rake, test]).commands, ["bundle exec rake test"]);
    assert_eq!(recognise(&[plain, ("bin/rails", ""), test]).commands, ["bin/rails test"]);
    let minitest = recognise(&[plain, test]);
    assert!(minitest.commands[0].starts_with("bundle exec ruby -Ilib -Itest -e '"));
    assert_eq!(recognise(&[plain, ("lib/a.rb", "")]).commands, [""; 0]);
}

#[test]
fn composer() {
    let tested = "{\"require-dev\": {\"phpunit/phpunit\": \"^11\"}}";
    let project = recognise(&[("composer.json", tested), ("composer.lock", ""), ("src/A.php", "")]);
    let setup = ["composer install --no-interaction"];
    assert_project(
        &project,
        "composer (composer.lock)",
        &setup,
        &["vendor/bin/phpunit"],
        &["src/**"],
    );
    let script = "{\"scripts\": {\"test\": \"pest\"}}";
    assert_eq!(recognise(&[("composer.json", script)]).commands, ["composer test"]);
    assert_eq!(recognise(&[("composer.json", "{}")]).commands, [""; 0]);
    assert_eq!(malformed(&recognise(&[("composer.json", "{")])), ["composer.json"]);
}

#[test]
fn dotnet_elixir_and_cmake() {
    let project = recognise(&[("App.sln", ""), ("App/App.csproj", ""), ("App/Program.cs", "")]);
    let commands = ["dotnet build --no-restore", "dotnet test --no-restore"];
    assert_project(&project, ".NET (App.sln)", &["dotnet restore"], &commands, &["App/**"]);

    let project = recognise(&[("mix.exs", ""), ("lib/a.ex", ""), ("test/a_test.exs", "")]);
    let globs = ["lib/**", "test/**"];
    assert_project(&project, "mix (mix.exs)", &["mix deps.get"], &["mix test"], &globs);

    let (build, source) = (["cmake -B build", "cmake --build build"], ("src/a.cpp", ""));
    let project = recognise(&[("CMakeLists.txt", "project(a)"), source]);
    assert_project(&project, "cmake (CMakeLists.txt)", &[], &build, &["src/**"]);
    let tested = recognise(&[("CMakeLists.txt", "enable_testing ()\n"), source]);
    assert_eq!(tested.commands.last().map(String::as_str), Some("ctest --test-dir build"));
}

#[test]
fn make_runs_only_a_target_that_exists() {
    let command = |makefile: &str| recognise(&[("Makefile", makefile), ("src/a.c", "")]).commands;
    let tested =
        "CC := gcc\nURL = http://a\n.PHONY: all test\nall: a.o\n\tcc -o a a.o\ntest: all\n\t./a\n";
    assert_eq!(command(tested), ["make test"]);
    assert_eq!(command("all:\n\tcc a.c\ncheck:\n\t./a\n"), ["make check"]);
    assert_eq!(command("all:\n\techo test: 1\n"), ["make"]);
    assert_eq!(command("help:\n\t@cat README\nbuild:\n\tcc a.c\n"), ["make build"]);
    assert_eq!(command("deploy:\n\tscp a b:\n"), [""; 0]);
    assert_eq!(command(".DEFAULT_GOAL := serve\nall:\n\ttrue\nserve:\n\ttrue\n"), ["make all"]);
    assert_eq!(command("\u{0}\u{1} = : ::= \n"), [""; 0]);

    let project = recognise(&[("Makefile", tested), ("src/a.c", ""), ("a.h", "")]);
    assert_project(&project, "make (Makefile)", &[], &["make test"], &["/*.h", "src/**"]);
    let with_go = recognise(&[("Makefile", tested), ("go.mod", ""), ("main.go", "")]);
    assert_eq!(shown(&with_go), ["go (go.mod)"], "a Makefile beside a known stack is ignored");
}
