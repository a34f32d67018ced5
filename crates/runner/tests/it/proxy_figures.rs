//! The cost of a request through the proxy, compared with the same request without it.

use std::time::{Duration, Instant};

use bailiwick_runner::proxy::ModelApi;
use bailiwick_testkit::figure;
use bailiwick_testkit::scripted_model::{Call, Script, ScriptedModel, Turn};
use bailiwick_testkit::stopwatch::median;
use serde_json::json;

use crate::proxy_lab::{Lab, Recorder, beginning, post};

#[test]
fn request_cost() {
    let script = Script::new(vec![Turn::Calls(vec![Call::shell("true")]), Turn::say("done")]);
    let model = ScriptedModel::start(script);
    let observer = Recorder::allowing();
    let lab = Lab::new(ModelApi::Anthropic, Some(&model.base_url()), &observer);
    let direct = model.base_url().trim_start_matches("http://").parse().unwrap();
    let (path, mut body) = beginning(ModelApi::Anthropic);
    for (size, words) in [("short", 1), ("of 300 KB", 60_000)] {
        body["messages"] = json!([{"role": "user", "content": "words ".repeat(words)}]);
        let (mut through, mut direct_times) = (Vec::new(), Vec::new());
        for _ in 0..60 {
            for (address, times) in
                [(lab.proxy.address(), &mut through), (direct, &mut direct_times)]
            {
                let start = Instant::now();
                assert_eq!(post(address, path, &body).status, 200);
                times.push(start.elapsed());
            }
        }
        let thousandths = |time: Duration| time.as_secs_f64() * 1000.0;
        figure(&format!(
            "proxy: a request {size} takes {:.2} ms through it, {:.2} ms without (medians of 60)",
            thousandths(median(&mut through)),
            thousandths(median(&mut direct_times)),
        ));
    }
}
