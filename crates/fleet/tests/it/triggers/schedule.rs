//! When schedules fire: a simple model over every minute, and days with clock changes.

use bailiwick_fleet::triggers::{Fire, ScheduleError, schedule};
use bailiwick_resources::{EventSource, Moment, Schedule, TrustTier};
use bailiwick_testkit::random::Random;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

const MINUTE: u64 = 60_000;

fn schedule_with(cron: &str, zone: Option<&str>, catch_up: Option<&str>) -> Schedule {
    serde_json::from_value(json!({ "cron": cron, "timeZone": zone, "catchUp": catch_up,
        "repository": "acme/app" }))
    .unwrap()
}

fn at(text: &str) -> Moment {
    text.parse().unwrap()
}

/// The fires between two moments.
fn fires(cron: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
    let compiled = schedule::compile(&schedule_with(cron, Some(zone), None)).unwrap();
    let (mut now, end) = (at(from), at(to));
    let mut found = Vec::new();
    while let Some(next) = compiled.next_after(now).filter(|next| *next <= end) {
        found.push(next.to_string().replace(":00.000Z", "Z"));
        now = next;
    }
    found
}

#[derive(Debug)]
struct Field {
    text: String,
    values: Vec<i8>,
}

fn field(random: &mut Random, from: i8, to: i8) -> Field {
    let span = usize::try_from(to - from + 1).unwrap();
    let pick = |random: &mut Random| from + i8::try_from(random.below(span)).unwrap();
    match random.below(4) {
        0 => Field { text: "*".to_owned(), values: (from..=to).collect() },
        1 => {
            let step = 2 + random.below(9);
            Field { text: format!("*/{step}"), values: (from..=to).step_by(step).collect() }
        }
        2 => {
            let (one, other) = (pick(random), pick(random));
            let (low, high) = (one.min(other), one.max(other));
            Field { text: format!("{low}-{high}"), values: (low..=high).collect() }
        }
        _ => {
            let values: Vec<i8> = (0..=random.below(3)).map(|_| pick(random)).collect();
            let words: Vec<String> = values.iter().map(ToString::to_string).collect();
            Field { text: words.join(","), values }
        }
    }
}

#[test]
fn next_fire_is_the_next_matching_minute() {
    let mut random = Random::rotating("schedules");
    let mut checked = 0;
    for _ in 0..300 {
        let (minute, hour) = (field(&mut random, 0, 59), field(&mut random, 0, 23));
        let (month, weekday) = (field(&mut random, 1, 12), field(&mut random, 0, 6));
        // If both day fields are restricted, either is enough: this case has its own test, so one of them is `*`
        // here.
        let cron = format!("{} {} * {} {}", minute.text, hour.text, month.text, weekday.text);
        let compiled = schedule::compile(&schedule_with(&cron, None, None)).unwrap();
        let start = 1_790_000_000_000 + random.number() % 10_000_000_000;
        let agrees = |moment: u64| {
            let time = Timestamp::from_millisecond(moment.try_into().unwrap()).unwrap();
            let time = time.to_zoned(TimeZone::UTC);
            minute.values.contains(&time.minute())
                && hour.values.contains(&time.hour())
                && month.values.contains(&time.month())
                && weekday.values.contains(&time.weekday().to_sunday_zero_offset())
        };
        let first = start - start % MINUTE + MINUTE;
        let model = (0..45 * 24 * 60).map(|step| first + step * MINUTE).find(|at| agrees(*at));
        let next = compiled.next_after(Moment::from_millis(start)).unwrap();
        match model {
            Some(expected) => {
                assert_eq!(next, Moment::from_millis(expected), "{cron} after {start}");
                checked += 1;
            }
            None => assert!(next.millis() >= first + 45 * 24 * 60 * MINUTE, "{cron}"),
        }
    }
    assert!(checked > 100, "{checked} were compared");
}

#[test]
fn day_of_month_or_day_of_week_is_enough() {
    // The 13th, and every Friday.
    let found = fires("0 0 13 * 5", "UTC", "2026-11-01T00:00:00Z", "2026-11-30T00:00:00Z");
    assert_eq!(
        found,
        ["2026-11-06T00:00Z", "2026-11-13T00:00Z", "2026-11-20T00:00Z", "2026-11-27T00:00Z"]
    );
}

#[test]
fn time_that_is_skipped_in_spring_fires_once() {
    // In Berlin, 02:00 to 03:00 does not exist on 2026-03-29: 01:00 UTC is 03:00.
    let found =
        fires("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00:00Z", "2026-03-30T12:00:00Z");
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(found[0], "2026-03-28T01:30Z");
    assert!(found[1].starts_with("2026-03-29T01:"), "{found:?}");
    assert_eq!(found[2], "2026-03-30T00:30Z");
}

#[test]
fn time_that_occurs_twice_in_autumn_fires_once() {
    // In Berlin, 02:30 on 2026-10-25 is at 00:30 and at 01:30 UTC.
    let found =
        fires("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z");
    assert_eq!(found, ["2026-10-25T00:30Z", "2026-10-26T01:30Z"]);
}

#[test]
fn periodic_schedule_continues_through_a_clock_change() {
    for (from, to) in [
        ("2026-03-28T23:59:00Z", "2026-03-29T03:00:00Z"),
        ("2026-10-24T23:59:00Z", "2026-10-25T03:00:00Z"),
    ] {
        let found = fires("*/30 * * * *", "Europe/Berlin", from, to);
        assert_eq!(found.len(), 7, "every half hour for three hours, {found:?}");
        let hourly =
            fires("0 * * * *", "America/New_York", "2026-11-01T03:30:00Z", "2026-11-01T08:30:00Z");
        assert_eq!(hourly.len(), 5, "{hourly:?}");
    }
}

#[test]
fn missed_fires_are_caught_up_within_the_catch_up_time() {
    let now = at("2026-11-15T18:00:30Z");
    let since = at("2026-11-15T10:00:00Z");
    let due = |catch_up: Option<&str>| {
        schedule::compile(&schedule_with("0 * * * *", None, catch_up)).unwrap().due(since, now)
    };
    let hours = |fires: &[Fire]| {
        fires.iter().map(|fire| (fire.at.to_string(), fire.late)).collect::<Vec<_>>()
    };
    assert_eq!(hours(&due(None)), [("2026-11-15T18:00:00.000Z".to_owned(), false)]);
    assert_eq!(
        hours(&due(Some("2h"))),
        [
            ("2026-11-15T17:00:00.000Z".to_owned(), true),
            ("2026-11-15T18:00:00.000Z".to_owned(), false)
        ]
    );
    assert_eq!(due(Some("1d")).len(), 8, "not before `since`");
    let flood = schedule::compile(&schedule_with("* * * * *", None, Some("2d"))).unwrap();
    let flood = flood.due(Moment::from_millis(0), now);
    assert_eq!(flood.len(), 64, "the latest 64 only");
    assert_eq!(flood.last().unwrap().at, at("2026-11-15T18:00:00Z"));
}

#[test]
fn no_fire_is_lost_or_repeated_for_any_polling_times() {
    let mut random = Random::rotating("looking at schedules");
    let compiled = schedule::compile(&schedule_with("*/7 * * * *", None, Some("6h"))).unwrap();
    let (start, end) = (at("2026-11-15T00:00:00Z"), at("2026-11-17T00:00:00Z"));
    let mut since = start;
    let mut uids = Vec::new();
    while since < end {
        let now = since.plus_millis(1 + random.number() % (3 * 3_600_000)).min(end);
        // Polled twice, as after a crash: the second poll returns the same ids.
        let due = compiled.due(since, now);
        assert_eq!(due, compiled.due(since, now));
        uids.extend(due.iter().map(|fire| compiled.event("nightly", *fire).uid));
        since = now;
    }
    let mut expected = Vec::new();
    let mut from = start;
    while let Some(next) = compiled.next_after(from).filter(|next| *next <= end) {
        expected.push(format!("schedule/nightly/{next}"));
        from = next;
    }
    assert_eq!(uids, expected);
}

#[test]
fn scheduled_event_is_trusted_and_has_its_ref() {
    let mut schedule = schedule_with("0 3 * * *", None, None);
    schedule.reference = Some("refs/heads/release".to_owned());
    let compiled = schedule::compile(&schedule).unwrap();
    let fire = Fire { at: at("2026-11-15T03:00:00Z"), late: false };
    let event = compiled.event("nightly", fire);
    assert_eq!((event.source, event.repository.as_str()), (EventSource::Schedule, "acme/app"));
    assert_eq!(event.branch.as_deref(), Some("release"));
    assert_eq!(event.trust_tier, TrustTier::Trusted);
    assert_eq!(event.source_refs.schedule.as_deref(), Some("nightly"));
}

#[test]
fn invalid_schedule_is_refused_with_its_reason() {
    for cron in ["", "* * * *", "* * * * * *", "61 * * * *", "@daily", "a b c d e", "0 0 0 * *"] {
        let error = schedule::compile(&schedule_with(cron, None, None)).unwrap_err();
        assert!(matches!(error, ScheduleError::Cron { .. }), "{cron}: {error}");
    }
    let never = schedule::compile(&schedule_with("0 0 30 2 *", None, None)).unwrap_err();
    assert!(matches!(never, ScheduleError::Never { .. }), "{never}");
    for zone in ["Mars/Base", "", "../../etc/passwd", "/etc/localtime"] {
        let error = schedule::compile(&schedule_with("0 0 * * *", Some(zone), None)).unwrap_err();
        assert!(matches!(error, ScheduleError::TimeZone { .. }), "{zone}: {error}");
    }
    assert!(
        schedule::compile(&schedule_with("0 0 29 2 *", None, None)).is_ok(),
        "a leap day exists"
    );
}
