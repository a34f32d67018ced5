//! docs/guides/web.md: the local web page, and the page of a server behind a path prefix.

use super::guide::Guide;
use super::place::Place;

pub(crate) fn follow(guide: &mut Guide) {
    let place = Place::new();
    place.add_script_task("task.toml", "shown", "[[agent.script]]\ndo = \"say\"\ntext = \"Hello.\"\n");
    let mut shell = place.shell();
    shell.run("bailiwick run task.toml --land never").expect_code(0);

    // There is no browser here, so the link is opened with curl.
    guide.fill("bailiwick ui", "bailiwick ui --no-open");
    guide.background("bailiwick ui");
    guide.run(&mut shell);
    let link = shell.wait_for_background("http://");
    let signed_in = shell.run(&format!("curl -s -c jar http://{link}")).expect_code(0);
    assert!(signed_in.out.contains("Signed in"), "{}", signed_in.out);
    let address = link.split('/').next().unwrap();
    let runs = shell.run(&format!("curl -s -b jar http://{address}/ui/runs")).expect_code(0);
    assert!(runs.out.contains("/ui/local/shown"), "{}", runs.out);
    let again = shell.run(&format!("curl -s http://{link}")).expect_code(0);
    assert!(again.out.contains("was used already"), "{}", again.out);
    guide.fill("bailiwick ui", "bailiwick ui");

    let token = guide.run(&mut shell).of("bailiwick tokens new").out.trim().to_owned();
    let mut server = place.shell();
    guide.fill("bailiwick serve", "bailiwick serve --listen 127.0.0.1:0");
    guide.background("bailiwick serve");
    guide.run(&mut server);
    let address = server.wait_for_background("listening on http://");
    let address = address.strip_suffix("/agents").unwrap();
    let sign_in = format!(
        "curl -s -c other -o /dev/null -w '%{{redirect_url}}' -H 'Origin: http://{address}' \
         --data-urlencode 'token={token}' http://{address}/agents/ui/sign-in"
    );
    let next = shell.run(&sign_in).expect_code(0);
    assert_eq!(next.out, format!("http://{address}/agents/ui/runs"));
    let page = shell.run(&format!("curl -s -b other {}", next.out)).expect_code(0);
    assert!(page.out.contains("/agents/ui/local/shown"), "{}", page.out);
}
