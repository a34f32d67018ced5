//! Which quota refuses a Job. The API server answers `Forbidden` for quotas as for permissions, and names the quota in
//! its message only; so it is computed from the quotas themselves.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// The first quota that leaves no room for a Job and its pod, in words. Quotas with a scope are left out: whether they
/// apply is for the API server to say.
pub fn exceeded(quotas: &[ResourceQuota], job: &Job) -> Option<String> {
    let needs = needs(job);
    let applying = quotas.iter().filter(|quota| {
        let spec = quota.spec.as_ref();
        spec.is_some_and(|spec| spec.scopes.is_none() && spec.scope_selector.is_none())
    });
    for quota in applying {
        let name = quota.metadata.name.as_deref().unwrap_or_default();
        let status = quota.status.clone().unwrap_or_default();
        let used = status.used.unwrap_or_default();
        for (resource, hard) in status.hard.unwrap_or_default() {
            let Some(needed) = needs.get(resource.as_str()) else { continue };
            let (Some(limit), Some(need)) = (thousandths(&hard.0), thousandths(needed)) else {
                continue;
            };
            let now = used.get(&resource).map_or("0", |quantity| quantity.0.as_str());
            if thousandths(now).unwrap_or_default().saturating_add(need) > limit {
                return Some(format!(
                    "the quota {name} allows {} of {resource}; {now} is used, and the pod needs {needed}",
                    hard.0
                ));
            }
        }
    }
    None
}

/// What a Job and its pod use, by the names that quotas have for it.
fn needs(job: &Job) -> BTreeMap<String, String> {
    let one = |name: &str| (name.to_owned(), "1".to_owned());
    let mut needs: BTreeMap<String, String> =
        [one("pods"), one("count/pods"), one("count/jobs.batch")].into();
    let pod = job.spec.as_ref().and_then(|spec| spec.template.spec.as_ref());
    let Some(container) = pod.and_then(|pod| pod.containers.first()) else { return needs };
    let resources = container.resources.clone().unwrap_or_default();
    let mut add = |name: String, Quantity(amount): &Quantity| needs.insert(name, amount.clone());
    for (resource, amount) in resources.requests.iter().flatten() {
        add(resource.clone(), amount);
        add(format!("requests.{resource}"), amount);
    }
    for (resource, amount) in resources.limits.iter().flatten() {
        add(format!("limits.{resource}"), amount);
    }
    needs
}

/// An amount in thousandths, as far as it is one.
fn thousandths(text: &str) -> Option<i128> {
    const UNITS: [(&str, i128); 14] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("Ti", 1 << 40),
        ("Pi", 1 << 50),
        ("Ei", 1 << 60),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
        ("T", 1_000_000_000_000),
        ("P", 1_000_000_000_000_000),
        ("E", 1_000_000_000_000_000_000),
        ("m", 0),
        ("", 1),
    ];
    let (number, unit) =
        UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: i128 = whole.parse().ok()?;
    if unit == 0 {
        return Some(whole);
    }
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let fraction: i128 = digits.parse().ok()?;
    Some(whole.saturating_mul(1_000).saturating_add(fraction).saturating_mul(unit))
}

#[cfg(test)]
mod tests {
    use super::thousandths;

    #[test]
    fn amounts_are_converted_to_thousandths() {
        for (text, amount) in [
            ("1", Some(1_000)),
            ("500m", Some(500)),
            ("1.5", Some(1_500)),
            ("2Ki", Some(2_048_000)),
            ("1.5Gi", Some(1_610_612_736_000)),
            ("3k", Some(3_000_000)),
            ("", None),
            ("many", None),
        ] {
            assert_eq!(thousandths(text), amount, "{text}");
        }
    }
}
