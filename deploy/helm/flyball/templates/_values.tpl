{{/*
The values in force: files/defaults.yaml, over it what the original's chart would understand (`gubernator:`), over that
our own (`flyball:`). Called once per template file; the answer is YAML.
*/}}
{{- define "flyball.values" -}}
{{- $values := .Files.Get "files/defaults.yaml" | fromYaml -}}
{{- include "flyball.overlay" (list $values (include "flyball.fromGubernator" . | fromYaml)) -}}
{{- include "flyball.overlay" (list $values (.Values.flyball | default dict)) -}}
{{- toYaml $values -}}
{{- end -}}

{{/*
Writes the second map over the first, map by map. Not `mergeOverwrite`, which takes `false`, 0 and "" for absent.
*/}}
{{- define "flyball.overlay" -}}
{{- $under := index . 0 -}}
{{- range $key, $value := index . 1 -}}
  {{- if and (kindIs "map" $value) (kindIs "map" (get $under $key)) -}}
    {{- include "flyball.overlay" (list (get $under $key) $value) -}}
  {{- else -}}
    {{- $_ := set $under $key $value -}}
  {{- end -}}
{{- end -}}
{{- end -}}

{{/*
The original's values by our names. Its chart has `{}` where a text belongs (nameOverride, priorityClassName), so only
texts are taken for texts. Its image is not taken: that is another program.
*/}}
{{- define "flyball.fromGubernator" -}}
{{- $g := .Values.gubernator | default dict -}}
{{- $ours := dict -}}
{{- range $theirs, $name := dict "nameOverride" "nameOverride" "fullnameOverride" "fullnameOverride" "priorityClassName" "priorityClassName" -}}
  {{- if kindIs "string" (get $g $theirs) -}}{{- $_ := set $ours $name (get $g $theirs) -}}{{- end -}}
{{- end -}}
{{- range $theirs, $name := dict "replicaCount" "replicas" "labels" "labels" "annotations" "podAnnotations" "nodeSelector" "nodeSelector" "affinity" "affinity" "tolerations" "tolerations" "resources" "resources" "podSecurityContext" "podSecurityContext" "securityContext" "securityContext" "extraEnv" "extraEnv" -}}
  {{- if get $g $theirs -}}{{- $_ := set $ours $name (get $g $theirs) -}}{{- end -}}
{{- end -}}
{{- $image := $g.image | default dict -}}
{{- $_ := set $ours "image" dict -}}
{{- with $image.pullPolicy -}}{{- $_ := set $ours.image "pullPolicy" . -}}{{- end -}}
{{- with $image.pullSecrets -}}{{- $_ := set $ours.image "pullSecrets" . -}}{{- end -}}
{{- $server := $g.server | default dict -}}
{{- $grpc := $server.grpc | default dict -}}
{{- $http := $server.http | default dict -}}
{{- $_ := set $ours "grpc" dict -}}
{{- with $grpc.port -}}{{- $_ := set $ours.grpc "port" (int .) -}}{{- end -}}
{{- with $grpc.maxConnAgeSeconds -}}{{- $_ := set $ours.grpc "maxConnectionAgeSeconds" (int .) -}}{{- end -}}
{{- with $http.port -}}{{- $_ := set $ours "http" (dict "port" (int .)) -}}{{- end -}}
{{- if $g.debug -}}{{- $_ := set $ours "logLevel" "debug" -}}{{- end -}}
{{- if $g.watchPods -}}{{- $_ := set $ours "discovery" (dict "watch" "pods") -}}{{- end -}}
{{- with $g.serviceAccount -}}
  {{- $account := dict -}}
  {{- if hasKey . "create" -}}{{- $_ := set $account "create" .create -}}{{- end -}}
  {{- if kindIs "string" .name -}}{{- $_ := set $account "name" .name -}}{{- end -}}
  {{- $_ := set $ours "serviceAccount" $account -}}
{{- end -}}
{{- with $g.serviceMonitor -}}
  {{- $monitor := dict -}}
  {{- if hasKey . "create" -}}{{- $_ := set $monitor "enabled" .create -}}{{- end -}}
  {{- with .interval -}}{{- $_ := set $monitor "interval" . -}}{{- end -}}
  {{- with .scrapeTimeout -}}{{- $_ := set $monitor "scrapeTimeout" . -}}{{- end -}}
  {{- with .relabellings -}}{{- $_ := set $monitor "relabelings" . -}}{{- end -}}
  {{- with .metricRelabelings -}}{{- $_ := set $monitor "metricRelabelings" . -}}{{- end -}}
  {{- $_ := set $ours "serviceMonitor" $monitor -}}
{{- end -}}
{{- with $g.autoscaling -}}
  {{- $_ := set $ours "autoscaling" (include "flyball.autoscalingFromGubernator" . | fromYaml) -}}
{{- end -}}
{{- toYaml $ours -}}
{{- end -}}

{{- define "flyball.autoscalingFromGubernator" -}}
{{- $scaling := dict -}}
{{- if hasKey . "enabled" -}}{{- $_ := set $scaling "enabled" .enabled -}}{{- end -}}
{{- with .methodScaling -}}{{- $_ := set $scaling "method" . -}}{{- end -}}
{{- range $name := list "minReplicas" "maxReplicas" "pollingInterval" "cooldownPeriod" -}}
  {{- with get $ $name -}}{{- $_ := set $scaling $name (int .) -}}{{- end -}}
{{- end -}}
{{- with .cpuAverageUtilization -}}{{- $_ := set $scaling "targetCPU" (int .) -}}{{- end -}}
{{- if eq (.methodScaling | default "hpa") "keda" -}}
  {{- with .targetCPUUtilizationPercentage -}}{{- $_ := set $scaling "targetCPU" (int .) -}}{{- end -}}
  {{- with .targetMemoryUtilizationPercentage -}}{{- $_ := set $scaling "targetMemory" (int .) -}}{{- end -}}
{{- end -}}
{{- $up := dict -}}
{{- $down := dict -}}
{{- $upPolicies := list -}}
{{- with .behaviorScaleUpPercent -}}{{- $upPolicies = append $upPolicies (dict "type" "Percent" "value" (int .) "periodSeconds" 60) -}}{{- end -}}
{{- with .behaviorScaleUpPods -}}{{- $upPolicies = append $upPolicies (dict "type" "Pods" "value" (int .) "periodSeconds" 60) -}}{{- end -}}
{{- with $upPolicies -}}{{- $_ := set $up "policies" . -}}{{- end -}}
{{- with .behaviorScaleDownPercent -}}{{- $_ := set $down "policies" (list (dict "type" "Percent" "value" (int .) "periodSeconds" 60)) -}}{{- end -}}
{{- with .upscaleForbiddenWindowSeconds -}}{{- $_ := set $up "stabilizationWindowSeconds" (int .) -}}{{- end -}}
{{- with .downscaleForbiddenWindowSeconds -}}{{- $_ := set $down "stabilizationWindowSeconds" (int .) -}}{{- end -}}
{{- $behavior := dict -}}
{{- with $up -}}{{- $_ := set $behavior "scaleUp" . -}}{{- end -}}
{{- with $down -}}{{- $_ := set $behavior "scaleDown" . -}}{{- end -}}
{{- $_ := set $scaling "behavior" $behavior -}}
{{- toYaml $scaling -}}
{{- end -}}
