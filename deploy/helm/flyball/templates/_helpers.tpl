{{/* All of these take (list $ $v): the chart's context and the values in force. */}}

{{- define "flyball.name" -}}
{{- $v := index . 1 -}}
{{- $v.nameOverride | default (index . 0).Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The release's name, as in the original's chart: an upgrade in place keeps every object's name. */}}
{{- define "flyball.fullname" -}}
{{- $v := index . 1 -}}
{{- $v.fullnameOverride | default (index . 0).Release.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "flyball.selectorLabels" -}}
app.kubernetes.io/name: {{ include "flyball.name" . }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end -}}

{{- define "flyball.labels" -}}
{{- $c := index . 0 -}}
{{- $v := index . 1 -}}
{{ include "flyball.selectorLabels" . }}
app.kubernetes.io/version: {{ $c.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $c.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $c.Chart.Name $c.Chart.Version | replace "+" "_" }}
{{- with $v.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "flyball.metadata" -}}
{{- $v := index . 1 -}}
name: {{ include "flyball.fullname" . }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  {{- include "flyball.labels" . | nindent 2 }}
{{- with $v.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "flyball.serviceAccountName" -}}
{{- $v := index . 1 -}}
{{- if $v.serviceAccount.create -}}
{{- $v.serviceAccount.name | default (include "flyball.fullname" .) -}}
{{- else -}}
{{- $v.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* True where pods have to ask the API server. */}}
{{- define "flyball.asksApi" -}}
{{- if eq (index . 1).discovery.type "k8s" -}}true{{- end -}}
{{- end -}}

{{/* True where clients have to show a certificate, so that kubelet and scrapers need a listener of their own. */}}
{{- define "flyball.hasStatusPort" -}}
{{- $v := index . 1 -}}
{{- if and $v.tls.enabled (has $v.tls.clientAuth (list "require-any-cert" "require-and-verify")) -}}true{{- end -}}
{{- end -}}

{{/* Where probes and scrapers ask: port name and scheme. */}}
{{- define "flyball.healthPort" -}}
{{- if include "flyball.hasStatusPort" . -}}status{{- else -}}http{{- end -}}
{{- end -}}
{{- define "flyball.healthScheme" -}}
{{- if (index . 1).tls.enabled -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end -}}

{{- define "flyball.image" -}}
{{- $c := index . 0 -}}
{{- with (index . 1).image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $c.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What cannot work is refused here, with what to do. */}}
{{- define "flyball.check" -}}
{{- $v := index . 1 -}}
{{- if and $v.tls.enabled (not $v.tls.secretName) -}}
{{- fail "flyball.tls.enabled needs flyball.tls.secretName: a Secret of type kubernetes.io/tls with tls.crt, tls.key and ca.crt" -}}
{{- end -}}
{{- if and $v.tls.clientAuth (not $v.tls.enabled) -}}
{{- fail "flyball.tls.clientAuth asks clients for certificates, which needs flyball.tls.enabled" -}}
{{- end -}}
{{- if not (has $v.autoscaling.method (list "hpa" "keda")) -}}
{{- fail (printf "flyball.autoscaling.method is %q; expected hpa or keda" $v.autoscaling.method) -}}
{{- end -}}
{{- if eq (int $v.grpc.port) (int $v.http.port) -}}
{{- fail (printf "gRPC and HTTP cannot both listen on port %d" (int $v.grpc.port)) -}}
{{- end -}}
{{- end -}}
