//! A busy machine does not change decisions.

use std::sync::atomic::{AtomicBool, Ordering};

use bailiwick_testkit::{Depth, figure};

use super::{GateFixture, run_with_input};

#[test]
fn decisions_do_not_change_with_all_cores_oversubscribed_four_times() {
    let fixture = GateFixture::new();
    let calls = [
        (fixture.shell("ls -la | head -3"), 0),
        (fixture.shell("g''it push"), 2),
        (fixture.shell("for f in *.md; do rm -f \"$f\"; done; echo 'git push'"), 2),
        (fixture.shell("cargo test 2>&1 | tee src/log.txt"), 0),
        (fixture.shell("echo x > src/../README.md"), 2),
    ];
    let cores = std::thread::available_parallelism().map_or(2, usize::from);
    let decisions = usize::try_from(Depth::from_env().cases(10_000)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 * cores {
            scope.spawn(|| {
                let mut number = 1_u64;
                while !stop.load(Ordering::Relaxed) {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    std::hint::black_box(number);
                }
            });
        }
        let threads: Vec<_> = (0..2 * cores)
            .map(|asker| {
                let (fixture, calls) = (&fixture, &calls);
                scope.spawn(move || {
                    for index in (asker..decisions).step_by(2 * cores) {
                        let (call, expected) = &calls[index % calls.len()];
                        let output = run_with_input(&mut fixture.gate("claude"), call.as_bytes());
                        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                        assert_eq!(output.status.code(), Some(*expected), "{call}: {stderr}");
                    }
                })
            })
            .collect();
        let results: Vec<_> = threads.into_iter().map(|asker| asker.join()).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "a decision changed");
    });
    figure(&format!(
        "load: {decisions} decisions by the gate program with {} busy threads on {cores} cores, 0 \
         verdicts flipped",
        4 * cores
    ));
}
