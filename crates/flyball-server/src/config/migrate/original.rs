//! Every variable that Gubernator v2.21.0 reads, with its default there, and where flyball means something else.
//!
//! One row per variable, in the order of the guide. What a variable is called here and what its default is comes from
//! the table of settings, so this one has nothing but the original's side and the difference. A test holds that no
//! variable of the original that has a setting here is missing.

/// A variable of the original.
#[derive(Debug)]
pub(super) struct Original {
    pub(super) variable: &'static str,
    /// Its default there, in its own words; `none` when there is none.
    pub(super) default: &'static str,
    pub(super) differs: &'static [Difference],
    /// Not read here by intention: there is no setting to look for.
    pub(super) unread: bool,
}

/// Where the two mean different things.
#[derive(Debug)]
pub(super) struct Difference {
    /// Mark in the list of the original's oddities; empty when it has none.
    pub(super) id: &'static str,
    pub(super) when: When,
    pub(super) text: &'static str,
}

/// In which environments a difference shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// With a value.
    Set,
    /// Without one.
    Unset,
    /// With one of these values, in whatever case.
    Value(&'static [&'static str]),
}

const fn row(variable: &'static str, default: &'static str, differs: &'static [Difference]) -> Original {
    Original { variable, default, differs, unread: false }
}

const fn unread(variable: &'static str, default: &'static str, differs: &'static [Difference]) -> Original {
    Original { variable, default, differs, unread: true }
}

const fn set(id: &'static str, text: &'static str) -> Difference {
    Difference { id, when: When::Set, text }
}

const fn unset(id: &'static str, text: &'static str) -> Difference {
    Difference { id, when: When::Unset, text }
}

const fn value(id: &'static str, values: &'static [&'static str], text: &'static str) -> Difference {
    Difference { id, when: When::Value(values), text }
}

/// A variable whose rows say nothing about it: what it means is the same.
const SAME: &[Difference] = &[];

/// Said of each of the three mandatory ones of their discovery type.
const NOT_BY_PREFIX: &str = "looked at only with its own discovery type; there, variables of this prefix demand it \
                             whatever the type";

/// Every variable that begins `GUBER_TLS_`.
const TLS_ON: Difference = set(
    "F2",
    "a value turns TLS on, as there; an empty one does not, and one without a certificate is refused",
);

const NO_PROXY: Difference = set("", "not read: peers and collectors are dialled directly");

/// In the order of the guide.
pub(super) const ORIGINALS: &[Original] = &[
    // Basic.
    row(
        "GUBER_GRPC_ADDRESS",
        "localhost:1051",
        &[unset(
            "",
            "the default is the same listener under another text, 127.0.0.1:1051: a ring that has localhost:1051 \
             needs GUBER_ADVERTISE_ADDRESS=localhost:1051",
        )],
    ),
    row("GUBER_HTTP_ADDRESS", "localhost:1050", SAME),
    row("GUBER_ADVERTISE_ADDRESS", "the gRPC address", SAME),
    row(
        "GUBER_STATUS_HTTP_ADDRESS",
        "off",
        &[set("", "serves /livez, /readyz and /healthz beside the original's /v1/HealthCheck")],
    ),
    row(
        "GUBER_INSTANCE_ID",
        "container id, else random",
        &[unset("F11", "one id for logs and traces; there they differ outside a container")],
    ),
    row(
        "GUBER_DATA_CENTER",
        "none",
        &[set(
            "D5",
            "with Kubernetes discovery it is the peers' data center too; there it makes all of them remote",
        )],
    ),
    row(
        "GUBER_CACHE_SIZE",
        "50000",
        &[
            unset(
                "",
                "bounded by bytes (FLYBALL_CACHE_BYTES, 256MiB, over a million buckets) instead of 50000 entries",
            ),
            set(
                "",
                "bounds the entries, and FLYBALL_CACHE_BYTES (256MiB) holds as well; a full store evicts the fullest \
                 bucket of a sample, not the least recently used",
            ),
        ],
    ),
    row(
        "GUBER_WORKER_COUNT",
        "number of CPUs",
        &[set(
            "",
            "the number of the store's locks: there are no workers. A negative number is refused, there it crashes",
        )],
    ),
    row("GUBER_GRPC_MAX_CONN_AGE_SEC", "0, unlimited", SAME),
    row(
        "GUBER_GRACEFUL_TERMINATION_DELAY_SEC",
        "0",
        &[set(
            "",
            "the node says that it is not ready meanwhile (/readyz, grpc.health.v1); there nothing says so",
        )],
    ),
    row(
        "GUBER_METRIC_FLAGS",
        "none",
        &[
            value(
                "",
                &["golang", "os,golang", "golang,os"],
                "`golang` is accepted and adds nothing: there is no such runtime",
            ),
            set("", "an unknown word is refused; there it is logged and ignored"),
        ],
    ),
    row(
        "GUBER_DEBUG",
        "false",
        &[
            set(
                "F9",
                "the configuration is not dumped into the log; ask `flyball config`, which hides secrets",
            ),
            set("", "beats GUBER_LOG_LEVEL only from the same source or a weaker one"),
        ],
    ),
    row("GUBER_LOG_LEVEL", "info", SAME),
    row("GUBER_LOG_FORMAT", "text", SAME),
    row(
        "GUBER_HTTP_RETRY_COUNT",
        "1",
        &[set(
            "F4",
            "`flyball healthcheck` ends with 2 when the node answers that it is unhealthy; there with 1",
        )],
    ),
    // Behavior.
    row("GUBER_BATCH_TIMEOUT", "500ms", &[set("C3", "bounds every forward, connecting included")]),
    row("GUBER_BATCH_LIMIT", "1000", SAME),
    row(
        "GUBER_BATCH_WAIT",
        "500us",
        &[set(
            "",
            "the longest wait, not the usual one: the first check to a peer that is idle leaves at once",
        )],
    ),
    row("GUBER_DISABLE_BATCHING", "false", SAME),
    row("GUBER_GLOBAL_TIMEOUT", "500ms", SAME),
    row(
        "GUBER_GLOBAL_BATCH_LIMIT",
        "1000",
        &[set("C9", "above 1000 a message still has at most 1000 items, since a receiver refuses more")],
    ),
    row("GUBER_GLOBAL_SYNC_WAIT", "100ms", SAME),
    row("GUBER_FORCE_GLOBAL", "false", SAME),
    row(
        "GUBER_SCHEDULE_MAX_WAIT",
        "5m",
        &[set("F14", "as there it holds for the keys a node owns: the same value on every node")],
    ),
    // Picker.
    row("GUBER_PEER_PICKER", "replicated-hash with fnv1 and 512 replicas", SAME),
    row("GUBER_PEER_PICKER_HASH", "fnv1a", SAME),
    row(
        "GUBER_REPLICATED_HASH_REPLICAS",
        "512",
        &[set("", "from 1 to 65536, else refused; there a negative number makes a ring without points")],
    ),
    // Discovery.
    row(
        "GUBER_PEER_DISCOVERY_TYPE",
        "member-list",
        &[
            unset(
                "",
                "member-list only if a GUBER_MEMBERLIST_ variable has a value, else a healthy cluster of one",
            ),
            value(
                "",
                &["none"],
                "a healthy cluster of one; there every check fails, since the pool is empty",
            ),
            value(
                "D4",
                &["dns"],
                "asks by TCP when an answer was cut, never more often than once a second, and finds IPv6 addresses of its own",
            ),
            value(
                "D11",
                &["member-list", "etcd", "k8s"],
                "HTTP answers while the source cannot be reached, and the node tries again; there it blocks or exits",
            ),
        ],
    ),
    row("GUBER_MEMBERLIST_ADDRESS", "<advertise host>:7946", SAME),
    row("GUBER_MEMBERLIST_BIND_ADDRESS", "0.0.0.0:7946", SAME),
    row("GUBER_MEMBERLIST_ADVERTISE_ADDRESS", "the advertise address", SAME),
    row(
        "GUBER_MEMBERLIST_KNOWN_NODES",
        "none",
        &[
            set("F2", NOT_BY_PREFIX),
            set("D1", "nodes that share one IP address are told apart by name; originals still confuse them"),
        ],
    ),
    row("GUBER_MEMBERLIST_NODE_NAME", "host name", SAME),
    row("GUBER_MEMBERLIST_SECRET_KEYS", "none", SAME),
    row(
        "GUBER_MEMBERLIST_GOSSIP_VERIFY_INCOMING",
        "true",
        &[value(
            "D2",
            &["false", "f", "0"],
            "takes effect: gossip that is not encrypted is accepted; there it is not, whatever this says",
        )],
    ),
    row(
        "GUBER_MEMBERLIST_GOSSIP_VERIFY_OUTGOING",
        "true",
        &[value(
            "D2",
            &["false", "f", "0"],
            "takes effect: gossip is sent in the clear; there it is not, whatever this says",
        )],
    ),
    row("GUBER_ETCD_ENDPOINTS", "localhost:2379", SAME),
    row("GUBER_ETCD_KEY_PREFIX", "/gubernator-peers", SAME),
    row(
        "GUBER_ETCD_ADVERTISE_ADDRESS",
        "the advertise address",
        &[set("D7", "is what health goes by as well")],
    ),
    row("GUBER_ETCD_DATA_CENTER", "GUBER_DATA_CENTER", SAME),
    row("GUBER_ETCD_DIAL_TIMEOUT", "5s", SAME),
    row("GUBER_ETCD_USER", "none", SAME),
    row("GUBER_ETCD_PASSWORD", "none", SAME),
    row("GUBER_ETCD_TLS_CA", "none", SAME),
    row("GUBER_ETCD_TLS_CERT", "none", SAME),
    row("GUBER_ETCD_TLS_KEY", "none", SAME),
    row("GUBER_ETCD_TLS_ENABLE", "off", SAME),
    row(
        "GUBER_ETCD_TLS_SKIP_VERIFY",
        "off",
        &[value(
            "F7",
            &["false", "f", "0"],
            "means false: etcd's certificate is verified; there any text turns that off",
        )],
    ),
    row("ETCD3_USER", "none", SAME),
    row("ETCD3_PASSWORD", "none", SAME),
    row("ETCD3_TLS_CERT", "none", SAME),
    row("ETCD3_TLS_KEY", "none", SAME),
    row("ETCD3_CA", "none", SAME),
    row("ETCD3_SKIP_VERIFY", "none", SAME),
    row("ETCD3_ENABLE_TLS", "none", SAME),
    row("ETCD3_DIAL_TIMEOUT", "none", SAME),
    unread("ETCD3_DEBUG", "none", &[set("", "not read: GUBER_LOG_LEVEL=trace shows what libraries say")]),
    row("GUBER_K8S_NAMESPACE", "default", SAME),
    row("GUBER_K8S_POD_IP", "none", &[set("D6", "may be an IPv6 address")]),
    row("GUBER_K8S_POD_PORT", "none", SAME),
    row("GUBER_K8S_SERVICE_NAME", "none", &[set("F2", NOT_BY_PREFIX)]),
    row("GUBER_K8S_SELECTOR", "none", &[set("F2", NOT_BY_PREFIX)]),
    row("GUBER_K8S_ENDPOINTS_SELECTOR", "none", SAME),
    row(
        "GUBER_K8S_WATCH_MECHANISM",
        "endpointslices",
        &[value(
            "D6",
            &["pods"],
            "pods without an address yet are no peers; there they become the peer `:port`",
        )],
    ),
    unread("KUBERNETES_SERVICE_HOST", "set in every pod", SAME),
    unread("KUBERNETES_SERVICE_PORT", "set in every pod", SAME),
    row(
        "GUBER_DNS_FQDN",
        "none",
        &[set("", "a name that begins _service._tcp is looked up as SRV, with its ports")],
    ),
    row("GUBER_RESOLV_CONF", "/etc/resolv.conf", SAME),
    // TLS.
    row("GUBER_TLS_CA", "none", &[TLS_ON]),
    row("GUBER_TLS_CA_KEY", "none", &[TLS_ON]),
    row("GUBER_TLS_CERT", "none", &[TLS_ON]),
    row("GUBER_TLS_KEY", "none", &[TLS_ON]),
    row("GUBER_TLS_AUTO", "false", &[TLS_ON]),
    row(
        "GUBER_TLS_MIN_VERSION",
        "1.3",
        &[
            TLS_ON,
            value("", &["1.0", "1.1"], "means 1.2, the oldest there is here"),
            set("", "an unknown version is refused; there it is logged and means 1.3"),
        ],
    ),
    row(
        "GUBER_TLS_CLIENT_AUTH",
        "off",
        &[
            TLS_ON,
            set(
                "W9",
                "no plaintext gRPC listener is opened beside the secured ones; there is one on a random loopback port",
            ),
        ],
    ),
    row("GUBER_TLS_CLIENT_AUTH_CA_CERT", "GUBER_TLS_CA", &[TLS_ON]),
    row("GUBER_TLS_CLIENT_AUTH_CERT", "the server certificate", &[TLS_ON]),
    row("GUBER_TLS_CLIENT_AUTH_KEY", "the server key", &[TLS_ON]),
    row("GUBER_TLS_CLIENT_AUTH_SERVER_NAME", "the dialled host", &[TLS_ON]),
    row("GUBER_TLS_INSECURE_SKIP_VERIFY", "false", &[TLS_ON]),
    // Tracing.
    row(
        "GUBER_TRACING_LEVEL",
        "INFO",
        &[set("", "a line of a configuration file counts too; there it comes too late")],
    ),
    row(
        "OTEL_TRACES_EXPORTER",
        "otlp",
        &[unset(
            "",
            "nothing is exported until an exporter or an endpoint is named; there every node tries localhost:4317",
        )],
    ),
    row(
        "OTEL_EXPORTER_OTLP_PROTOCOL",
        "grpc",
        &[set("", "an unknown word is refused; there it is logged and means grpc")],
    ),
    row("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL", SAME),
    row("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4317, over HTTP 4318", SAME),
    row("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", SAME),
    row("OTEL_EXPORTER_OTLP_HEADERS", "none", SAME),
    row("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS", SAME),
    row("OTEL_EXPORTER_OTLP_TIMEOUT", "10000", SAME),
    row("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT", SAME),
    row("OTEL_EXPORTER_OTLP_COMPRESSION", "none", SAME),
    row("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION", SAME),
    row("OTEL_EXPORTER_OTLP_INSECURE", "false", SAME),
    row("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE", SAME),
    row("OTEL_EXPORTER_OTLP_CERTIFICATE", "none", SAME),
    row("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "none", SAME),
    row("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "none", SAME),
    row("OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "none", SAME),
    row("OTEL_EXPORTER_OTLP_CLIENT_KEY", "none", SAME),
    row("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "none", SAME),
    row("OTEL_TRACES_SAMPLER", "parentbased_always_on", SAME),
    row("OTEL_TRACES_SAMPLER_ARG", "1", SAME),
    row(
        "OTEL_SERVICE_NAME",
        "ignored, always gubernator",
        &[set("F10", "is the service's name in traces; there it is ignored")],
    ),
    row("OTEL_RESOURCE_ATTRIBUTES", "none", SAME),
    row("OTEL_SDK_DISABLED", "false", SAME),
    row("OTEL_BSP_SCHEDULE_DELAY", "5000", SAME),
    row("OTEL_BSP_MAX_QUEUE_SIZE", "2048", SAME),
    row("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "512", SAME),
    unread(
        "OTEL_BSP_EXPORT_TIMEOUT",
        "30000",
        &[set("", "not read: OTEL_EXPORTER_OTLP_TIMEOUT bounds an export")],
    ),
    row("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "128", SAME),
    row("OTEL_ATTRIBUTE_COUNT_LIMIT", "128", SAME),
    row("OTEL_SPAN_EVENT_COUNT_LIMIT", "128", SAME),
    row("OTEL_SPAN_LINK_COUNT_LIMIT", "128", SAME),
    row("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "128", SAME),
    row("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "128", SAME),
    // What the original reads of the machine.
    unread(
        "TZ",
        "the machine's zone",
        &[set(
            "A22",
            "not read: calendar limits follow FLYBALL_TIME_ZONE, UTC unless set; there they follow the machine's zone",
        )],
    ),
    unread("RUNNER_OS", "none", &[set("", "not read: the listeners' defaults are the same everywhere")]),
    unread("HTTPS_PROXY", "none", &[NO_PROXY]),
    unread("HTTP_PROXY", "none", &[NO_PROXY]),
    unread("NO_PROXY", "none", SAME),
];

/// Said when nothing else about the ring of a mixed cluster was said.
pub(super) const SEMANTICS_UNSET: &str = "answers are exact ones (docs/semantics.md); while originals are in the \
                                          cluster start with --semantics gubernator, so that a key's answers do not \
                                          depend on its owner";

/// The row of a variable.
pub(super) fn original(variable: &str) -> Option<&'static Original> {
    ORIGINALS.iter().find(|row| row.variable == variable)
}
