//! The median and how far the measurements lie apart: on a shared machine a mean says little.

use serde::Serialize;

/// Some measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The middle one; of an even number the mean of the two in the middle.
    pub median: f64,
    pub least: f64,
    pub most: f64,
    pub count: usize,
}

impl Summary {
    /// `None` of nothing, or of something that is no number.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let median = f64::midpoint(sorted[(count - 1) / 2], sorted[count / 2]);
        Some(Self { median, least: sorted[0], most: sorted[count - 1], count })
    }

    /// Half the range in per cent of the median: the ± of the report.
    pub fn spread_percent(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.most - self.least) / 2.0 / self.median * 100.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_spread() {
        let odd = Summary::of(&[5.0, 1.0, 4.0]).unwrap();
        assert_eq!(odd, Summary { median: 4.0, least: 1.0, most: 5.0, count: 3 });
        assert_eq!(odd.spread_percent(), 50.0);
        assert_eq!(Summary::of(&[1.0, 2.0, 10.0, 4.0]).unwrap().median, 3.0);
        assert_eq!(Summary::of(&[7.0]).unwrap().spread_percent(), 0.0);
    }

    #[test]
    fn nothing_has_no_median() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }
}
