//! The values a user of a node sets. Components (clock, metrics, tracer) go to the builder instead.

use flyball_core::Rules;
use flyball_core::store::StoreSettings;

/// Everything about a node that is a plain value.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `host:port` under which peers reach this node, exactly as they will write it. It is the node's
    /// identity, shown in health answers. Default empty.
    pub advertise_address: String,
    /// The data center this node belongs to; may be empty, the default.
    pub data_center: String,
    /// How checks are judged. One thing is said twice, here and in [`StoreSettings::semantics`]; the builder
    /// takes the one given here.
    pub rules: Rules,
    /// Size and shape of the bucket store.
    pub store: StoreSettings,
}
