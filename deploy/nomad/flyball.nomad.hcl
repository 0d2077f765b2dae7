# Three nodes as a service job, found by Consul's DNS:
#
#   nomad job run -var image=REGISTRY/flyball:0.1.0 deploy/nomad/flyball.nomad.hcl
#
# Ports are fixed, since all peers of a name share one. One node on a client at most, therefore.

variable "image" {
  type        = string
  description = "Where the image built from deploy/Dockerfile is kept."
  default     = "flyball:0.1.0"
}

variable "datacenters" {
  type    = list(string)
  default = ["dc1"]
}

job "flyball" {
  type        = "service"
  datacenters = var.datacenters

  update {
    max_parallel     = 1
    health_check     = "checks"
    min_healthy_time = "5s"
    healthy_deadline = "2m"
    auto_revert      = true
  }

  group "node" {
    count = 3

    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }

    network {
      mode = "host"

      port "http" {
        static = 1050
      }

      port "grpc" {
        static = 1051
      }
    }

    service {
      name = "flyball"
      port = "grpc"

      check {
        name     = "ready"
        type     = "http"
        port     = "http"
        path     = "/readyz"
        interval = "2s"
        timeout  = "2s"
      }
    }

    service {
      name = "flyball-http"
      port = "http"
      tags = ["metrics"]

      check {
        name     = "alive"
        type     = "http"
        path     = "/livez"
        interval = "10s"
        timeout  = "2s"
      }
    }

    task "flyball" {
      driver = "docker"

      # Delay, graceful stop, the last second for traces, and some air.
      kill_timeout = "20s"
      kill_signal  = "SIGTERM"

      config {
        image           = var.image
        args            = ["serve"]
        network_mode    = "host"
        readonly_rootfs = true
        cap_drop        = ["ALL"]
      }

      env {
        GUBER_GRPC_ADDRESS                   = "${NOMAD_IP_grpc}:1051"
        GUBER_HTTP_ADDRESS                   = "${NOMAD_IP_http}:1050"
        GUBER_INSTANCE_ID                    = "${NOMAD_ALLOC_ID}"
        GUBER_PEER_DISCOVERY_TYPE            = "dns"
        GUBER_DNS_FQDN                       = "flyball.service.consul"
        GUBER_LOG_FORMAT                     = "json"
        GUBER_GRACEFUL_TERMINATION_DELAY_SEC = "5"
      }

      resources {
        cpu    = 500
        memory = 448
      }
    }
  }
}
