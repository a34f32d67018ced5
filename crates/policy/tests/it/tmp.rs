//! tmp
use crate::grammar::Grammar;
use bailiwick_testkit::random::Random;
#[test]
fn timing() {
    let mut r = Random::new(5);
    let cs: Vec<String> = (0..5000).map(|_| Grammar::new(&mut r).command(2)).collect();
    let t = std::time::Instant::now();
    for c in &cs {
        bailiwick_policy::shell::read(c);
    }
    println!("{:?} for 5000", t.elapsed());
}
