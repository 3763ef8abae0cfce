//! Days and times in the proleptic ISO calendar, over the whole range of Cassandra's integers.
//!
//! Written by hand because `timestamp` reaches 292 million years, far beyond what calendar
//! libraries take.

const MILLISECONDS_PER_DAY: i64 = 86_400_000;
/// The last year that milliseconds reach.
const YEAR_MAX: i64 = 292_278_994;
const DAYS_PER_ERA: i64 = 146_097;

/// `2026-11-15 21:00:00.000Z`; years are counted in their era, those beyond 9999 have a plus.
pub(super) fn timestamp(milliseconds: i64, out: &mut String) {
    let (year, month, day) = civil(milliseconds.div_euclid(MILLISECONDS_PER_DAY));
    // The year before 1 is the first one of the other era.
    let year = if year > 0 { year } else { 1 - year };
    day_of(if year > 9999 { "+" } else { "" }, year, month, day, out);
    out.push(' ');
    clock(milliseconds.rem_euclid(MILLISECONDS_PER_DAY), 1000, 3, out);
    out.push('Z');
}

/// `2026-11-15`; years are astronomical, with a sign below 0 and beyond 9999.
pub(crate) fn date(days: i64, out: &mut String) {
    let (year, month, day) = civil(days);
    let sign = match year {
        ..0 => "-",
        0..=9999 => "",
        _ => "+",
    };
    day_of(sign, year.saturating_abs(), month, day, out);
}

/// `21:00:00.000000000`. What is beyond the day as `TimeSerializer.toString` prints it: without the
/// whole days (where a node with assertions fails), and every part below zero as `0-1`.
pub(super) fn time(nanoseconds: i64, out: &mut String) {
    const PARTS: [(i64, i64, usize, &str); 6] = [
        (3_600_000_000_000, 24, 2, ":"),
        (60_000_000_000, 60, 2, ":"),
        (1_000_000_000, 60, 2, "."),
        (1_000_000, 1000, 3, ""),
        (1_000, 1000, 3, ""),
        (1, 1000, 3, ""),
    ];
    for (unit, count, width, behind) in PARTS {
        let part = nanoseconds / unit % count;
        // Every place but the last counts as free below zero.
        let zeros = if part < 0 { width - 1 } else { 0 };
        out.extend(std::iter::repeat_n('0', zeros));
        padded(part, width - zeros, out);
        out.push_str(behind);
    }
}

fn day_of(sign: &str, year: i64, month: i64, day: i64, out: &mut String) {
    out.push_str(sign);
    padded(year, 4, out);
    out.push('-');
    padded(month, 2, out);
    out.push('-');
    padded(day, 2, out);
}

/// A time of day in units of which so many make a second, with so many decimals.
pub(crate) fn clock(of_day: i64, per_second: i64, decimals: usize, out: &mut String) {
    let seconds = of_day / per_second;
    padded(seconds / 3600, 2, out);
    out.push(':');
    padded(seconds / 60 % 60, 2, out);
    out.push(':');
    padded(seconds % 60, 2, out);
    out.push('.');
    padded(of_day % per_second, decimals, out);
}

/// A number with zeros before it up to a width.
fn padded(number: i64, width: usize, out: &mut String) {
    // Months, days, hours, minutes and seconds.
    if let (2, Ok(number @ 0..=99)) = (width, u8::try_from(number)) {
        out.extend([char::from(b'0' + number / 10), char::from(b'0' + number % 10)]);
        return;
    }
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(number);
    for _ in digits.len()..width {
        out.push('0');
    }
    out.push_str(digits);
}

/// Reads a timestamp as [`super::write`] prints it, from year 1 on: milliseconds since 1970.
///
/// ```
/// use helenus_cql::json::parse_timestamp;
///
/// assert_eq!(parse_timestamp("1970-01-02 00:00:00.001Z"), Some(86_400_001));
/// assert_eq!(parse_timestamp("yesterday"), None);
/// ```
#[must_use]
pub fn parse_timestamp(text: &str) -> Option<i64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    let (day, time) = text.strip_suffix('Z')?.split_once(' ')?;
    let [year, month, day] = numbers(day.split('-'))?;
    let (time, fraction) = time.split_once('.')?;
    let [hour, minute, second] = numbers(time.split(':'))?;
    let [milliseconds] = numbers(std::iter::once(fraction))?;
    let sound = (1..=YEAR_MAX).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60
        && fraction.len() == 3;
    let of_day = ((hour * 60 + minute) * 60 + second) * 1000 + milliseconds;
    let days = sound.then(|| days(year, month, day))?;
    days.checked_mul(MILLISECONDS_PER_DAY)?.checked_add(of_day)
}

/// Reads a date as [`date`] prints it, years 0 to 9999: days since 1970.
pub(crate) fn parse_date(text: &str) -> Option<i64> {
    let [year, month, day] = numbers(text.split('-'))?;
    let sound = year <= 9999 && (1..=12).contains(&month) && (1..=31).contains(&day);
    sound.then(|| days(year, month, day))
}

/// Reads a time of day with up to nine decimals: nanoseconds since midnight.
pub(crate) fn parse_time(text: &str) -> Option<i64> {
    let (time, fraction) = text.split_once('.')?;
    let [hour, minute, second] = numbers(time.split(':'))?;
    let [decimals] = numbers(std::iter::once(fraction))?;
    let width = u32::try_from(fraction.len()).ok().filter(|width| *width <= 9)?;
    let sound = hour < 24 && minute < 60 && second < 60;
    let seconds = (hour * 60 + minute) * 60 + second;
    sound.then(|| seconds * 1_000_000_000 + decimals * 10_i64.pow(9 - width))
}

fn numbers<'a, const N: usize>(parts: impl Iterator<Item = &'a str>) -> Option<[i64; N]> {
    let parts: Option<Vec<i64>> =
        parts.map(|part| part.parse::<u32>().ok().map(i64::from)).collect();
    parts?.try_into().ok()
}

/// Year, month and day of a day counted from 1970. Years begin in March here, so that the leap
/// day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_PER_ERA);
    let of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The inverse of [`civil`].
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * DAYS_PER_ERA + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_some_centuries_comes_back() {
        for day in -800_000..800_000 {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
        }
    }

    #[test]
    fn timestamps_are_read_as_they_are_printed() {
        for milliseconds in
            [0, 1, -1, 1_794_770_958_124, -62_135_596_800_000, 253_402_300_800_000, i64::MAX]
        {
            let mut text = String::new();
            timestamp(milliseconds, &mut text);
            assert_eq!(parse_timestamp(&text), Some(milliseconds));
        }
        for wrong in ["", "2026-11-15", "2026-13-01 00:00:00.000Z", "2026-01-01 00:00:00.1Z"] {
            assert_eq!(parse_timestamp(wrong), None);
        }
    }
}
