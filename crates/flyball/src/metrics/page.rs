//! The metrics page as a list of families, written by the `prometheus` crate's text encoder.

use prometheus::TextEncoder;
use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType, Quantile, Summary,
};

use super::more::{Family, FamilyKind};
use super::timing::{BOUNDS, Snapshot};

/// Labels of one series, in alphabetical order of their names.
pub(super) type Labels<'a> = &'a [(&'a str, &'a str)];

/// Families in the order in which they were added. A family without series does not appear.
#[derive(Debug, Default)]
pub(super) struct Page(Vec<MetricFamily>);

impl Page {
    fn family(&mut self, name: &str, help: &str, kind: MetricType, series: Vec<Metric>) {
        if series.is_empty() {
            return;
        }
        let mut family = MetricFamily::default();
        family.set_name(name.to_owned());
        family.set_help(help.to_owned());
        family.set_field_type(kind);
        family.set_metric(series);
        self.0.push(family);
    }

    pub(super) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.counters(name, help, [(&[] as Labels<'_>, value)]);
    }

    pub(super) fn counters<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a>, u64)>,
    ) {
        let series = series.into_iter().map(|(labels, value)| {
            let mut counter = Counter::default();
            counter.set_value(value as f64);
            let mut metric = labelled(labels);
            metric.set_counter(counter);
            metric
        });
        self.family(name, help, MetricType::COUNTER, series.collect());
    }

    /// A counter of fractions, such as seconds.
    pub(super) fn counter_f64(&mut self, name: &str, help: &str, value: f64) {
        let mut counter = Counter::default();
        counter.set_value(value);
        let mut metric = Metric::default();
        metric.set_counter(counter);
        self.family(name, help, MetricType::COUNTER, vec![metric]);
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.gauges(name, help, [(&[] as Labels<'_>, value)]);
    }

    pub(super) fn gauges<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a>, f64)>,
    ) {
        let series = series.into_iter().map(|(labels, value)| {
            let mut gauge = Gauge::default();
            gauge.set_value(value);
            let mut metric = labelled(labels);
            metric.set_gauge(gauge);
            metric
        });
        self.family(name, help, MetricType::GAUGE, series.collect());
    }

    /// Summaries with these quantiles; each series brings how often the thing happened, which is more than
    /// how often it was timed.
    pub(super) fn summaries<'a>(
        &mut self,
        name: &str,
        help: &str,
        quantiles: &[f64],
        series: impl IntoIterator<Item = (Labels<'a>, u64, Snapshot)>,
    ) {
        let series = series.into_iter().map(|(labels, count, snapshot)| {
            let values = quantiles.iter().map(|quantile| {
                let mut value = Quantile::default();
                value.set_quantile(*quantile);
                value.set_value(snapshot.quantile(*quantile));
                value
            });
            let mut summary = Summary::default();
            summary.set_quantile(values.collect());
            summary.set_sample_sum(snapshot.sum);
            summary.set_sample_count(count);
            let mut metric = labelled(labels);
            metric.set_summary(summary);
            metric
        });
        self.family(name, help, MetricType::SUMMARY, series.collect());
    }

    pub(super) fn histograms<'a>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'a>, Snapshot)>,
    ) {
        let series = series.into_iter().map(|(labels, snapshot)| {
            let buckets = BOUNDS.iter().zip(snapshot.cumulative).map(|(bound, count)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(*bound);
                bucket.set_cumulative_count(count);
                bucket
            });
            let mut histogram = Histogram::default();
            histogram.set_bucket(buckets.collect());
            histogram.set_sample_sum(snapshot.sum);
            histogram.set_sample_count(snapshot.weight);
            let mut metric = labelled(labels);
            metric.set_histogram(histogram);
            metric
        });
        self.family(name, help, MetricType::HISTOGRAM, series.collect());
    }

    /// A family of the program around the node.
    pub(super) fn more(&mut self, more: &Family) {
        let series = more.series.iter().map(|(labels, value)| {
            let labels: Vec<_> = labels.iter().map(|(name, value)| (*name, &**value)).collect();
            let mut metric = labelled(&labels);
            match more.kind {
                FamilyKind::Counter => {
                    let mut counter = Counter::default();
                    counter.set_value(*value);
                    metric.set_counter(counter);
                }
                FamilyKind::Gauge => {
                    let mut gauge = Gauge::default();
                    gauge.set_value(*value);
                    metric.set_gauge(gauge);
                }
            }
            metric
        });
        let kind = match more.kind {
            FamilyKind::Counter => MetricType::COUNTER,
            FamilyKind::Gauge => MetricType::GAUGE,
        };
        self.family(more.name, more.help, kind, series.collect());
    }

    /// The page in text format 0.0.4.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // The encoder refuses only families without a name or without series, and `family` adds none.
        if let Err(error) = TextEncoder::new().encode_utf8(&self.0, &mut text) {
            tracing::error!(%error, "the metrics page is incomplete");
        }
        text
    }
}

fn labelled(labels: Labels<'_>) -> Metric {
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    Metric::from_label(pairs.collect())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::timing::Timing;
    use super::*;

    #[test]
    fn values_are_written_as_prometheus_reads_them() {
        let mut page = Page::default();
        page.counters("none", "Never seen.", []);
        page.counter("plain", "A counter.", 3);
        page.gauges("labelled", "A \"gauge\".", [(&[("a", "x\"y\n"), ("b", "")] as Labels<'_>, -1.5)]);
        let empty = Timing::default().snapshot(Instant::now());
        page.summaries("times", "Seconds.", &[0.5, 0.99], [(&[] as Labels<'_>, 0, empty)]);
        let expected = "# HELP plain A counter.\n# TYPE plain counter\nplain 3\n\
            # HELP labelled A \"gauge\".\n# TYPE labelled gauge\nlabelled{a=\"x\\\"y\\n\",b=\"\"} -1.5\n\
            # HELP times Seconds.\n# TYPE times summary\ntimes{quantile=\"0.5\"} NaN\n\
            times{quantile=\"0.99\"} NaN\ntimes_sum 0\ntimes_count 0\n";
        assert_eq!(page.text(), expected);
    }
}
