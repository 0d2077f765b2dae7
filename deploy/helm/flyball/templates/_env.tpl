{{/*
The environment of the container. A variable that extraEnv has too is left to it: a name must not stand twice in a
list that the API server merges by name. Those that others refer to ($(NAME)) come first.
*/}}
{{- define "flyball.env" -}}
{{- $v := index . 1 -}}
{{- $port := int $v.grpc.port -}}
{{- $env := list
  (dict "name" "GUBER_K8S_NAMESPACE" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.namespace")))
  (dict "name" "GUBER_K8S_POD_IP" "valueFrom" (dict "fieldRef" (dict "fieldPath" "status.podIP")))
  (dict "name" "GUBER_INSTANCE_ID" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.name")))
  (dict "name" "GUBER_GRPC_ADDRESS" "value" (printf "%s:%d" $v.listenHost $port))
  (dict "name" "GUBER_HTTP_ADDRESS" "value" (printf "%s:%d" $v.listenHost (int $v.http.port)))
  (dict "name" "GUBER_PEER_DISCOVERY_TYPE" "value" $v.discovery.type)
  (dict "name" "FLYBALL_SEMANTICS" "value" $v.semantics)
  (dict "name" "GUBER_LOG_FORMAT" "value" $v.logFormat)
  (dict "name" "GUBER_GRACEFUL_TERMINATION_DELAY_SEC" "value" (toString (int $v.shutdown.delaySeconds)))
  (dict "name" "FLYBALL_SHUTDOWN_TIMEOUT" "value" (printf "%ds" (int $v.shutdown.timeoutSeconds)))
-}}
{{- if eq $v.discovery.type "k8s" -}}
  {{- $selector := printf "app.kubernetes.io/name=%s,app.kubernetes.io/instance=%s" (include "flyball.name" .) (index . 0).Release.Name -}}
  {{- $env = concat $env (list
    (dict "name" "GUBER_K8S_POD_PORT" "value" (toString $port))
    (dict "name" "GUBER_K8S_WATCH_MECHANISM" "value" $v.discovery.watch)
    (dict "name" "GUBER_K8S_SERVICE_NAME" "value" (include "flyball.fullname" .))
    (dict "name" "GUBER_K8S_SELECTOR" "value" $selector)) -}}
{{- else if eq $v.discovery.type "dns" -}}
  {{- $name := printf "%s.%s.svc.%s" (include "flyball.fullname" .) (index . 0).Release.Namespace $v.discovery.clusterDomain -}}
  {{- $env = concat $env (list
    (dict "name" "GUBER_ADVERTISE_ADDRESS" "value" (printf "$(GUBER_K8S_POD_IP):%d" $port))
    (dict "name" "GUBER_DNS_FQDN" "value" $name)) -}}
{{- end -}}
{{- with $v.logLevel -}}{{- $env = append $env (dict "name" "GUBER_LOG_LEVEL" "value" .) -}}{{- end -}}
{{- with $v.grpc.maxConnectionAgeSeconds -}}
  {{- $env = append $env (dict "name" "GUBER_GRPC_MAX_CONN_AGE_SEC" "value" (toString (int .))) -}}
{{- end -}}
{{- with $v.peerSecret.existingSecret -}}
  {{- $env = append $env (dict "name" "FLYBALL_CLUSTER_PEER_SECRET" "valueFrom" (dict "secretKeyRef" (dict "name" . "key" $v.peerSecret.key))) -}}
{{- end -}}
{{- if $v.tls.enabled -}}
  {{- $env = concat $env (list
    (dict "name" "GUBER_TLS_CERT" "value" "/etc/flyball/tls/tls.crt")
    (dict "name" "GUBER_TLS_KEY" "value" "/etc/flyball/tls/tls.key")
    (dict "name" "GUBER_TLS_CA" "value" "/etc/flyball/tls/ca.crt")) -}}
  {{- with $v.tls.minVersion -}}{{- $env = append $env (dict "name" "GUBER_TLS_MIN_VERSION" "value" .) -}}{{- end -}}
  {{- with $v.tls.serverName -}}{{- $env = append $env (dict "name" "GUBER_TLS_CLIENT_AUTH_SERVER_NAME" "value" .) -}}{{- end -}}
  {{- with $v.tls.clientAuth -}}{{- $env = append $env (dict "name" "GUBER_TLS_CLIENT_AUTH" "value" .) -}}{{- end -}}
  {{- if $v.tls.clientAuthSecretName -}}
    {{- $env = concat $env (list
      (dict "name" "GUBER_TLS_CLIENT_AUTH_CERT" "value" "/etc/flyball/client-tls/tls.crt")
      (dict "name" "GUBER_TLS_CLIENT_AUTH_KEY" "value" "/etc/flyball/client-tls/tls.key")
      (dict "name" "GUBER_TLS_CLIENT_AUTH_CA_CERT" "value" "/etc/flyball/client-tls/ca.crt")) -}}
  {{- end -}}
  {{- if include "flyball.hasStatusPort" . -}}
    {{- $env = append $env (dict "name" "GUBER_STATUS_HTTP_ADDRESS" "value" (printf "%s:%d" $v.listenHost (int $v.tls.statusPort))) -}}
  {{- end -}}
{{- end -}}
{{- range $name, $value := $v.settings -}}
  {{- $env = append $env (dict "name" $name "value" (toString $value)) -}}
{{- end -}}
{{- /* Of two of a name the later one counts: settings beat ours, extraEnv beats settings. */ -}}
{{- $all := concat $env $v.extraEnv -}}
{{- $kept := list -}}
{{- $seen := dict -}}
{{- range reverse $all -}}
  {{- if not (hasKey $seen .name) -}}
    {{- $_ := set $seen .name true -}}
    {{- $kept = prepend $kept . -}}
  {{- end -}}
{{- end -}}
{{- toYaml $kept -}}
{{- end -}}

{{/*
Seconds until a pod may be killed: the delay and the bound of the stop as its environment has them, whoever set them,
the last second for traces, and some air.
*/}}
{{- define "flyball.gracePeriod" -}}
{{- $v := index . 1 -}}
{{- $delay := int $v.shutdown.delaySeconds -}}
{{- $timeout := int $v.shutdown.timeoutSeconds -}}
{{- range include "flyball.env" . | fromYamlArray -}}
  {{- if and (eq .name "GUBER_GRACEFUL_TERMINATION_DELAY_SEC") .value -}}{{- $delay = int .value -}}{{- end -}}
  {{- if and (eq .name "FLYBALL_SHUTDOWN_TIMEOUT") .value -}}
    {{- if not (regexMatch "^[0-9]+s$" .value) -}}
      {{- fail (printf "FLYBALL_SHUTDOWN_TIMEOUT is %q; expected whole seconds, such as 10s: the pod's grace period is made of it" .value) -}}
    {{- end -}}
    {{- $timeout = int (trimSuffix "s" .value) -}}
  {{- end -}}
{{- end -}}
{{- add $delay $timeout 5 -}}
{{- end -}}
