//! The five methods of the two services, as values: what is dispatched, counted and traced.

/// One method of `V1` or `PeersV1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Method {
    GetRateLimits,
    HealthCheck,
    LiveCheck,
    GetPeerRateLimits,
    UpdatePeerGlobals,
}

pub(crate) const V1: &str = "pb.gubernator.V1";
pub(crate) const PEERS_V1: &str = "pb.gubernator.PeersV1";

impl Method {
    pub(crate) const ALL: [Self; 5] = [
        Self::GetRateLimits,
        Self::HealthCheck,
        Self::LiveCheck,
        Self::GetPeerRateLimits,
        Self::UpdatePeerGlobals,
    ];

    /// `/service/method`, as in the request line.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::GetRateLimits => "/pb.gubernator.V1/GetRateLimits",
            Self::HealthCheck => "/pb.gubernator.V1/HealthCheck",
            Self::LiveCheck => "/pb.gubernator.V1/LiveCheck",
            Self::GetPeerRateLimits => "/pb.gubernator.PeersV1/GetPeerRateLimits",
            Self::UpdatePeerGlobals => "/pb.gubernator.PeersV1/UpdatePeerGlobals",
        }
    }

    pub(crate) const fn service(self) -> &'static str {
        match self {
            Self::GetRateLimits | Self::HealthCheck | Self::LiveCheck => V1,
            Self::GetPeerRateLimits | Self::UpdatePeerGlobals => PEERS_V1,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::GetRateLimits => "GetRateLimits",
            Self::HealthCheck => "HealthCheck",
            Self::LiveCheck => "LiveCheck",
            Self::GetPeerRateLimits => "GetPeerRateLimits",
            Self::UpdatePeerGlobals => "UpdatePeerGlobals",
        }
    }

    /// The path without its first slash.
    pub(crate) fn span_name(self) -> &'static str {
        &self.path()[1..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_made_of_service_and_name() {
        for method in Method::ALL {
            assert_eq!(method.path(), format!("/{}/{}", method.service(), method.name()));
            assert_eq!(Method::ALL[method as usize], method);
        }
    }
}
